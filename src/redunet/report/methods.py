"""What a comparison record says of each method: tables, and the sentences that go with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redunet.report.blocks import Grid
from redunet.report.sections import plain
from redunet.report.seeds import Record, by_task, over_seeds, paper_rows
from redunet.report.tables import (
    UNKNOWN,
    grid_markdown,
    in_bytes,
    in_seconds,
    measure,
    shown,
    three,
)

KINDS = ("parameters", "moments", "exemplars")
MEASURES = ("average", "forgetting", "decay")


def accuracy_grid(record: Record) -> Grid:
    """Accuracy on all classes seen after each task, and measures over the stream.

    Parameters
    ----------
    record : mapping
        A comparison record.
    """
    rows = []
    for method in record["methods"]:
        summaries = [run["summary"] for run in method["runs"]]
        over_stream = [measure(summaries, key) for key in MEASURES]
        rows.append([method["name"], *accuracy_cells(record, method), *over_stream])
    headings = ["method", *_tasks(record), *MEASURES]
    caption = "Accuracy on all classes seen, after each task, and over all tasks"
    return Grid(caption, headings, rows, strong=_ours(record))


def accuracy_cells(record: Record, method: Record) -> list[str]:
    """A cell a task; joint training has a figure for the last alone."""
    known = [shown(value) for value in by_task(method, "accuracy")]
    return [UNKNOWN] * (len(record["stream"]) - len(known)) + known


def cost_grid(record: Record) -> Grid:
    """Time, and what is kept between tasks, after the last one."""
    rows = []
    for method in record["methods"]:
        runs = method["runs"]
        times = [
            in_seconds(_mean([sum(task["seconds"][part] for task in run["tasks"]) for run in runs]))
            for part in ("learn", "evaluate")
        ]
        kept = [in_bytes(bytes_kept(method)[kind]) for kind in KINDS]
        rows.append([method["name"], *times, *kept, raw_data(method)])
    headings = ["method", "seconds learning", "seconds labelling", *KINDS, "raw data"]
    caption = "Time for all tasks, and bytes kept after the last one"
    return Grid(caption, headings, rows, strong=_ours(record))


def bytes_kept(method: Record) -> dict[str, float]:
    """Bytes of each kind that a method keeps after the last task, mean over seeds."""
    last = [run["tasks"][-1]["bytes"] for run in method["runs"]]
    return {kind: _mean([sizes[kind] for sizes in last]) for kind in KINDS}


def raw_data(method: Record) -> str:
    """Which raw samples a method goes back to in later tasks."""
    if method["method"] == "joint":
        return "all"
    return "exemplars" if method["raw_data_kept"] else "none"


def what_to_expect(record: Record) -> str:
    """Why some methods end near chance in this setting."""
    count = len(record["stream"])
    return (
        f"About 1/{count} = {1 / count:.3g} is what fine-tuning, LwF, oEWC and SI are expected to "
        f"show after {count} tasks: without a task identity at test time the outputs of the last "
        f"task win, and a penalty on weights or old outputs never compares classes that were not "
        f"seen together."
    )


def accuracy_notes(record: Record) -> list[str]:
    """What a reader of the accuracies should know."""
    methods = record["methods"]
    said = [what_to_expect(record)]
    if any(method["method"] == "joint" for method in methods):
        said.append(
            "Joint training learns all classes at once and bounds the gradient methods from above; "
            "it has a figure for the last task alone."
        )
    if exact := [method["name"] for method in methods if method["kind"] == "moments"]:
        said.append(
            f"Computed from class moments, and so the same task by task as joint: "
            f"{', '.join(exact)}."
        )
    seeds = sorted(
        {run["seed"] for method in methods if method["random"] for run in method["runs"]}
    )
    if seeds:
        words = f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}"
        deviation = "; ± is the standard deviation over seeds (n − 1)" if len(seeds) > 1 else ""
        said.append(f"Random methods ran with {words}{deviation}.")
    if once := [method["name"] for method in methods if not method["random"]]:
        said.append(f"Run once, since nothing in them is random: {', '.join(once)}.")
    return said


def cost_notes(record: Record) -> list[str]:
    """What a reader of the costs should know."""
    said = []
    if any(method["kind"] == "moments" for method in record["methods"]):
        said.append(
            "Methods on class moments add up moments while they learn, and build the rest when "
            "they first label: both times count."
        )
    said.append(
        "Bytes are counted in the file saved after the last task; parameters are all that is "
        "neither moments nor exemplars."
    )
    return said


def honesty_notes(record: Record) -> list[str]:
    """What was not run as it should have been, or not at all."""
    said = []
    if changed := [
        f"{method['name']}: {key} {plain(change['here'])} (usually {plain(change['usual'])})"
        for method in record["methods"]
        for key, change in method["changed"].items()
    ]:
        said.append(f"Not with the usual settings: {'; '.join(changed)}.")
    if record["missing"]:
        said.append(f"Missing: {'; '.join(_missing(record))}.")
    return said


def _missing(record: Record) -> list[str]:
    there = {method["name"] for method in record["methods"]}
    whole: dict[str, None] = {}
    parts = []
    for one in record["missing"]:
        if one["name"] not in there and not one["tasks_done"]:
            whole[one["name"]] = None
        else:
            done = f", {one['tasks_done']} tasks done" if one["tasks_done"] else ""
            parts.append(f"{one['name']} seed {one['seed']}{done}")
    return [*([", ".join(whole)] if whole else []), *parts]


def comparison_markdown(record: Record) -> str:
    """The README's table: what was run here, and beside it what others report, marked as theirs."""
    paper, published = paper_rows(record), record["published"]
    runs = {method["name"]: method for method in record["methods"]}
    missing = [one["name"] for one in record["missing"] if one["name"] not in runs]
    rows: list[list[str]] = []
    ours: list[int] = []
    for name in dict.fromkeys([*runs, *missing]):
        if method := runs.get(name):
            label = name
            if method["method"] == "redunet":
                ours.append(len(rows))
                label = f"{name} (ours)"
            cells = [label, *accuracy_cells(record, method)]
            tail = [in_bytes(sum(bytes_kept(method).values())), raw_data(method)]
        else:
            cells = [f"{name} (missing)", *[UNKNOWN] * len(record["stream"])]
            tail = [UNKNOWN, UNKNOWN]
        theirs = [_theirs(published, name)] if published else []
        rows.append([*cells, *theirs, *tail])
        if name in paper:
            blank = [UNKNOWN] * (len(theirs) + len(tail))
            rows.append([f"{name}, paper (theirs)", *map(three, paper[name]), *blank])
    headings = ["", *_tasks(record)]
    headings += [f"{headings[-1]}, {published['source']} (theirs)"] if published else []
    return grid_markdown(Grid("", [*headings, "kept", "raw data kept"], rows, strong=ours))


def _theirs(published: Mapping[str, Any], name: str) -> str:
    return three(published["last"][name]) if name in published["last"] else UNKNOWN


def _tasks(record: Record) -> list[str]:
    return [f"task {number}" for number in range(1, len(record["stream"]) + 1)]


def _ours(record: Record) -> list[int]:
    return [i for i, method in enumerate(record["methods"]) if method["method"] == "redunet"]


def _mean(values: Sequence[float]) -> float:
    return over_seeds([[value] for value in values])[0].mean
