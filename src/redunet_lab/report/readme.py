"""Tables and pictures of README and docs, from the records they name.

A table stands between ``<!-- NAME: results/name.json -->`` and ``<!-- end -->``, where NAME says
which: a key of `TABLES`. With ``--check`` nothing is written, and a table that differs from its
record is an error; with ``--figures`` the pictures of `FIGURES` are drawn too.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Canvas

from redunet.report.blocks import Table
from redunet.report.drawing import DPI, TEXT, as_png
from redunet.report.figures import png
from redunet.report.lines import draw_lines
from redunet.report.words import three
from redunet.safety.files import write_bytes
from redunet_lab.report.ablation_tables import ablations_table, ingredients_table
from redunet_lab.report.numbers import (
    UNKNOWN,
    Record,
    Spread,
    accuracy_cells,
    in_bytes,
    in_seconds,
    is_same,
    last,
    paper_rows,
    shown,
    signed,
    task_headings,
)
from redunet_lab.report.record_figures import accuracy_figure, accuracy_lines
from redunet_lab.report.sections import KEPT, method_rows, raw_data
from redunet_lab.report.text import markdown_table, markdown_text

CLOSED_FORM = {"ncm", "lda", "ridge", "qda", "pairwise"}
WITH_EXEMPLARS = {"icarl": "iCaRL", "er": "ER", "derpp": "DER++"}
FIGURES = ("mnist", "cifar10", "compare-mnist", "compare-digits", "compare-cifar10")
"""Records whose accuracy is drawn beside them."""


def filled(text: str, root: Path) -> str:
    """The text with each table made again from its records under ``root``."""

    def table(match: re.Match[str]) -> str:
        names = match[3].split()
        records = [json.loads((root / name).read_text(encoding="utf-8")) for name in names]
        return f"{match[1]}{TABLES[match[2]](records).rstrip()}\n{match[4]}"

    block = rf"(<!-- ({'|'.join(TABLES)}): ([^>]+) -->\n).*?(<!-- end -->)"
    return re.sub(block, table, text, flags=re.DOTALL)


def paper_table(records: Sequence[Record]) -> str:
    """The paper's accuracies, then those of each variant, their differences, and without layers."""
    (record,) = records
    paper = paper_rows(record).get("ReduNet")
    rows = [["paper (theirs)", *map(three, paper)]] if paper else []
    strong = []
    for method in record["methods"]:
        seeds = len(method["runs"])
        strong.append(len(rows))
        ours = f"ours, mean of {seeds} seeds" if seeds > 1 else "ours"
        rows += method_rows(record, method, f"{method['name']} ({ours})")
    return markdown_table(Table("", ["", *task_headings(record)], rows, strong=strong))


def comparison_table(records: Sequence[Record]) -> str:
    """What was run here, and beside it what others report, marked as theirs."""
    (record,) = records
    paper, published = paper_rows(record), record.get("published")
    runs = {method["name"]: method for method in record["methods"]}
    missing = [one["name"] for one in record.get("missing") or () if one["name"] not in runs]
    rows: list[list[str]] = []
    ours: list[int] = []
    for name in dict.fromkeys([*runs, *missing]):
        if method := runs.get(name):
            label = name
            if method["method"] == "redunet":
                ours.append(len(rows))
                label = f"{name} (ours)"
            cells = [label, *accuracy_cells(record, method)]
            tail = [_kept(method), raw_data(method)]
        else:
            cells = [f"{name} (missing)", *[UNKNOWN] * len(record["stream"])]
            tail = [UNKNOWN, UNKNOWN]
        theirs = [_published(published, name)] if published else []
        rows.append([*cells, *theirs, *tail])
        if name in paper:
            blank = [UNKNOWN] * (len(theirs) + len(tail))
            rows.append([f"{name}, paper (theirs)", *map(three, paper[name]), *blank])
    headings = ["", *task_headings(record)]
    headings += [f"{headings[-1]}, {published['source']} (theirs)"] if published else []
    return markdown_table(Table("", [*headings, "kept", "raw data kept"], rows, strong=ours))


def _kept(method: Record) -> str:
    """Bytes that a method keeps after the last task, mean over seeds, where models were saved."""
    sizes = [run["tasks"][-1].get("bytes") for run in method["runs"]]
    if None in sizes:
        return UNKNOWN
    return in_bytes(sum(float(size.get(kind, 0)) for size in sizes for kind in KEPT) / len(sizes))


def _published(published: Record, name: str) -> str:
    return three(published["last"][name]) if name in published["last"] else UNKNOWN


def recipe_table(records: Sequence[Record]) -> str:
    """A recipe beside closed-form methods and the paper, then its ingredients where known."""
    (record,) = records
    rows = []
    for method in record["methods"]:
        name = f"{method['name']} (ours)" if method["method"] == "redunet" else method["name"]
        rows.append([name, *accuracy_cells(record, method, 4)])
    for name, values in paper_rows(record).items():
        rows.append([f"{name}, paper (theirs)", *map(three, values)])
    rivals = markdown_table(Table("", ["", *task_headings(record)], rows, strong=[0]))
    if not record.get("ablation"):
        return rivals
    ingredients = ingredients_table(record)
    caption = markdown_text(ingredients.caption)
    return f"{rivals}\n\n{caption}:\n\n{markdown_table(ingredients)}"


def recipes_table(records: Sequence[Record]) -> str:
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
        reached = {method["method"]: last(method) for method in record["methods"]}
        names = {method["method"]: method["name"] for method in record["methods"]}
        best = _best_closed_form(reached)
        theirs = gradient.get(record["data"], {})
        kept = {method: theirs[method] for method in WITH_EXEMPLARS if method in theirs}
        name = max(kept, key=lambda method: kept[method].mean, default=None)
        paper = [values[-1] for values in paper_rows(record).values()]
        settings = {method["method"]: method["settings"] for method in record["methods"]}
        without = "" if settings["redunet"]["n_layers"] else ", no layers"
        rows.append(
            [
                f"{record['title']}, {record['recipe']}{without}",
                shown(reached["redunet"], 4),
                UNKNOWN if best is None else f"{shown(reached[best], 4)} ({names[best]})",
                three(paper[0]) if paper else UNKNOWN,
                UNKNOWN if name is None else f"{shown(kept[name])} ({WITH_EXEMPLARS[name]})",
                shown(theirs["joint"]) if "joint" in theirs else UNKNOWN,
            ]
        )
    heads = ["", "ReduNet (ours)", "best closed form, same features", "ReduNet, paper (theirs)"]
    heads += ["best with 200 exemplars", "joint training, gradient"]
    return markdown_table(Table("", heads, rows))


def _best_closed_form(reached: Mapping[str, Spread]) -> str | None:
    """The closed form that reached most; of equals the first in the record."""
    closed = [method for method in reached if method in CLOSED_FORM]
    return max(closed, key=lambda method: reached[method].mean, default=None)


def images_table(records: Sequence[Record]) -> str:
    """A row for each recipe for images: what it reaches, beside what, and what it takes.

    Time is that of the network, for learning and evaluating all tasks; memory is the peak of the
    whole command, on the GPU where there was one.
    """
    rows = []
    for record in records:
        reached = {method["method"]: last(method) for method in record["methods"]}
        names = {method["method"]: method["name"] for method in record["methods"]}
        network = next(one for one in record["methods"] if one["method"] == "redunet")
        best = _best_closed_form(reached)
        run, settings = network["runs"][0], network["settings"]
        name = f"{record['recipe']}, {record['title']}"
        if settings["train_per_class"] is not None:
            name += f", {settings['train_per_class']:,} images a class"
        seconds = [task["seconds"] for task in run["tasks"]]
        learning = (run.get("seconds") or {}).get("learn")
        if learning is None:
            learning = sum(one["learn"] for one in seconds)
        memory = run.get("peak_device_memory_bytes") or run["peak_memory_bytes"]
        rows.append(
            [
                name,
                f"{run['n_features']:,}",
                str(settings["n_layers"]),
                shown(reached["redunet"], 4),
                UNKNOWN if best is None else f"{shown(reached[best], 4)} ({names[best]})",
                f"{learning + sum(one['evaluate'] for one in seconds):,.0f}",
                _kept(network),
                in_bytes(memory),
                run["machine"]["gpu"] or f"CPU, threads: {run['machine']['threads']}",
            ]
        )
    heads = ["recipe, data", "features", "layers", "accuracy", "best closed form, same features"]
    heads += ["seconds", "file", "memory", "on"]
    return markdown_table(Table("", heads, rows))


def vectors_table(records: Sequence[Record]) -> str:
    """Methods behind an encoder after the last task, best first, with what each costs."""
    methods = [(record, method) for record in records for method in record["methods"]]
    networks = [last(one).mean for _, one in methods if one["method"] == "redunet"]
    rows: list[list[str]] = []
    ours = []
    for record, method in sorted(methods, key=lambda pair: -last(pair[1]).mean):
        name = method["name"]
        if "n_projections" in method["settings"]:
            name += f", {method['settings']['n_projections']:,} projections"
        if method["method"] == "redunet":
            ours.append(len(rows))
            name += " (ours)"
        machine = method["runs"][0]["machine"]
        rows.append(
            [
                name,
                shown(last(method), 4),
                signed(last(method).mean - max(networks)) if networks else UNKNOWN,
                in_seconds(_learning_seconds(record, method)),
                _kept(method),
                f"{_answer_seconds(method):.2g}",
                machine["gpu"] or f"CPU, threads: {machine['threads']}",
            ]
        )
    headings = ["", "accuracy", "beside ReduNet", "seconds to learn", "file"]
    headings += ["seconds for 1,000 answers", "on"]
    return markdown_table(Table("", headings, rows, strong=ours))


def _learning_seconds(record: Record, method: Record) -> float:
    """Seconds for all tasks, and then until a first answer, mean over seeds."""
    n = record["stream"][-1]["test_samples"]
    taken: list[float] = []
    for run in method["runs"]:
        after = run["tasks"][-1]["seconds"]
        building = float(after["evaluate"] - after["answer_1000"] * n / 1000)
        taken.append(sum(task["seconds"]["learn"] for task in run["tasks"]) + max(0.0, building))
    return sum(taken) / len(taken)


def _answer_seconds(method: Record) -> float:
    """Seconds for 1,000 answers once all is built, mean over seeds."""
    taken = [float(run["tasks"][-1]["seconds"]["answer_1000"]) for run in method["runs"]]
    return sum(taken) / len(taken)


def joint_table(records: Sequence[Record]) -> str:
    """Incremental and joint training after each task, as the demonstration compares them."""
    (record,) = records
    tasks = record["methods"][0]["runs"][0]["tasks"]
    joint = [task["joint"] for task in tasks]
    same = ["identical" if is_same(one["equivalence"]) else "different" for one in joint]
    rows = [
        ["incremental", *(f"{task['accuracy']:.4f}" for task in tasks)],
        ["joint", *(f"{one['accuracy']:.4f}" for one in joint)],
        ["moments, networks, files, labels", *same],
    ]
    return markdown_table(Table("", ["", *task_headings(record)], rows))


TABLES: dict[str, Callable[[Sequence[Record]], str]] = {
    "paper table": paper_table,
    "comparison table": comparison_table,
    "recipe table": recipe_table,
    "recipes table": recipes_table,
    "images table": images_table,
    "ablations table": ablations_table,
    "joint table": joint_table,
    "vectors table": vectors_table,
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
    """The picture of the README: accuracy beside other methods, and the hashes after forgetting.

    Parameters
    ----------
    comparison, demonstration : mapping
        Records of `redunet compare` and of `redunet demo`.
    """
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


def main(words: list[str]) -> int:
    """Fill the tables of files, or check them; 0 where all is well."""
    check, differ = "--check" in words, 0
    for path in (Path(word) for word in words if not word.startswith("--")):
        text = path.read_text(encoding="utf-8")
        wanted = filled(text, path.parent)
        if not check:
            write_bytes(path, wanted.encode())
        elif text != wanted:
            sys.stderr.write(f"{path} does not say what its records say: run make tables\n")
            differ = 1
    if "--figures" in words:
        draw(Path())
    return differ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
