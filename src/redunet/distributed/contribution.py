"""What a client of a federation and its server tell each other, as bytes without a pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redunet import _version
from redunet.core.grid import GRID
from redunet.core.moments import ClassMoments, Label, check_labels
from redunet.distributed.partial import Job, array_batches, of_blocks
from redunet.errors import DataError, DataTypeError, ModelFileError, ReduNetError, SettingsError
from redunet.estimators import Estimator, MomentEstimator, blank, storage
from redunet.estimators import partial as in_parts
from redunet.estimators.checks import column_names

_KINDS: dict[str, type] = {"int": int, "str": str}


@dataclass(frozen=True)
class Task:
    """What all clients are asked for: the moments of their data, learnt in one and the same way.

    Parameters
    ----------
    model : bytes
        A model that has learnt nothing, as `redunet.estimators.blank` makes it.
    kind : str
        What labels must be, "int" or "str"; "" takes what comes.
    version : str
        Of this package, where the task was made.
    grid : int
        Steps of the integer grid in one unit of length.
    """

    model: bytes
    kind: str
    version: str = _version.__version__
    grid: int = GRID

    @classmethod
    def of(cls, model: Estimator) -> Task:
        """The task of a model: a new one, or one that has learnt something."""
        if not model.learns_vectors:
            raise SettingsError(
                f"expected a model of whole vectors for a federation, got one of {model.name()}: "
                f"learn one at each client, and merge the files"
            )
        known = hasattr(model, "moments_") and len(model.moments_)
        kind = type(model.moments_.labels[0]).__name__ if known else ""
        return cls(blank.to_bytes(model), kind)

    @property
    def sha256(self) -> str:
        """What tells this task from every other one."""
        words = f"{self.version} {self.grid} {self.kind} ".encode()
        return hashlib.sha256(words + self.model).hexdigest()

    def open(self) -> Estimator:
        """The model, where this process has the version and the grid that made the task."""
        if self.version != _version.__version__:
            raise DataError(
                f"expected redunet {self.version}, as on the server, got {_version.__version__}: "
                f"install the same version everywhere"
            )
        if self.grid != GRID:
            raise DataError(f"expected a grid of {self.grid} steps, as on the server, got {GRID}")
        if self.kind not in ("", *_KINDS):
            raise DataError(f"expected labels of type int or str, got {self.kind[:20]!r} asked for")
        return blank.from_bytes(self.model)


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a client has learnt.

    Parameters
    ----------
    moments : ClassMoments
    input : dict
        The input that was agreed on, as `blank.input_of` gives it.
    task : str
        The sha256 of the task that this answers.
    """

    moments: ClassMoments
    input: dict[str, Any]
    task: str

    def to_bytes(self) -> bytes:
        """Bytes that do not depend on anything but the values, with a checksum in them."""
        content = {"labels": list(self.moments.labels), "input": self.input, "task": self.task}
        return storage.encode(self.moments.to_tensors(), content)

    @property
    def labels(self) -> Sequence[Label]:
        """The classes."""
        return self.moments.labels

    @property
    def sha256(self) -> str:
        """What tells the moments from all others, whatever they were learnt for."""
        data = storage.encode(self.moments.to_tensors(), list(self.moments.labels))
        return hashlib.sha256(data).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Contribution:
        """What `to_bytes` gave, checked: it comes from elsewhere."""
        tensors, content = storage.decode(data, "the contribution")
        try:
            moments = ClassMoments.from_tensors(content["labels"], tensors)
            return cls(moments, dict(content["input"]), str(content["task"]))
        except storage.MALFORMED as error:
            raise ModelFileError(f"the contribution is not one of this version: {error}") from error


def learnt(task: Task, found: Any) -> Contribution:
    """What a client contributes.

    Parameters
    ----------
    task : Task
    found : (X, y), or estimator
        Samples and labels, as for `partial_fit`; or an estimator with the settings of the task's
        model that has learnt them.
    """
    model = task.open()
    if isinstance(found, MomentEstimator):
        return _learnt_before(task, model, found)
    if not isinstance(found, tuple) or len(found) != 2:
        raise DataTypeError(
            f"expected a pair of samples and labels, (X, y), or an estimator that has learnt them, "
            f"got {type(found).__name__}: change the function that gives the data of this client"
        )
    X, y = found
    part = of_blocks(
        Job.of(model, _KINDS.get(task.kind)),
        "the data of this client",
        array_batches,
        column_names(X),
        X,
        y,
    )
    if part.moments is None:
        raise DataError("the data of this client: expected at least one sample, got none")
    in_parts.add(model, part.moments, part.n_columns, column_names(X))
    return Contribution(part.moments, blank.input_of(model), task.sha256)


def _learnt_before(task: Task, model: Estimator, found: MomentEstimator) -> Contribution:
    """The same by a model of the client's own, which must be like that of the task."""
    wanted = type(model).__name__
    if type(found) is not type(model):
        raise SettingsError(f"expected a {wanted}, as on the server, got a {type(found).__name__}")
    given = blank.input_of(found)
    if not hasattr(model, "moments_"):
        blank.agree(model, given)
    mine, theirs = found._identity(found._fitted()), model._identity(model._fitted())
    for name in {**theirs, **mine}:
        if theirs.get(name) != mine.get(name):
            raise SettingsError(
                f"expected a {wanted} made like the server's, but they differ in {name}: "
                f"learn with the settings and features of the server"
            )
    if task.kind:
        check_labels((_KINDS[task.kind](), *found.moments_.labels))
    return Contribution(found.moments_, given, task.sha256)


def answered(task: Task, sha256: Any, given: Any, labels: Any, n_features: Any) -> Estimator:
    """The model of a task with the input of a client, after a check of all that the client says.

    Anything that is no answer to the task is a ReduNetError: what comes from a client may be
    anything.

    Parameters
    ----------
    task : Task
    sha256 : str
        Of the task that the client has had.
    given : dict
        The input of the client.
    labels : list of str or of int
    n_features : int
        Of its moments.
    """
    if sha256 != task.sha256:
        raise SettingsError(
            "expected moments learnt with the settings and features of the server, got others"
        )
    if not isinstance(labels, list) or not labels:
        raise DataError("expected a list of at least one class from a client")
    check_labels(([_KINDS[task.kind]()] if task.kind else []) + labels)
    model = task.open()
    agreed = blank.input_of(model) if hasattr(model, "moments_") else None
    blank.check_input(given)
    for name, value in (agreed or {}).items():
        if given[name] != value:
            raise DataError(f"expected samples like those of the model, but {name} differs")
    try:
        if agreed is None:
            blank.agree(model, given)
        fits = blank.input_of(model) == given and model.moments_.n_features == n_features
    except storage.MALFORMED as error:
        raise DataError(f"the columns of the client: {one_line(error)}") from error
    if not fits:
        raise DataError(
            f"expected moments of {model.moments_.n_features:,} features, as the client's samples "
            f"have, got {str(n_features)[:20]}"
        )
    return model


def one_line(error: BaseException) -> str:
    """What went wrong, for a person."""
    words = str(error) if isinstance(error, ReduNetError) else f"{type(error).__name__}: {error}"
    return " ".join(words.split())[:500]
