"""Numbers of a record over its seeds, and numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Record = Mapping[str, Any]

UNKNOWN = "–"


class Spread(NamedTuple):
    """A mean over seeds; the standard deviation (n − 1) is None for a single seed."""

    mean: float
    deviation: float | None = None


def over_seeds(values: Sequence[Sequence[float]]) -> list[Spread]:
    """Mean and deviation at each position, up to the last that every seed has.

    Examples
    --------
    >>> over_seeds([[0.5, 1.0], [0.25]])
    [Spread(mean=0.375, deviation=0.1767766952966369)]
    """
    known = min(map(len, values), default=0)
    columns = np.array([list(row[:known]) for row in values], dtype=np.float64).T
    return [
        Spread(float(column.mean()), float(column.std(ddof=1)) if len(column) > 1 else None)
        for column in columns
    ]


def by_task(method: Record, key: str = "accuracy") -> list[Spread]:
    """A number of each task over a method's seeds; nothing where a run lacks it."""
    runs = method["runs"]
    if any(task.get(key) is None for run in runs for task in run["tasks"]):
        return []
    return over_seeds([[task[key] for task in run["tasks"]] for run in runs])


def last(method: Record) -> Spread:
    """Accuracy after the last task."""
    return over_seeds([[run["tasks"][-1]["accuracy"]] for run in method["runs"]])[0]


def accuracy_cells(record: Record, method: Record, places: int = 3) -> list[str]:
    """Accuracy after each task; joint training has one for the last alone."""
    known = [shown(value, places) for value in by_task(method)]
    blank = [UNKNOWN] * (n_tasks(record) - len(known))
    return [*blank, *known] if method["method"] == "joint" else [*known, *blank]


def measure(method: Record, key: str) -> str:
    """A measure over all tasks and seeds; a dash where a run lacks it."""
    summaries = [run.get("summary") or {} for run in method["runs"]]
    if any(summary.get(key) is None for summary in summaries):
        return UNKNOWN
    return shown(over_seeds([[summary[key]] for summary in summaries])[0])


def n_tasks(record: Record) -> int:
    """The most tasks that the stream, the paper or any run has."""
    runs = [len(run["tasks"]) for method in record["methods"] for run in method["runs"]]
    return max([len(record["stream"]), *runs, *map(len, paper_rows(record).values())], default=0)


def task_headings(record: Record) -> list[str]:
    """The headings of the columns of tasks."""
    return [f"task {number}" for number in range(1, n_tasks(record) + 1)]


def paper_rows(record: Record) -> dict[str, Sequence[float]]:
    """The paper's accuracies by method, ReduNet's first; none where there is no paper."""
    paper = record.get("paper")
    if not paper:
        return {}
    return {"ReduNet": paper["row"], **(paper.get("rivals") or {})}


def label(method: Record) -> str:
    """The name of a method where several stand side by side."""
    name: str = method["name"]
    known = method["method"] != "redunet" or name.startswith("ReduNet")
    return name if known else f"ReduNet, {name}"


def is_same(equivalence: Mapping[str, Any]) -> bool:
    """Whether two models agreed in everything that was compared."""
    agreed = all(equivalence[what] for what in ("moments", "network", "file"))
    return agreed and equivalence["labels_that_differ"] == 0


def shown(spread: Spread, places: int = 3) -> str:
    """A mean, with its deviation where there is one."""
    deviation = spread.deviation
    return f"{spread.mean:.{places}f}" + ("" if deviation is None else f" ± {deviation:.{places}f}")


def signed(value: float) -> str:
    """A difference, with its sign; zero has none."""
    return f"{value:+.3f}" if round(value, 3) else "0.000"


def in_seconds(value: float) -> str:
    """A time, to a tenth of a second where it is long."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def in_bytes(value: float) -> str:
    """A size in the unit that suits it.

    Examples
    --------
    >>> in_bytes(0), in_bytes(784), in_bytes(98_765), in_bytes(1.5e6), in_bytes(172_160)
    ('0', '784 B', '98.8 kB', '1.50 MB', '172 kB')
    """
    if not value:
        return "0"
    if value < 1000:
        return f"{value:.0f} B"
    units = {"GB": 1e9, "MB": 1e6, "kB": 1e3}
    unit, size = next(((u, s) for u, s in units.items() if value >= s), ("bytes", 1.0))
    return f"{value / size:#.3g}".rstrip(".") + f" {unit}"
