"""The Python batches of CIFAR-10: pickles, read without trusting them.

A pickle may name any function and have it called. Here the few names that the
genuine files use become stand-ins, which note what they are called with and
do nothing, not even numpy's own; any other name is an error. The arrays are
then made from the notes.
"""

import io
import pickle
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError

_ALLOWED = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }
)
# What the pickle machine raises on garbage, as its documentation warns.
_GARBAGE = (
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


class _StandIn:
    """Takes the place of a name in a pickle, and of whatever calling it would return."""

    # Without a __dict__, and with __setstate__, there is nothing that a pickle could change here.
    __slots__ = ("args", "name", "state")

    def __init__(self, name: str, args: tuple[Any, ...] = ()) -> None:
        self.name, self.args, self.state = name, args, None

    def __call__(self, *args: Any) -> "_StandIn | bytes":
        # How Python 3 writes bytes in the old protocol.
        if self.name == "encode" and isinstance(args[0], str) and args[1:] == ("latin1",):
            return args[0].encode("latin1")
        return _StandIn(self.name, args)

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            wanted = f"{module}.{name}"
            msg = f"asks for {wanted!r}, which no CIFAR-10 batch needs: do not trust this file"
            raise DataError(msg)
        return _StandIn(name)


def _read_array(note: Any) -> NDArray[np.uint8]:
    """Make the array that a stand-in for numpy's ``_reconstruct`` was told of."""
    _, shape, dtype, is_fortran, raw = note.state
    if (
        note.name != "_reconstruct"
        or dtype.name != "dtype"
        or dtype.args[0] not in ("u1", b"u1")
        or is_fortran
        or not isinstance(raw, bytes)
        or len(raw) != prod(shape)
    ):
        msg = "data should be an array of bytes"
        raise ValueError(msg)
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


def decode(raw: bytes, what: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read one batch.

    Parameters
    ----------
    raw : bytes
        The file.
    what : str
        Its name, for the message.

    Returns
    -------
    pixels : ndarray of uint8, shape (n, 3072)
        Red, green and blue planes of 32×32, row after row.
    labels : ndarray of int64, shape (n,)
        Labels.

    Raises
    ------
    DataError
        It is no such batch, or it asks for anything that those do not need.
    """
    try:
        batch = _Unpickler(io.BytesIO(raw), encoding="bytes").load()
        batch = {key.decode() if isinstance(key, bytes) else key: batch[key] for key in batch}
        labels = batch["labels"]
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            msg = "labels should be a list of integers"
            raise ValueError(msg)
        return _read_array(batch["data"]), np.array(labels, dtype=np.int64)
    except DataError as error:
        msg = f"{what} {error}."
        raise DataError(msg) from None
    except _GARBAGE as error:
        msg = f"{what} is no CIFAR-10 batch ({error}): get it anew."
        raise DataError(msg) from error
