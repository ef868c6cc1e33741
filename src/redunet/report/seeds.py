"""What a reproduction record says over its seeds: means and standard deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Record = Mapping[str, Any]


class Spread(NamedTuple):
    """A mean over seeds; the standard deviation (n − 1) is None for a single seed."""

    mean: float
    deviation: float | None


def over_seeds(values: Sequence[Sequence[float]]) -> list[Spread]:
    """Mean and deviation at each position, up to the last that every seed has.

    Parameters
    ----------
    values : sequence of sequences of float
        One sequence a seed.

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


def by_task(variant: Record, key: str) -> list[Spread]:
    """A figure of each task over a variant's seeds; nothing where a run lacks it."""
    runs = variant["runs"]
    if any(task.get(key) is None for run in runs for task in run["tasks"]):
        return []
    return over_seeds([[task[key] for task in run["tasks"]] for run in runs])


def n_tasks(record: Record) -> int:
    """The most tasks that the paper or any run went through."""
    lengths = [len(run["tasks"]) for variant in record["variants"] for run in variant["runs"]]
    return max(lengths + [len(row) for row in paper_rows(record).values()], default=0)


def paper_rows(record: Record) -> dict[str, Sequence[float]]:
    """The paper's accuracies by method, ReduNet's first; none where there is no paper."""
    paper = record.get("paper")
    if not paper:
        return {}
    return {"ReduNet": paper["row"], **(paper.get("rivals") or {})}
