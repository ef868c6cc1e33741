"""Tables of pages, from the records they name: `python -m redunet.report.readme README.md ...`.

A table stands between ``<!-- table: results/name.json -->`` and ``<!-- end -->``. Of several
records, of recipes and of comparisons, there is a row for each recipe. With ``--check`` nothing is
written, and a table that differs from its record is an error.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redunet.files import write_bytes
from redunet.report.ablation import recipe_markdown, recipes_markdown
from redunet.report.methods import comparison_markdown
from redunet.report.tables import accuracy_markdown, markdown_table

_BLOCK = re.compile(r"(<!-- table: ([^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, root: Path) -> str:
    """The text with each table made anew from its record under ``root``."""

    def table(match: re.Match[str]) -> str:
        names = match[2].split()
        records = [json.loads((root / name).read_text(encoding="utf-8")) for name in names]
        made = table_of(records[0]) if len(records) == 1 else recipes_markdown(records)
        return f"{match[1]}{made.rstrip()}\n{match[3]}"

    return _BLOCK.sub(table, text)


def table_of(record: Mapping[str, Any]) -> str:
    """The table of a record of any kind: a recipe, comparison, reproduction, the demonstration."""
    if "ablation" in record:
        return recipe_markdown(record)
    if "methods" in record:
        return comparison_markdown(record)
    return accuracy_markdown(record) if "variants" in record else demo_markdown(record)


def demo_markdown(record: Mapping[str, Any]) -> str:
    """The table of the demonstration's record."""
    rows = record["tasks"]
    same = ["identical" if all_same(row["equivalence"]) else "different" for row in rows]
    return markdown_table(
        ["", *(f"task {number}" for number in range(1, len(rows) + 1))],
        [
            ["incremental", *(f"{row['accuracy']:.4f}" for row in rows)],
            ["joint", *(f"{row['joint_accuracy']:.4f}" for row in rows)],
            ["moments, networks, files, labels", *same],
        ],
    )


def all_same(equivalence: Mapping[str, Any]) -> bool:
    """Whether two models agreed in everything that was compared."""
    agreed = all(equivalence[what] for what in ("moments", "network", "file"))
    return agreed and equivalence["labels_that_differ"] == 0


def main(words: list[str]) -> int:
    """Fill the tables of files, or check them; 0 where all is well."""
    check, differ = "--check" in words, 0
    for path in (Path(word) for word in words if word != "--check"):
        text = path.read_text(encoding="utf-8")
        wanted = filled(text, path.parent)
        if not check:
            write_bytes(path, wanted.encode())
        elif text != wanted:
            sys.stderr.write(f"{path} does not say what its records say: run make tables\n")
            differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
