"""Moments that others learn for a model: workers of a cluster, or clients of a federation.

A `Task` is a model that has learnt nothing, with what its labels must be; a `Part` is what was
learnt of a part of the data. Both are bytes with a checksum and without a pickle.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redunet._version import __version__
from redunet.core.grid import GRID
from redunet.core.labels import check_labels
from redunet.core.moments import ClassMoments, Label
from redunet.errors import DataError, ModelFileError, ReduNetError, SettingsError
from redunet.estimators import Estimator, empty_model, storage

_KINDS: dict[str, type] = {"int": int, "str": str}


@dataclass(frozen=True)
class Task:
    """A model for others to learn with.

    Parameters
    ----------
    model : bytes
        A model that has learnt nothing, as `redunet.estimators.empty_model` makes it.
    kind : str, default=""
        The type that labels must have, "int" or "str"; "" takes either.
    version : str
        Of this package, where the task was made.
    grid : int
        Steps of the integer grid in one unit of length.
    device : str, default="auto"
        Where features are computed.
    """

    model: bytes
    kind: str = ""
    version: str = __version__
    grid: int = GRID
    device: str = "auto"

    @classmethod
    def of(cls, model: Estimator, kind: str = "") -> Task:
        """The task of a model: a new one, or one that has learnt something."""
        if not model.learns_vectors:
            raise SettingsError(
                f"expected a model of whole vectors to learn in parts, got one of {model.name()}: "
                f"learn several such models, and merge them"
            )
        if hasattr(model, "moments_") and len(model.moments_):
            kind = type(model.moments_.labels[0]).__name__
        return cls(empty_model.to_bytes(model), kind, device=model.device)

    @property
    def label_type(self) -> type | None:
        """The type that labels must have, or None."""
        return _KINDS.get(self.kind)

    @property
    def sha256(self) -> str:
        """A hash of all that decides what is learnt."""
        words = f"{self.version} {self.grid} {self.kind} ".encode()
        return hashlib.sha256(words + self.model).hexdigest()

    def open(self) -> Estimator:
        """The model, where this process has the version and the grid of the task."""
        if self.version != __version__:
            raise DataError(
                f"expected redunet {self.version}, as where the task was made, got {__version__}: "
                f"install the same version everywhere"
            )
        if self.grid != GRID:
            raise DataError(f"expected a grid of {self.grid} steps, as in the task, got {GRID}")
        if self.kind not in ("", *_KINDS):
            raise DataError(f"expected labels of type int or str, got {self.kind[:20]!r} asked for")
        model = empty_model.from_bytes(self.model)
        model.device = self.device
        return model

    def learn(self, name: str, batches: Iterable[Any], names: Sequence[str] | None) -> Part | None:
        """Learn batches of samples and labels, of columns of given names; None where none are."""
        model, kind = self.open(), self.label_type
        try:
            remaining = iter(batches)
            first = next(remaining, None)
            if first is None:
                return None
            model.partial_fit_batches(itertools.chain([first], remaining), names)
            if kind is not None:
                check_labels([kind(), *model.moments_.labels])
        except ReduNetError as error:
            raise type(error)(f"{name}: {error}") from error
        return self.part(model)

    def part(self, model: Estimator) -> Part:
        """Return what a model, as `open` gave it, has learnt."""
        return Part(model.moments_, empty_model.input_of(model), self.sha256)

    def check(self, sha256: Any, given: Any, labels: Any, n_features: Any) -> Estimator:
        """The model with the input of a client, or an error where its answer does not fit."""
        if sha256 != self.sha256:
            raise SettingsError(
                "expected moments learnt with the settings and features of the server, got others"
            )
        if not isinstance(labels, list) or not labels:
            raise DataError("expected a list of at least one class from a client")
        check_labels([*([self.label_type()] if self.label_type else []), *labels])
        empty_model.check_input(given)
        model = self.open()
        if hasattr(model, "moments_"):
            agreed = empty_model.input_of(model)
            for name, value in agreed.items():
                if given[name] != value:
                    raise DataError(f"expected samples like those of the model, but {name} differs")
        try:
            if not hasattr(model, "moments_"):
                empty_model.agree(model, given)
            fits = empty_model.input_of(model) == given and model.moments_.n_features == n_features
        except storage.MALFORMED as error:
            raise DataError(f"the columns of the client: {one_line(error)}") from error
        if not fits:
            raise DataError(
                f"expected moments of {model.moments_.n_features:,} features, as the client's "
                f"samples have, got {str(n_features)[:20]}"
            )
        return model


@dataclass(frozen=True, eq=False)
class Part:
    """Moments that were learnt of a part of the data.

    Parameters
    ----------
    moments : ClassMoments
    input : dict
        The input that was agreed on, as `empty_model.input_of` gives it.
    task : str
        The sha256 of the task.
    left_out, notes : list of str
        As of a Source.
    """

    moments: ClassMoments
    input: dict[str, Any]
    task: str
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def labels(self) -> Sequence[Label]:
        """The classes."""
        return self.moments.labels

    @property
    def sha256(self) -> str:
        """A hash of the moments."""
        data = storage.encode(self.moments.to_tensors(), list(self.labels))
        return hashlib.sha256(data).hexdigest()

    def to_bytes(self) -> bytes:
        """Bytes that depend on nothing but the values, with a checksum in them."""
        content = {
            "labels": list(self.labels),
            "input": self.input,
            "task": self.task,
            "said": [self.left_out, self.notes],
        }
        return storage.encode(self.moments.to_tensors(), content)

    @classmethod
    def from_bytes(cls, data: bytes) -> Part:
        """The part that `to_bytes` made bytes of, checked, as it comes from elsewhere."""
        tensors, content = storage.decode(data, "the contribution")
        try:
            moments = ClassMoments.from_tensors(content["labels"], tensors)
            left_out, notes = content["said"]
            return cls(moments, dict(content["input"]), str(content["task"]), left_out, notes)
        except storage.MALFORMED as error:
            raise ModelFileError(f"the contribution is not one of this version: {error}") from error

    def __reduce__(self) -> tuple[Callable[[bytes], Part], tuple[bytes]]:
        return Part.from_bytes, (self.to_bytes(),)

    def __sizeof__(self) -> int:
        """Bytes in memory, at most, by which Dask decides where to add parts."""
        return 8 * len(self.moments) * self.moments.n_features**2

    def __add__(self, other: Part) -> Part:
        mine, theirs = self.input, other.input
        for name in mine:
            if mine[name] != theirs[name]:
                raise DataError(
                    f"expected samples of one kind in all partitions, but they differ in {name}, "
                    f"{str(mine[name])[:80]} and {str(theirs[name])[:80]}: pass the same columns"
                )
        return Part(self.moments + other.moments, mine, self.task)


def one_line(error: BaseException) -> str:
    """An error in one line, for a person."""
    words = str(error) if isinstance(error, ReduNetError) else f"{type(error).__name__}: {error}"
    return " ".join(words.split())[:500]
