"""One safe file per model: plain dictionaries and tensors in and out.

The file is a safetensors file with exactly one metadata entry, canonical JSON,
so that equal models are equal files, to the byte. Reading encodes what was
read once more and compares the bytes: a file altered anywhere is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from redunet.errors import FileAccessError, ModelFileError
from redunet.files import write_bytes
from redunet.untrusted import open_regular

FORMAT_VERSION = 3
"""The latest format. A file has the first that holds what is in it, so that earlier files stay."""

_ENTRY = "redunet"

_LATER = {"self_labelled", "calibration"}
"""Keys of the content that came with version 3."""

T = TypeVar("T")


def save(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], content: Any) -> None:
    """Write a model file; a crash at any moment leaves the old file or the new one.

    Parameters
    ----------
    path : path of the file
    tensors : mapping from name to Tensor
    content : what JSON can hold
    """
    write_bytes(path, encode(tensors, content))


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    """Read a model file.

    Parameters
    ----------
    path : path of the file

    Returns
    -------
    tensors : dict from name to Tensor
    content : what was saved with them
    """
    with open_regular(path) as file:
        try:
            data = file.read()
        except OSError as error:
            raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    return decode(data, path)


def decode(data: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    """What `encode` made bytes of; an error about ``path``, their name, where it did not."""
    try:
        tensors = safetensors.torch.load(data)
        entry = json.loads(_metadata(data)[_ENTRY])
        version = entry["version"]
    except (
        safetensors.SafetensorError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ):
        raise ModelFileError(
            f"{path} is not a redunet model, or is damaged: take another copy of the file"
        ) from None
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, and this redunet reads up to "
            f"{FORMAT_VERSION}: upgrade redunet"
        )
    content = entry.get("content")
    try:
        intact = data == encode(tensors, content)
    except (ValueError, TypeError, RuntimeError):
        intact = False
    if not intact:
        raise ModelFileError(
            f"{path} was altered after it was saved: take another copy of the file"
        )
    return tensors, content


def sizes(path: str | os.PathLike[str]) -> dict[str, int]:
    """Bytes that each tensor of a model file takes up there; only the file's header is read.

    Parameters
    ----------
    path : path of the file

    Returns
    -------
    dict from name to bytes
    """
    return _of_header(
        path,
        lambda header: {
            name: end - begin
            for name, (begin, end) in sorted(
                (name, entry["data_offsets"])
                for name, entry in header.items()
                if name != "__metadata__"
            )
        },
    )


def version(path: str | os.PathLike[str]) -> int:
    """The format version of a model file; only the file's header is read."""
    return _of_header(
        path, lambda header: int(json.loads(header["__metadata__"][_ENTRY])["version"])
    )


def _of_header(path: str | os.PathLike[str], take: Callable[[Any], T]) -> T:
    try:
        with open_regular(path) as file:
            length = int.from_bytes(file.read(8), "little")
            return take(json.loads(file.read(length)))
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError):
        raise ModelFileError(
            f"{path} is not a redunet model: take another copy of the file"
        ) from None


def encode(tensors: Mapping[str, Tensor], content: Any) -> bytes:
    """The bytes of a model file: a function of its content alone."""
    plain = {name: tensor.cpu().contiguous() for name, tensor in sorted(tensors.items())}
    version = _version(tensors, content)
    digest = hashlib.sha256(_canonical(content if version == 1 else [version, content]))
    for name, tensor in plain.items():
        digest.update(_canonical([name, str(tensor.dtype), list(tensor.shape)]))
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    entry = {"version": version, "content": content, "checksum": digest.hexdigest()}
    return safetensors.torch.save(plain, {_ENTRY: _canonical(entry).decode("ascii")})


def _version(tensors: Mapping[str, Tensor], content: Any) -> int:
    """2 where a class may be held by some columns of its second moment, 3 by later additions."""
    if isinstance(content, dict) and not _LATER.isdisjoint(content):
        return 3
    return 2 if "n_columns" in tensors else 1


def alike(one: tuple[Mapping[str, Tensor], Any], other: tuple[Mapping[str, Tensor], Any]) -> bool:
    """Whether two pairs of tensors and content give the same file, to the byte."""
    (mine, content), (theirs, other_content) = one, other
    return (
        mine.keys() == theirs.keys()
        and _canonical(content) == _canonical(other_content)
        and all(_same_bits(tensor, theirs[name]) for name, tensor in mine.items())
    )


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    bits, others = (t.cpu().contiguous().reshape(-1).view(torch.uint8) for t in (one, other))
    return torch.equal(bits, others)


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata of a safetensors file; the library reads it from paths only."""
    length = int.from_bytes(data[:8], "little")
    metadata: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return metadata
