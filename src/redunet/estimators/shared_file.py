"""A model file, read by several processes: each reads the moments of its own classes.

The moments of a class are one piece of the file, so a process needs the header, the counts, sums
and pivots of all classes, and the pieces of its own. One process reads the whole file once, a
piece at a time, and compares it with its checksum, while the others wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

import safetensors
import torch
from torch import Tensor

from redunet.core.moments import ClassMoments, Label
from redunet.core.packing import NAMES, size_of_columns
from redunet.core.ranks import Ranks
from redunet.core.share import Share, split
from redunet.encoders import EncoderId
from redunet.errors import DataError, FileAccessError, ModelFileError, SettingsError
from redunet.estimators import storage
from redunet.estimators.checked_input import Embedding
from redunet.estimators.model_file import SELF_LABELLED, Model, checked_names
from redunet.estimators.rejection import Calibration
from redunet.estimators.sharing import Part
from redunet.estimators.state import State
from redunet.safety.untrusted import open_regular

_BYTES = 2**24
"""Read at once to compute a checksum."""

SECOND_MOMENTS = "second_moments"


def load_share(
    path: str | os.PathLike[str], checked: Callable[[Any], dict[str, Any]], ranks: Ranks
) -> Model:
    """`Model.load` with the moments of this process's classes alone.

    Parameters
    ----------
    path : path of the file
    checked : callable
        As for `Model.load`.
    ranks : Ranks
        More than one; all of them read the same file at the same time.
    """
    header = storage.header(path)
    try:
        large = (SECOND_MOMENTS, SELF_LABELLED + SECOND_MOMENTS)
        with safetensors.safe_open(os.fspath(path), "pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in header.places if name not in large}
        with open_regular(path) as file:
            if ranks.rank == 0:
                _check_sum(file, header, tensors)
            model = _read(file, header, tensors, checked, ranks)
    except (FileAccessError, SettingsError):
        raise
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    except (*storage.MALFORMED, safetensors.SafetensorError) as error:
        raise ModelFileError(
            f"{path} is not a model of this version, or is damaged: {error}"
        ) from error
    ranks.sum_(torch.zeros(1))  # nobody goes on before the checksum is known to be right
    return model


def _check_sum(file: BinaryIO, header: storage.Header, tensors: dict[str, Tensor]) -> None:
    """Raise a DataError unless the file has the checksum that it states.

    Tensors that are there need not be read again.
    """
    digest = storage.Digest(header.version, header.content)
    for name, place in sorted(header.places.items()):
        if name in tensors:
            digest.begin(name, tensors[name].dtype, place.shape)
            digest.update(storage.bits(tensors[name]))
            continue
        digest.begin(name, torch.int64, place.shape)
        file.seek(place.begin)
        for start in range(0, place.n_bytes, _BYTES):
            digest.update(file.read(min(_BYTES, place.n_bytes - start)))
    if digest.hex() != header.checksum:
        raise DataError("its checksum is another: take another copy of the file")


def _read(
    file: BinaryIO,
    header: storage.Header,
    tensors: dict[str, Tensor],
    checked: Callable[[Any], dict[str, Any]],
    ranks: Ranks,
) -> Model:
    content = header.content
    settings = checked(dict(content["settings"]))
    if settings != content["settings"]:
        raise DataError("it has other settings than a model of this version")
    labelled = _Classes(content["labels"], "", tensors, header)
    own = labelled.places_of(ranks)
    labels = tuple(labelled.labels[j] for j in own)
    moments = labelled.read(file, labels)
    counts, self_counts, self_labelled = labelled.counts, dict[Label, int](), None
    if "self_labelled" in content:
        by_itself = _Classes(content["self_labelled"], SELF_LABELLED, tensors, header)
        self_labelled = by_itself.read(file, [one for one in labels if one in by_itself.counts])
        self_counts = by_itself.counts
        if not self_counts.keys() <= counts.keys():
            raise DataError("expected no class that the model alone has labelled samples of")
    total = tuple(n + self_counts.get(label, 0) for label, n in counts.items())
    share = Share(tuple(counts), total, own, ranks)
    state = State(
        Embedding.from_state(content["embedding"], tensors),
        checked_names(content["feature_names"]),
        moments,
        content.get("resize", False),
        EncoderId(**content["encoder"]) if "encoder" in content else None,
        self_labelled,
        Calibration.from_state(content["calibration"], tensors)
        if "calibration" in content
        else None,
        part=Part(counts, self_counts, share),
    )
    model = Model(settings, state)
    model.check()
    return model


class _Classes:
    """Moments of classes as a file holds them, with the second moments still in the file."""

    def __init__(
        self,
        labels: Sequence[Label],
        prefix: str,
        tensors: dict[str, Tensor],
        header: storage.Header,
    ) -> None:
        self._tensors = {name: tensors[prefix + name] for name in NAMES if prefix + name in tensors}
        self._place = header.places[prefix + SECOND_MOMENTS]
        k, d = self._tensors["sums"].shape
        if not k or len(labels) != k or self._tensors["counts"].shape != (k,):
            raise DataError("expected labels, counts and sums of the same classes")
        if list(labels) != sorted(set(labels)):
            raise DataError("expected labels in order, each once")
        self.labels, self.d = tuple(labels), d
        self.counts = dict(zip(labels, self._tensors["counts"].tolist(), strict=True))
        in_columns = "n_columns" in self._tensors
        self.n_columns = self._tensors["n_columns"].tolist() if in_columns else [d] * k
        sizes = [size_of_columns(d, r) for r in self.n_columns]
        if any(not 0 <= r <= d for r in self.n_columns) or 8 * sum(sizes) != self._place.n_bytes:
            raise DataError("expected counts, sums and second moments of the same classes")
        self._begins = [0, *accumulate(sizes)]
        self._pivots = [0, *accumulate(r if r < d else 0 for r in self.n_columns)]

    def places_of(self, ranks: Ranks) -> tuple[int, ...]:
        """The classes of one of the processes."""
        return split(self.n_columns, self.d, ranks.size)[ranks.rank]

    def read(self, file: BinaryIO, labels: Sequence[Label]) -> ClassMoments:
        """The moments of some classes, read one after another."""
        place = {label: j for j, label in enumerate(self.labels)}
        table = {}
        for label in labels:
            table[label] = ClassMoments.from_tensors([label], self._one(file, place[label]))[label]
        return ClassMoments(self.d, table)

    def _one(self, file: BinaryIO, j: int) -> dict[str, Tensor]:
        """The tensors of one class, as `redunet.core.packing` has them."""
        entries = torch.empty(self._begins[j + 1] - self._begins[j], dtype=torch.int64)
        file.seek(self._place.begin + 8 * self._begins[j])
        if file.readinto(entries.numpy()) != entries.nbytes:  # type: ignore[attr-defined]
            raise DataError("it ends too early")
        one = {name: self._tensors[name][j : j + 1] for name in ("counts", "sums")}
        if "n_columns" not in self._tensors:
            return one | {SECOND_MOMENTS: entries[None]}
        pivots = self._tensors["pivots"][self._pivots[j] : self._pivots[j + 1]]
        n_columns = self._tensors["n_columns"][j : j + 1]
        return one | {SECOND_MOMENTS: entries, "n_columns": n_columns, "pivots": pivots}
