"""Models larger than memory: what takes k d² numbers lies in memory-mapped files."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, in_memory
from redunet.errors import FileAccessError
from redunet.safety.files import cannot_write

_SMALL = 2**16
"""Bytes up to which a tensor is in memory all the same: the number of mapped files is limited."""


@contextmanager
def offload(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Let models that are made or loaded within the block lie in files, not in memory.

    Second moments, and the layers that are built of them, are then held in memory-mapped files,
    one for each class, for as long as the model lives, within the block and after it. Learning,
    saving, loading and building touch one class at a time, and the system keeps in memory what
    there is room for. Nothing else changes: labels and model files are the same to the bit.

    The files have no names. So they end with the model or the process, even if it is killed, and
    take no part in saving, which replaces a model file in one step as ever. Threads that were
    started elsewhere are not affected.

    Parameters
    ----------
    folder : path
        On a disk that is fast and has room for about four times the model file; a folder in
        memory (tmpfs) would save nothing.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from redunet import ReduNetClassifier, offload
    >>> X, y = load_digits(return_X_y=True)
    >>> with offload(tempfile.gettempdir()):
    ...     model = ReduNetClassifier(memory="100MB").fit(X, y)
    >>> model.moments_ == ReduNetClassifier().fit(X, y).moments_
    True
    """
    files = MappedFiles(os.path.abspath(folder))
    files((_SMALL,), dtype=torch.uint8)  # an error at once where nothing can be written there
    before = _allocate.set(files)
    try:
        yield
    finally:
        _allocate.reset(before)


def allocate_here() -> Allocate:
    """Where a model that is made now has its second moments."""
    return _allocate.get()


@dataclass(frozen=True)
class MappedFiles:
    """Gives tensors that lie in files without names, each of which ends with its tensor.

    Parameters
    ----------
    folder : str
    """

    folder: str

    def __call__(self, shape: tuple[int, ...], *, dtype: torch.dtype) -> Tensor:
        """A tensor of a given shape and dtype."""
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes < _SMALL:
            return in_memory(shape, dtype=dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder, buffering=0) as file:
                _reserve(file.fileno(), n_bytes)
                flat = torch.from_file(
                    f"/dev/fd/{file.fileno()}", shared=True, size=math.prod(shape), dtype=dtype
                )
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        except RuntimeError as error:  # of PyTorch: there is a limit to how many can be mapped
            raise FileAccessError(
                f"cannot map {n_bytes:,} bytes of a file in {self.folder} into memory: use fewer "
                f"classes, or raise the system's limit (sysctl vm.max_map_count)"
            ) from error
        return flat.view(shape)


def _reserve(handle: int, n_bytes: int) -> None:
    """Make a file so long, and an error now where the disk is full: later it would be a signal."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, n_bytes)
    else:
        os.ftruncate(handle, n_bytes)


_allocate: ContextVar[Allocate] = ContextVar("_allocate", default=in_memory)
