"""Learners and streams of one's own: run over the tasks, with a record that `report` reads."""

from __future__ import annotations

import copy
import inspect
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError
from redunet.progress import Progress, silent
from redunet_lab import report
from redunet_lab.record import experiment_record, method_rows, plain
from redunet_lab.runner import Entry, Learner, resumable, run
from redunet_lab.streams import described


def run_learners(
    learners: Mapping[str, Learner],
    tasks: Sequence[Any],
    out: str | Path | None = None,
    *,
    what: str = "Learners compared",
    data: str = "own data",
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run learners over a stream of tasks, and record their accuracies after each task.

    Parameters
    ----------
    learners : mapping from a name to a learner
        Each has learnt nothing yet and is not changed. It has ``partial_fit(X, y)`` and
        ``predict(X)``, as scikit-learn's incremental classifiers do; one whose
        ``partial_fit`` takes ``classes`` is given all classes of the stream.
    tasks : sequence of tasks
        Of `class_stream`, or any objects with the attributes ``classes``,
        ``x_train``, ``y_train``, ``x_test`` and ``y_test``.
    out : path, default=None
        Folder for record, figures and reports; an interrupted run there is
        resumed. None writes nothing.
    what, data : str
        Title of the record, and what the data is called.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    dict
        The record: `redunet report FOLDER/record.json` shows it.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.linear_model import SGDClassifier
    >>> from sklearn.model_selection import train_test_split
    >>> from redunet import ReduNetClassifier
    >>> from redunet_lab import Samples, class_stream, run_learners
    >>> X, y = load_wine(return_X_y=True)
    >>> x_train, x_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> tasks = class_stream(Samples(x_train, y_train, x_test, y_test), n_tasks=3)
    >>> learners = {"SGD": SGDClassifier(random_state=0), "ReduNet": ReduNetClassifier()}
    >>> record = run_learners(learners, tasks)
    >>> [method["name"] for method in record["methods"]]
    ['SGD', 'ReduNet']
    >>> len(record["methods"][1]["runs"][0]["tasks"])
    3
    """
    if not learners or not tasks:
        raise SettingsError("expected at least one learner and one task, got none")
    with nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as folder:
        rows = _rows(learners, tasks, Path(folder), progress)
        record = experiment_record(what, None, data, data, tasks, rows)
        if out is not None:
            report.write(record, Path(out))
        return record


def _rows(
    learners: Mapping[str, Learner], tasks: Sequence[Any], out: Path, progress: Progress
) -> list[dict[str, Any]]:
    """The rows of all learners in a record, each run in a folder of its own."""
    classes = sorted({label for task in tasks for label in task.classes})
    rows: list[dict[str, Any]] = []
    for index, (name, learner) in enumerate(learners.items()):

        def tell(what: str, share: float, index: int = index, name: str = name) -> None:
            progress(f"{name}, {what}", (index + share) / len(learners))

        settings = _settings(learner)
        folder = out / (re.sub(r"[^\w.+-]+", "-", name).strip("-.") or f"learner-{index}")
        made = partial(_untaught, learner, classes)
        entry = Entry(folder, {"learner": name, "stream": described(tasks), **settings})
        (record,) = run(made, tasks, [entry], folder, progress=tell)
        about = {
            "method": name,
            "name": name,
            "type": "moments" if hasattr(learner, "remember") else "own",
            "random": False,
            "settings": settings,
            "changed": {},
        }
        rows += method_rows(about, [record], n_tasks=len(tasks))
    return rows


@dataclass
class _GivenClasses:
    """A learner whose partial_fit is told all classes of the stream."""

    learner: Any
    classes: list[Any]

    def partial_fit(self, X: Any, y: Any) -> Any:
        self.learner.partial_fit(X, y, classes=self.classes)
        return self

    def predict(self, X: Any) -> Any:
        return self.learner.predict(X)


def _untaught(learner: Any, classes: list[Any]) -> Learner:
    """A copy of a learner, so that the one given stays as it is."""
    fresh = copy.deepcopy(learner)
    takes_classes = "classes" in inspect.signature(learner.partial_fit).parameters
    return _GivenClasses(fresh, classes) if takes_classes and not resumable(learner) else fresh


def _settings(learner: Any) -> dict[str, Any]:
    """The parameters of a learner in plain values, where it tells them."""
    values = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
    return {key: one for key, one in plain(values).items() if key not in ("device", "memory")}
