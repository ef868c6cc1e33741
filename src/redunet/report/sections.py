"""What a report of a reproduction says, section by section."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from redunet.report.blocks import Block, Code, Grid, Picture, Plot, Section, Words
from redunet.report.record_plots import (
    accuracy_plot,
    confusion_plot,
    matrix_view,
    rate_view,
    reproduction_curves,
)
from redunet.report.seeds import Record, by_task, over_seeds, paper_rows
from redunet.report.tables import (
    UNKNOWN,
    accuracy_rows,
    in_seconds,
    measure,
    shown,
    signed,
    task_headings,
    three,
    whose,
)

MEASURES = {
    "last": "accuracy after the last task",
    "average": "mean of the accuracies after each task",
    "decay": "decay: after the first task, less after the last",
    "forgetting": "forgetting: a task's best accuracy before the last, less its final one; mean",
    "backward_transfer": "backward transfer: a task's final accuracy, less its first; mean",
}


def sections(record: Record) -> list[Section]:
    """Everything that a report of a reproduction says, in order.

    Parameters
    ----------
    record : mapping
        A reproduction record. What it lacks (the paper, a joint run, the
        accuracy of each task, times) the report leaves out.
    """
    found = [
        Section("Result", _result(record)),
        Section("Incremental against joint training", _equivalence(record)),
        Section("The objective, layer by layer", _rates(record)),
        Section("What was run", _what_was_run(record)),
        Section("Each task by itself", _by_task(record)),
        Section("What is taken for what", _confusion(record)),
        Section("Time and memory", _cost(record)),
        Section("The paper's other methods", _rivals(record)),
        Section("Where and when", [_environment(record)]),
    ]
    return [section for section in found if section.blocks]


def _result(record: Record) -> list[Block]:
    paper = paper_rows(record).get("ReduNet", ())
    said = []
    for variant in record["variants"]:
        values = by_task(variant, "accuracy")
        last = len(values)
        text = f"ReduNet, {variant['name']}: accuracy {shown(values[-1])} on all classes seen"
        text += f" after task {last} ({whose(variant)})"
        if len(paper) >= last:
            theirs = round(paper[last - 1], 3)
            apart = signed(round(values[-1].mean, 3) - theirs)
            text += f"; the paper reports {three(theirs)} there (theirs), a difference of {apart}"
        said.append(text + ".")
    rows = accuracy_rows(record)
    strong = [index for index, row in enumerate(rows) if row.kind == "ours"]
    caption = "Accuracy on the test samples of all classes seen, after each task"
    lines = [(row.label, *row.cells) for row in rows]
    grid = Grid(caption, ["", *task_headings(record)], lines, strong=strong)
    notes = "Nearest subspace, no layers: the same readout on the input features, so that what "
    notes += "the layers add is seen."
    if any(len(variant["runs"]) > 1 for variant in record["variants"]):
        notes += " ±: standard deviation over seeds (n − 1)."
    if paper:
        notes += f" Theirs: as printed in {record['paper']['source']}, not run again here."
        notes += " Differences are those of the figures as shown."
    drawn = {f"{name}, paper (theirs)": row for name, row in paper_rows(record).items()}
    for variant in record["variants"]:
        drawn[f"ReduNet, {variant['name']} (ours)"] = [v.mean for v in by_task(variant, "accuracy")]
    alt = in_words("Line chart of accuracy against the number of tasks seen", drawn)
    form = ", in the form of the paper's figure" if paper else ""
    picture = Picture("accuracy", alt, f"Accuracy against the number of tasks seen{form}.")
    plot = accuracy_plot(reproduction_curves(record), picture)
    return [*map(Words, said), grid, Words(notes), plot]


def in_words(what: str, lines: Mapping[str, Sequence[float]]) -> str:
    """The ends of a chart's lines, for who cannot see it."""
    ends = [f"{name} from {three(v[0])} to {three(v[-1])}" for name, v in lines.items()]
    return f"{what}: {'; '.join(ends)}."


def joint_words(joint: Record) -> str:
    """How a model that learnt task after task compares with one that had everything at once."""
    same = joint["equivalence"]
    words = {True: "identical", False: "different"}
    return (
        f"Against joint training ({joint['accuracy']:.4f}): moments {words[same['moments']]}, "
        f"networks {words[same['network']]}, model files {words[same['file']]}, "
        f"{same['labels_that_differ']} test labels that differ."
    )


def _equivalence(record: Record) -> list[Block]:
    rows, differing = [], []
    count = 0
    for variant in record["variants"]:
        for run in variant["runs"]:
            count += 1
            if not run.get("joint"):
                continue
            same = run["joint"]["equivalence"]
            label = f"{variant['name']}, seed {run['seed']}"
            parts = [same[key] for key in ("moments", "network", "file")]
            labels = same["labels_that_differ"]
            if not all(parts) or labels:
                differing.append(label)
            verdicts = ["identical" if part else "different" for part in parts]
            accuracies = three(run["tasks"][-1]["accuracy"]), three(run["joint"]["accuracy"])
            rows.append([label, *verdicts, str(labels), *accuracies])
    if not rows:
        return [Words("No run of this record was compared with joint training.")]
    said = "Joint training sees all tasks' data at once; the incremental model saw each task once "
    said += "and kept no sample. Moments are compared as integers, networks to the last bit of "
    said += f"every layer, files to the byte. Compared: {len(rows)} of {count} runs. "
    said += f"Not identical: {'; '.join(differing) or 'none'}."
    headings = ["run", "moments", "network", "model file", "test labels that differ"]
    headings += ["accuracy, incremental", "accuracy, joint"]
    return [Words(said), Grid("The two models after the last task", headings, rows)]


def _rates(record: Record) -> list[Block]:
    variant = record["variants"][0]
    run = variant["runs"][0]
    rates = run.get("rates") or {}
    if not rates.get("delta_R"):
        return []
    first, last = rates["delta_R"][0], rates["delta_R"][-1]
    said = f"From the first to the last of {len(rates['delta_R'])} layers the rate reduction ΔR "
    said += f"goes from {three(first)} to {three(last)} nats ({signed(last - first)}): "
    said += f"{variant['name']}, seed {run['seed']}, after task {len(run['tasks'])}."
    caption = "ΔR = R − R_c at each layer; R of all classes together, R_c class by class."
    alt = in_words("Line chart by layer", {"ΔR" if k == "delta_R" else k: rates[k] for k in rates})
    picture = Picture("rate", alt, caption)
    return [Words(said), Plot(caption, [rate_view(rates, alt)], instead=[picture])]


def _what_was_run(record: Record) -> list[Block]:
    variants = record["variants"]
    first = variants[0]["runs"][0]["tasks"]
    keys = ("classes", "train_samples", "test_samples")
    splits = [[[t[key] for key in keys] for t in r["tasks"]] for v in variants for r in v["runs"]]
    rows = [
        [str(number), ", ".join(map(str, t["classes"])), *(f"{t[key]:,}" for key in keys[1:])]
        for number, t in enumerate(first, 1)
    ]
    caption = "The data as tasks"
    if any(split != splits[0] for split in splits):
        caption += f", for seed {variants[0]['runs'][0]['seed']} (others differ)"
    headings = ["task", "classes", "training samples", "test samples, all classes seen"]
    seeds = sorted({run["seed"] for variant in variants for run in variant["runs"]})
    names = dict.fromkeys(name for variant in variants for name in variant["settings"])
    settings = [
        [
            name,
            *(plain(v["settings"][name]) if name in v["settings"] else UNKNOWN for v in variants),
        ]
        for name in names
    ]
    return [
        Code(record["command"]),
        Words(f"Seeds: {', '.join(map(str, seeds))}."),
        Grid(caption, headings, rows, text_columns=2),
        Grid("Settings", ["setting", *_columns(record)], settings, text_columns=1 + len(variants)),
    ]


def _by_task(record: Record) -> list[Block]:
    grids: list[Grid] = []
    views = []
    variants = record["variants"]
    for variant in variants:
        runs = variant["runs"]
        count = min(len(run["tasks"]) for run in runs)
        matrix = [[run["tasks"][t].get("accuracy_by_task") for run in runs] for t in range(count)]
        if any(row is None for rows in matrix for row in rows):
            continue
        spreads = [over_seeds(rows) for rows in matrix]
        views.append(matrix_view(variant["name"], spreads))
        cells = [[shown(value) for value in row] for row in spreads]
        lines = [
            [f"after task {t}", *row, *[""] * (count - len(row))] for t, row in enumerate(cells, 1)
        ]
        headings = ["", *task_headings(record)[:count]]
        caption = f"Accuracy on each task's own test samples: {variant['name']} ({whose(variant)})"
        grids.append(Grid(caption, headings, lines))
    caption = "Accuracy on each task's own test samples, after each task."
    blocks: list[Block] = [Plot(caption, views, "variant", grids)] if views else []
    summaries = [[run.get("summary") for run in variant["runs"]] for variant in variants]
    measures = [
        [words, *(measure(runs, key) for runs in summaries)] for key, words in MEASURES.items()
    ]
    if any(cell != UNKNOWN for _, *cells in measures for cell in cells):
        blocks.append(Grid("Over all tasks", ["measure", *_columns(record)], measures))
    return blocks


def _confusion(record: Record) -> list[Block]:
    known = {v["name"]: v["confusion"] for v in record["variants"] if v.get("confusion")}
    return [confusion_plot(known, "After the last task, over all seeds.")] if known else []


def _columns(record: Record) -> list[str]:
    """Headings of a column a variant."""
    names = [variant["name"] for variant in record["variants"]]
    return names if len(names) > 1 else ["value"]


def _cost(record: Record) -> list[Block]:
    times, memory = [], []
    for variant in record["variants"]:
        runs = variant["runs"]
        parts = [[task.get("seconds") or {} for task in run["tasks"]] for run in runs]
        for key in parts[0][0]:
            values = over_seeds([[part[key] for part in row] for row in parts])
            cells = [in_seconds(value.mean) for value in values]
            blank = [""] * (len(task_headings(record)) - len(cells))
            times.append([variant["name"], key, *cells, *blank])
        peak = [run["peak_memory_bytes"] for run in runs if run.get("peak_memory_bytes")]
        if peak:
            memory.append([variant["name"], f"{max(peak) / 1e9:.2f} GB"])
    grids: list[Block] = []
    if times:
        headings = ["variant", "part", *task_headings(record)]
        caption = "Seconds for each task (mean over seeds)"
        grids.append(Grid(caption, headings, times, text_columns=2))
    if memory:
        headings = ["variant", "memory"]
        grids.append(Grid("Most memory held at once, of all seeds", headings, memory))
    return grids


def _rivals(record: Record) -> list[Block]:
    rows = [
        [f"{name} (theirs)", *map(three, values)]
        for name, values in paper_rows(record).items()
        if name != "ReduNet"
    ]
    if not rows:
        return []
    caption = f"Accuracy on all classes seen, as printed in {record['paper']['source']}"
    width = max(map(len, rows))
    filled = [row + [""] * (width - len(row)) for row in rows]
    return [Grid(caption, ["", *task_headings(record)[: width - 1]], filled)]


def _environment(record: Record) -> Grid:
    machine = [[name, plain(value)] for name, value in record["machine"].items()]
    versions = [[name, plain(value)] for name, value in record["versions"].items()]
    rows = [["date", plain(record["date"])], *machine, *versions]
    return Grid("Date, machine and versions", ["", "value"], rows, text_columns=2)


def plain(value: Any) -> str:
    """A setting as text."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def stream_grid(record: Record, tested: str) -> Grid:
    """The tasks of a record: classes and numbers of samples, those tested on under a heading."""
    rows = [
        [
            str(number),
            ", ".join(map(str, task["classes"])),
            f"{task['train_samples']:,}",
            f"{task['test_samples']:,}",
        ]
        for number, task in enumerate(record["stream"], 1)
    ]
    headings = ["task", "classes", "training samples", tested]
    return Grid("The data as tasks", headings, rows, text_columns=2)
