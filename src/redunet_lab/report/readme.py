"""Tables and pictures of README, docs and notebooks, from the records they name.

A table stands between ``<!-- NAME: results/name.json -->`` and ``<!-- end -->``, where NAME says
which: a key of `TABLES`. With ``--check`` nothing is written, and a table that differs from its
record is an error; with ``--figures`` the pictures of `FIGURES` are drawn too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Canvas

from redunet.report.blocks import Table
from redunet.report.drawing import DPI, TEXT, as_png
from redunet.report.figures import png
from redunet.report.lines import draw_lines
from redunet.report.words import three
from redunet.safety.files import write_bytes
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.report.ingredients import ingredients_table
from redunet_lab.report.numbers import (
    UNKNOWN,
    Record,
    Spread,
    in_bytes,
    in_seconds,
    last,
    paper_rows,
    shown,
)
from redunet_lab.report.record_figures import accuracy_figure, accuracy_lines
from redunet_lab.report.sections import exactness_table, kept_bytes, result_table
from redunet_lab.report.text import markdown_table

WITH_EXEMPLARS = {"icarl": "iCaRL", "er": "ER", "derpp": "DER++"}
FIGURES = ("mnist", "cifar10", "compare-mnist", "compare-digits", "compare-cifar10")
"""Records whose accuracy is drawn beside them."""


def filled(text: str, root: Path) -> str:
    """The text with each table made again from its records under ``root``."""

    def table(match: re.Match[str]) -> str:
        names = match[3].split()
        records = [json.loads((root / name).read_text(encoding="utf-8")) for name in names]
        return f"{match[1]}{markdown_table(TABLES[match[2]](records))}\n{match[4]}"

    block = rf"(<!-- ({'|'.join(TABLES)}): ([^>]+) -->\n).*?(<!-- end -->)"
    return re.sub(block, table, text, flags=re.DOTALL)


def recipes_table(records: Sequence[Record]) -> Table:
    """A row for each recipe: its network, the best of the others, the paper, after the last task.

    Records without a recipe are comparisons on the same data sets.
    """
    gradient = {
        record["data"]: {method["method"]: last(method) for method in record["methods"]}
        for record in records
        if not record.get("recipe")
    }
    rows = []
    for record in records:
        if not record.get("recipe"):
            continue
        theirs = gradient.get(record["data"], {})
        kept = {method: theirs[method] for method in WITH_EXEMPLARS if method in theirs}
        name = max(kept, key=lambda method: kept[method].mean, default=None)
        paper = [values[-1] for values in paper_rows(record).values()]
        network = _network(record)
        without = "" if network["settings"]["n_layers"] else ", no layers"
        rows.append(
            [
                f"{record['title']}, {record['recipe']}{without}",
                shown(last(network), 4),
                _best_closed_form(record),
                three(paper[0]) if paper else UNKNOWN,
                UNKNOWN if name is None else f"{shown(kept[name])} ({WITH_EXEMPLARS[name]})",
                shown(theirs["joint"]) if "joint" in theirs else UNKNOWN,
            ]
        )
    heads = ["", "ReduNet (ours)", "best closed form, same features", "ReduNet, paper (theirs)"]
    heads += ["best with 200 exemplars", "joint training, gradient"]
    return Table("", heads, rows)


def _network(record: Record) -> Record:
    found: Record = next(one for one in record["methods"] if one["method"] == "redunet")
    return found


def _best_closed_form(record: Record) -> str:
    """The closed form that reached most, of equals the first; its name and accuracy."""
    closed = [method for method in record["methods"] if method["method"] in CLOSED_FORMS]
    best = max(closed, key=lambda method: last(method).mean, default=None)
    return UNKNOWN if best is None else f"{shown(last(best), 4)} ({best['name']})"


def costs_table(records: Sequence[Record], networks_only: bool = False) -> Table:
    """A row for each method: what it reaches after the last task, and what that takes.

    Seconds to learn are those until a first answer; memory is the peak of the whole
    command, on the GPU where there was one.
    """
    found: list[tuple[Spread, list[str], bool]] = []
    for record in records:
        for method in [_network(record)] if networks_only else record["methods"]:
            run = method["runs"][0]
            name = method["name"]
            if networks_only:
                name = f"{record['recipe']}, {record['title']}"
            if "n_projections" in method["settings"]:
                name += f", {method['settings']['n_projections']:,} projections"
            machine = run["machine"]
            memory = run.get("peak_device_memory_bytes") or run["peak_memory_bytes"]
            row = [
                name,
                f"{run['n_features']:,}" if run.get("n_features") else UNKNOWN,
                shown(last(method), 4),
                *([_best_closed_form(record)] if networks_only else []),
                *_seconds(record, method),
                kept_bytes(method),
                in_bytes(memory),
                machine["gpu"] or f"CPU, threads: {machine['threads']}",
            ]
            found.append((last(method), row, method["method"] == "redunet"))
    if not networks_only:
        found.sort(key=lambda one: -one[0].mean)
    strong = [index for index, one in enumerate(found) if one[2] and not networks_only]
    heads = ["", "features", "accuracy"]
    heads += ["best closed form, same features"] if networks_only else []
    heads += ["seconds to learn", "seconds for 1,000 answers", "file", "memory", "on"]
    return Table("", heads, [row for _, row, _ in found], strong=strong)


def _seconds(record: Record, method: Record) -> tuple[str, str]:
    """Seconds for all tasks until a first answer, and for 1,000 answers, means over seeds."""
    n = record["stream"][-1]["test_samples"]
    learning, answering = [], []
    for run in method["runs"]:
        tasks = [task["seconds"] for task in run["tasks"]]
        learnt = (run.get("seconds") or {}).get("learn") or sum(one["learn"] for one in tasks)
        last_one = tasks[-1]
        answers = last_one.get("answer_1000")
        labelling = 0.0 if answers is None else answers * n / 1000
        learning.append(learnt + max(0.0, last_one["evaluate"] - labelling))
        answering.append(answers)
    taken = sum(learning) / len(learning)
    if None in answering:
        return in_seconds(taken), UNKNOWN
    mean = sum(answering) / len(answering)
    return in_seconds(taken), in_seconds(mean) if mean >= 10 else f"{mean:.2g}"


def _of_one(make: Callable[[Record], Table]) -> Callable[[Sequence[Record]], Table]:
    """A table of the report, of a single record."""
    return lambda records: make(records[0])


TABLES: Mapping[str, Callable[[Sequence[Record]], Table]] = {
    "result table": _of_one(result_table),
    "exactness table": _of_one(exactness_table),
    "ingredients table": _of_one(ingredients_table),
    "recipes table": recipes_table,
    "costs table": costs_table,
    "network costs table": partial(costs_table, networks_only=True),
}


def draw(root: Path) -> None:
    """Draw the pictures of README and docs from the records in ``root``."""

    def record(name: str) -> Record:
        text = (root / "results" / f"{name}.json").read_text(encoding="utf-8")
        found: Record = json.loads(text)
        return found

    for name in FIGURES:
        picture = png(accuracy_figure(record(name))[0])
        write_bytes(root / "results" / f"{name}-accuracy.png", picture)
    picture = overview(record("compare-mnist"), record("digits-demo"))
    write_bytes(root / "docs" / "overview.png", picture)


def overview(comparison: Record, demonstration: Record) -> bytes:
    """The picture of the README: accuracy beside other methods, and the hashes after forgetting."""
    canvas = Canvas(figsize=(9.6, 5.6), dpi=DPI)
    style: dict[str, Any] = {"fontsize": 11.5, "fontweight": "bold", "color": TEXT, "va": "top"}
    title = f"{comparison['title']}, two classes at a time: accuracy on all classes seen"
    canvas.text(0.012, 0.975, title, **style)
    draw_lines(canvas.add_axes((0.06, 0.33, 0.64, 0.57)), accuracy_lines(comparison))
    forget = demonstration["forget"]
    same = "identical" if forget["after"] == forget["never_seen"] else "different"
    title = f"{demonstration['title'].capitalize()}: class {forget['class']} is forgotten, and the "
    canvas.text(0.012, 0.195, f"{title}two model files are {same}, to the byte", **style)
    rows = {
        f"learnt, then forgot class {forget['class']}": forget["after"],
        f"never saw class {forget['class']}": forget["never_seen"],
    }
    for (words, digest), y in zip(rows.items(), (0.105, 0.045), strict=True):
        canvas.text(0.03, y, words, fontsize=9.5, color=TEXT, va="center")
        canvas.text(
            0.27,
            y,
            f"sha256 {digest}",
            fontsize=8.5,
            family="monospace",
            color="#0a5c2b" if same == "identical" else "#b42318",
            va="center",
            bbox={"facecolor": "#f0f7f2", "edgecolor": "none", "boxstyle": "round,pad=0.35"},
        )
    return as_png(canvas)


def pages(root: Path) -> list[Path]:
    """The pages that have tables."""
    return [root / "README.md", *sorted(root.glob("docs/*.md")), *sorted(root.glob("results/*.md"))]


def main(words: list[str]) -> int:
    """Fill the tables of all pages, or check them; 0 where all is well."""
    check, differ = "--check" in words, 0
    root = Path(next((word for word in words if not word.startswith("--")), "."))
    for path in pages(root):
        text = path.read_text(encoding="utf-8")
        wanted = filled(text, path.parent)
        if not check:
            write_bytes(path, wanted.encode())
        elif text != wanted:
            sys.stderr.write(f"{path} does not say what its records say: run make tables\n")
            differ = 1
    if "--figures" in words:
        draw(root)
    return differ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
