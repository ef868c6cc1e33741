"""The research bench of `redunet`: data sets, baselines, streams of tasks, records, their reports.

`run_learners` runs any learners over any stream; `class_stream` makes a stream
of a data set, `Samples` a data set of arrays. They are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redunet_lab.datasets.dataset import Samples
    from redunet_lab.own_learners import run_learners
    from redunet_lab.streams import Task, class_stream

_HOMES = {
    "Samples": "datasets.dataset",
    "Task": "streams",
    "class_stream": "streams",
    "run_learners": "own_learners",
}

__all__ = ["Samples", "Task", "class_stream", "run_learners"]

if not TYPE_CHECKING:  # so that type checkers know the names above and no others

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"redunet_lab.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'redunet_lab' has no attribute {name!r}")
