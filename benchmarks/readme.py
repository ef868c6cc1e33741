"""Put the table of a record into this folder's README: ``python -m benchmarks.readme``."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measure import table

HERE = Path(__file__).parent


def main() -> None:
    text = (HERE / "README.md").read_text()
    for name in ("cpu", "cuda"):
        path = HERE / "results" / f"{name}.json"
        if path.exists():
            record = json.loads(path.read_text())
            about = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
            begin, end = f"<!-- table of results/{name}.json: begin -->", "<!-- end -->"
            before, _, rest = text.partition(begin)
            after = rest.partition(end)[2]
            text = f"{before}{begin}\n{about}\n\n{table(record['rows'])}\n{end}{after}"
    (HERE / "README.md").write_text(text)


if __name__ == "__main__":
    main()
