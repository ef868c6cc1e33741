"""Put what was measured into the texts: ``python -m benchmarks.readme``.

This folder's README gets the tables of the records, ``results/tables.md`` the ratios of its section
on speed, ``answers.md``, ``scale.md`` and ``docs/tuning.md`` their tables.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, table

HERE = Path(__file__).parent

_PLACES = (("cpu", "CPU", 784), ("cpu", "CPU", 2048), ("cuda", "GPU", 784), ("cuda", "GPU", 5120))
"""The columns of the ratios: a record, its name, and the number of features."""

_LAYER = "build a layer, d {d}, k 10, {dtype}"
_SAMPLES = "build a layer, d {d}, k 10, m 60,000, {dtype}"
_MOMENTS = "moments of 60,000 samples, d {d}, samples in "
_RATIOS = (
    ("build a layer: time / floor", _LAYER, "over_floor"),
    ("build a layer: time / the same calls alone", _LAYER, "over_primitives"),
    ("samples through a layer: time / floor", r"transform \S+ samples, d {d}, k 10, {dtype}", ""),
    ("moments of bytes: time / floor", _MOMENTS + "uint8", ""),
    ("moments of floats: time / floor", _MOMENTS + "{dtype}", ""),
    ("from samples, the paper's step (a): time / a layer's", _SAMPLES, "faster_than_a"),
    ("from samples, the published way (b): time / a layer's", _SAMPLES, "faster_than_b"),
    ("from samples, (b) written for speed: time / a layer's", _SAMPLES, "faster_than_c"),
)
"""The lines: what is said, a pattern of the case that it is of, the figure (or over_floor)."""


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records there are, by name."""
    paths = {name: folder / f"{name}.json" for name in ("cpu", "cuda")}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}


def with_tables(text: str, found: dict[str, dict[str, Any]]) -> str:
    """The text with the table of each record where it belongs."""
    for name, record in found.items():
        about = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
        body = f"{about}\n\n{table(record['rows'])}"
        text = between(text, f"table of results/{name}.json: begin", body)
    return text


def with_ratios(text: str, found: dict[str, dict[str, Any]]) -> str:
    """The text with the ratios of all records where they belong."""
    places = [place for place in _PLACES if place[0] in found]
    lines = [["", *(f"{name}, d {d:,}" for _, name, d in places)], ["---", *["---:"] * len(places)]]
    for words, case, key in _RATIOS:
        cells = [_cell(found[record]["rows"], case, key, d) for record, _, d in places]
        if any(cells):
            lines.append([words, *cells])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return between(text, "ratios of benchmarks/results: begin", body)


def with_answers(text: str, folder: Path) -> str:
    """The text with the tables of the records of `benchmarks.answers` in a folder."""
    bodies = []
    for path in sorted(folder.glob("answers-*.json")):
        found = json.loads(path.read_text())
        about = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
        rows = [_answer_cells(row) for row in found["rows"]]
        heads = list(dict.fromkeys(head for row in rows for head in row))
        lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
        lines += [[row.get(head, "") for head in heads] for row in rows]
        bodies.append(f"{about}:\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return between(text, "answers table: results", "\n\n".join(bodies))


_ANSWERS = {
    "learn": ("learn, s", 1.0),
    "first_answer": ("first answer, s", 1.0),
    "fused": ("all answers, s", 1.0),
    "cascade": ("all answers, s", 1.0),
    "answers": ("all answers, s", 1.0),
    "one_answer": ("one answer, ms", 1e3),
    "one_sample": ("one answer, ms", 1e3),
    "lda": ("LDA, s", 1.0),
    "fused_over_lda": ("time / LDA's", 1.0),
    "cascade_over_lda": ("time / LDA's", 1.0),
    "over_lda": ("time / LDA's", 1.0),
    "whole_over_fused": ("whole network's time / fused", 1.0),
    "whole_over_cascade": ("whole network's time / cascade", 1.0),
    "bytes": ("file, MB", 1e-6),
    "peak_memory_bytes": ("peak memory, GB", 1e-9),
    "peak_device_memory_bytes": ("GPU memory, GB", 1e-9),
    "accuracy": ("accuracy", 1.0),
}
"""Of a figure of `benchmarks.answers`, what a table calls it, and its scale there."""


def with_labels(text: str, folder: Path) -> str:
    """The text with the table of the records of `benchmarks.labels` in a folder."""
    lines = [
        ["", "training samples", "layers", "blocks tried", "fell back", "labels that differ"],
        ["---", "---:", "---:", "---:", "---:", "---:"],
    ]
    for path in sorted(folder.glob("labels-*.json")):
        for row in json.loads(path.read_text())["rows"]:
            fusions = row["fusions"]
            lines.append(
                [
                    row["case"],
                    f"{row['train_samples']:,}",
                    str(fusions["layers"]),
                    ", ".join(map(str, fusions["blocks"])) or "none pays",
                    f"{fusions['fell_back'] / fusions['samples']:.1%}",
                    f"{row['labels_that_differ']} of {row['samples']:,}",
                ]
            )
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return between(text, "labels table: results", body)


def with_calibration(text: str, path: Path) -> str:
    """The text with the table of the record of `benchmarks.calibration`."""
    ways = ("before", "moments", "validation")
    heads = ["", "accuracy", "before", "T from the moments", "T from validation data"]
    lines = [heads, ["---", *["---:"] * 4]]
    for row in json.loads(path.read_text())["rows"]:
        errors = [f"{row[f'error_{way}']:.4f}" for way in ways]
        lines.append([row["case"], f"{row['accuracy']:.4f}", *errors])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return between(text, f"calibration table: ../benchmarks/results/{path.name}", body)


def with_dask(text: str, path: Path) -> str:
    """The text with the table of the record of `benchmarks.dask_learning`."""
    found = json.loads(path.read_text())
    about, rows = found["machine"], found["rows"]
    heads = ["", "s (least, most)", "rows / s", "time / floor", "time / one process (of the least)"]
    heads += ["workers sent, MB", "others sent, MB"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for row in rows:
        sent = [row.get(f"bytes_sent_{which}") for which in ("by_workers", "to_workers")]
        lines.append(
            [
                row["way"],
                f"{row['measured']:.3g} ({row['least']:.3g}, {row['most']:.3g})",
                f"{row['rows_per_second']:,.0f}",
                f"{row['over_floor']:.2f}",
                f"{row['over_one_process']:.2f} ({row['least'] / rows[0]['least']:.2f})",
                *("" if one is None else f"{one / 1e6:.1f}" for one in sent),
            ]
        )
    what = rows[0]["case"].removesuffix(f", {rows[0]['way']}")
    facts = f"{what}; {about['cpu']}, {about['threads']} threads, load before "
    facts += f"{about['load_before']}; medians of {about['rounds']}, {about['date']}:"
    body = facts + "\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return between(text, f"dask table: results/{path.name}", body)


def with_ranks(text: str, folder: Path) -> str:
    """The text with the tables of the records of `benchmarks.ranks` in a folder."""
    bodies = []
    for path in sorted(folder.glob("ranks-*.json")):
        found = json.loads(path.read_text())
        about = [found["machine"][key] for key in ("cpu", "gpu", "date") if key in found["machine"]]
        rows = [_rank_cells(row) for row in found["rows"]]
        lines = [[*rows[0]], ["---", *["---:"] * (len(rows[0]) - 1)]]
        lines += [[*row.values()] for row in rows]
        load = found["machine"]["load_before"]
        threads = f"{found['machine']['threads']} thread a process, load before {load}"
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        bodies.append(f"{', '.join(about)}, {threads}:\n\n{table}")
    return between(text, "ranks table: results", "\n\n".join(bodies))


def _rank_cells(row: Row) -> dict[str, str]:
    moved = row["bytes_to_build"] + row["bytes_to_label"]
    messages = row["messages_to_build"] + row["messages_to_label"]
    return {
        "": row["case"],
        "processes": str(row["ranks"]),
        "memory of one, GB": f"{row['beyond_imports'] / 1e9:.2f}",
        **(
            {"GPU memory of one, GB": f"{row['peak_device_memory'] / 1e9:.2f}"}
            if "peak_device_memory" in row
            else {}
        ),
        "read, s": _seconds(row, "read"),
        "build, s": _seconds(row, "build"),
        f"label {row['labels_compared']:,}, s": _seconds(row, "label"),
        "messages": str(messages) if messages else "–",
        "bytes, MB": f"{moved / 1e6:.1f}" if messages else "–",
        "sent by all, MB": f"{row['bytes_on_loopback'] / 1e6:.1f}" if messages else "–",
        "labels that differ": str(row["labels_that_differ"]),
        "scores differ by": f"{row['largest_difference_of_scores']:.0e}" if messages else "–",
    }


def _seconds(row: Row, name: str) -> str:
    """Seconds, and after a slash those that a process worked."""
    return f"{row[name]:.1f} / {row[f'{name}_cpu']:.1f}"


def _answer_cells(row: Row) -> dict[str, str]:
    cells = {"": row["case"]}
    for key, (head, scale) in _ANSWERS.items():
        if key in row:
            cells[head] = f"{row[key] * scale:.3g}"
    fusions = row.get("fusions")
    if fusions and fusions["blocks"]:
        cells["fell back"] = f"{fusions['fell_back'] / fusions['samples']:.1%}"
    if "labels_that_differ" in row:
        differ = f"{row['labels_that_differ']} of {row['labels_compared']:,}"
        cells["labels that differ"] = differ
    return cells


def _cell(rows: list[Row], case: str, key: str, d: int) -> str:
    """A figure, or one in float64 and one in float32 where the case names a dtype."""
    figures = []
    for dtype in ("float64", "float32") if "{dtype}" in case else ("",):
        pattern = case.replace("{d}", str(d)).replace("{dtype}", dtype)
        key = key or "over_floor"
        figures += [row[key] for row in rows if re.fullmatch(pattern, row["case"]) and key in row]
    return ", ".join(f"{figure:.2f}" if figure < 10 else f"{figure:.0f}" for figure in figures)


def between(text: str, mark: str, body: str) -> str:
    """The text with a body between a mark and the next end mark, if the mark is there."""
    begin, end = f"<!-- {mark} -->", "<!-- end -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{body}\n{end}{rest.partition(end)[2]}" if rest else text


def main() -> None:
    found = records(HERE / "results")
    results = HERE.parent / "results" / "tables.md"
    for path, fill in ((HERE / "README.md", with_tables), (results, with_ratios)):
        path.write_text(fill(path.read_text(), found))
    answers = HERE / "answers.md"
    text = with_answers(answers.read_text(), HERE / "results")
    answers.write_text(with_labels(text, HERE / "results"))
    tuning = HERE.parent / "docs" / "tuning.md"
    tuning.write_text(with_calibration(tuning.read_text(), HERE / "results" / "calibration.json"))
    scale = HERE / "scale.md"
    text = with_ranks(scale.read_text(), HERE / "results")
    scale.write_text(with_dask(text, HERE / "results" / "dask-cpu.json"))


if __name__ == "__main__":
    main()
