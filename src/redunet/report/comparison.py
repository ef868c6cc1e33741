"""What a report of a comparison says, section by section."""

from __future__ import annotations

from redunet.report.blocks import Block, Code, Grid, Picture, Plot, Section, Words
from redunet.report.methods import (
    accuracy_grid,
    accuracy_notes,
    cost_grid,
    cost_notes,
    honesty_notes,
)
from redunet.report.record_plots import (
    accuracy_plot,
    comparison_curves,
    confusion_plot,
    matrix_view,
)
from redunet.report.sections import in_words, plain, stream_grid
from redunet.report.seeds import Record, by_task, over_seeds, paper_rows
from redunet.report.tables import UNKNOWN, shown, three


def comparison_sections(record: Record) -> list[Section]:
    """Everything that a report of a comparison says, in order.

    Parameters
    ----------
    record : mapping
        A comparison record.
    """
    found = [
        Section("Result", _result(record)),
        Section("What it costs", [cost_grid(record), *map(Words, cost_notes(record))]),
        Section("What was changed, and what is missing", [*map(Words, honesty_notes(record))]),
        Section("What is left of each task", _by_task(record)),
        Section("What is taken for what", _confusion(record)),
        Section("What others report", _theirs(record)),
        Section("What was run", _what_was_run(record)),
        Section("Where and when", [_environments(record)]),
    ]
    return [section for section in found if section.blocks]


def _result(record: Record) -> list[Block]:
    drawn = {
        method["name"]: [value.mean for value in by_task(method, "accuracy")]
        for method in record["methods"]
    }
    alt = in_words("Line chart of accuracy against the number of tasks seen", drawn)
    caption = "Accuracy against the number of tasks seen. Solid: no samples kept; dashed: "
    caption += "exemplars kept; dotted: joint training, all classes at once."
    picture = Picture("accuracy", alt, caption)
    plot = accuracy_plot(comparison_curves(record), picture)
    return [accuracy_grid(record), *map(Words, accuracy_notes(record)), plot]


def _by_task(record: Record) -> list[Block]:
    rows = [
        [
            method["name"],
            *map(shown, over_seeds([r["tasks"][-1]["accuracy_by_task"] for r in method["runs"]])),
        ]
        for method in record["methods"]
        if method["method"] != "joint"
    ]
    headings = ["method", *(", ".join(map(str, task["classes"])) for task in record["stream"])]
    grid = Grid("Accuracy on each task's own classes, after the last task", headings, rows)
    views = []
    for method in record["methods"]:
        if method["method"] != "joint":
            tasks = zip(*(run["tasks"] for run in method["runs"]), strict=True)
            matrix = [over_seeds([row["accuracy_by_task"] for row in rows]) for rows in tasks]
            views.append(matrix_view(method["name"], matrix))
    caption = "Accuracy on each task's own classes, after each task."
    return [grid, Plot(caption, views, "method")] if views else [grid]


def _confusion(record: Record) -> list[Block]:
    known = {m["name"]: m["confusion"] for m in record["methods"] if m.get("confusion")}
    return [confusion_plot(known, "After the last task, over all seeds.")] if known else []


def _theirs(record: Record) -> list[Block]:
    rows = [
        [f"{name}, paper (theirs)", *map(three, values)]
        for name, values in paper_rows(record).items()
    ]
    said = [f"Paper: as printed in {record['paper']['source']}."] if rows else []
    unknown = [UNKNOWN] * (len(record["stream"]) - 1)
    if published := record["published"]:
        for name, value in published["last"].items():
            rows.append([f"{name}, benchmark (theirs)", *unknown, three(value)])
        said.append(f"Benchmark: {published['source']}, after the last task.")
    if not rows:
        return []
    said.append("Not run again here.")
    headings = ["", *(f"task {number}" for number in range(1, len(record["stream"]) + 1))]
    caption = "Accuracy on all classes seen, after each task, as others report it"
    return [Grid(caption, headings, rows), Words(" ".join(said))]


def _what_was_run(record: Record) -> list[Block]:
    settings = [
        [
            method["name"],
            ", ".join(f"{key} {plain(value)}" for key, value in method["settings"].items()),
            ", ".join(str(run["seed"]) for run in method["runs"]) if method["random"] else UNKNOWN,
        ]
        for method in record["methods"]
    ]
    return [
        Code(record["command"]),
        stream_grid(record, "test samples"),
        Grid("Settings and seeds", ["method", "settings", "seeds"], settings, text_columns=2),
    ]


def _environments(record: Record) -> Grid:
    """Where and when each run was made, those made alike together."""
    places: dict[tuple[str, ...], list[str]] = {}
    for method in record["methods"]:
        for run in method["runs"]:
            machine = run["machine"]
            where = machine["gpu"] or f"{machine['processor']}, {machine['threads']} threads"
            versions = ", ".join(f"{name} {value}" for name, value in run["versions"].items())
            name = f"{method['name']} {run['seed']}" if method["random"] else method["name"]
            places.setdefault((run["date"], where, versions), []).append(name)
    rows = [[", ".join(names), *place] for place, names in places.items()]
    headings = ["method and seed", "date", "machine", "versions"]
    return Grid("Date, machine and versions of each run", headings, rows, text_columns=4)
