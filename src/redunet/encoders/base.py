"""Encoders, and the name and hash that tell the vectors of one from those of another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.core.threads import on_threads
from redunet.errors import DataError

_LONGEST_NAME = 256
_BATCH = 64
"""Images at a time, on a GPU."""


@dataclass(frozen=True)
class EncoderId:
    """The encoder that made some vectors.

    Two are equal if their weights are; the name is for people.

    Parameters
    ----------
    name : str
        "minilm", ..., or the name of a folder.
    sha256 : str
        Of the file of weights, in hexadecimal.
    """

    name: str
    sha256: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= _LONGEST_NAME:
            raise DataError(f"expected the name of an encoder, got {self.name!r}")
        if not isinstance(self.sha256, str) or not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise DataError(f"expected the sha256 of an encoder's weights, got {self.sha256!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EncoderId):
            return NotImplemented
        return self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __str__(self) -> str:
        return f"{self.name} (sha256 {self.sha256[:8]}…)"

    def to_dict(self) -> dict[str, str]:
        """Plain values, from which the constructor makes the same."""
        return {"name": self.name, "sha256": self.sha256}


@dataclass(frozen=True)
class Network:
    """An encoder's network in memory, in two steps."""

    prepare: Callable[[Any], Tensor]  # of one sample at a time
    vector: Callable[[Tensor], Tensor]  # (n_features,) of what was prepared; by several threads
    # Vectors, (n, n_features), of many tensors of one shape at once, on a GPU
    batch: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True, eq=False)
class Encoder:
    """Texts or images in, vectors out, each sample by itself.

    Parameters
    ----------
    id : EncoderId
    takes : {"texts", "images"}
    n_features : int
        The length of a vector.
    load : callable
        Gives the network; called when the first sample is encoded.
    image_shape : (int, int, 3), default=None
        Of images: the height, width and channels of those that it takes.
    device : str, default="cpu"

    Examples
    --------
    >>> from redunet.encoders import open_encoder
    >>> minilm = open_encoder("minilm")
    >>> minilm(["what is the weather like", "play some jazz"]).shape  # doctest: +SKIP
    (2, 384)
    """

    id: EncoderId
    takes: Literal["texts", "images"]
    n_features: int
    load: Callable[[], Network]
    image_shape: tuple[int, int, int] | None = None
    device: str = "cpu"

    @cached_property
    def network(self) -> Network:
        """The network, loaded on first use."""
        return self.load()

    def __call__(self, samples: Sequence[Any] | NDArray[Any]) -> NDArray[np.float32]:
        """Vectors, (n, n_features), of n texts, or of n images of ``image_shape`` as uint8."""
        network = self.network
        prepared = [network.prepare(sample) for sample in samples]
        if not prepared:
            return np.empty((0, self.n_features), dtype=np.float32)
        if self.device == "cpu":
            vectors = on_threads(self._vector, prepared, never_here=True)
            found = torch.stack(vectors).numpy()
        else:
            with _same_algorithm():
                if network.batch is None:
                    found = torch.stack([self._vector(sample) for sample in prepared]).numpy()
                else:
                    found = self._in_batches(prepared, network.batch)
        if found.shape[1] != self.n_features or not np.isfinite(found).all():
            raise DataError(
                f"expected {self.n_features} finite values a vector from the encoder "
                f"{self.id.name}, got {found.shape[1]}, or infinite ones: take other weights"
            )
        return found

    def _vector(self, sample: Tensor) -> Tensor:
        with torch.inference_mode():
            return self.network.vector(sample.to(self.device)).cpu()

    def _in_batches(
        self, prepared: list[Tensor], batch: Callable[[Tensor], Tensor]
    ) -> NDArray[np.float32]:
        """Always of one shape, the last one padded, so that the same operations are chosen."""
        found = []
        for start in range(0, len(prepared), _BATCH):
            some = torch.cat(prepared[start : start + _BATCH])
            padded = torch.cat([some, some.new_zeros(_BATCH - len(some), *some.shape[1:])])
            with torch.inference_mode():
                found.append(batch(padded.to(self.device))[: len(some)].cpu())
        return torch.cat(found).numpy()


_one_at_a_time = Lock()
"""Held while cuDNN's flags are changed: they are those of the whole process, so of two calls at
once the later one would put back what the earlier one had set. PyTorch has no flags of one call.
Feature maps and layers never convolve, so no bit of a model depends on these flags."""


@contextmanager
def _same_algorithm() -> Iterator[None]:
    """Let a GPU always take the same algorithm for an operation, without rounding inputs."""
    with (
        _one_at_a_time,
        torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=False
        ),
    ):
        yield


def missing(name: str, extra: str, module: str | None) -> DataError:
    """The error that a package for an encoder is not installed."""
    return DataError(
        f"expected the package of the encoder {name} to be installed, but there is no "
        f"{module or extra}: pip install 'redunet[{extra}]'"
    )
