"""One safe file per model: plain dictionaries and tensors in and out.

The file is a safetensors file with exactly one metadata entry, canonical JSON,
so that equal models are equal files, to the byte. The entry has a checksum, and
all else follows from tensors and content: a file altered anywhere is noticed.

It is written here, part by part, as the library would write it: that one wants all of it in
memory, or a path of its own to write to.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, in_memory
from redunet.errors import FileAccessError, ModelFileError, ReduNetError
from redunet.safety.files import write_parts
from redunet.safety.untrusted import open_regular

FORMAT_VERSION = 3
"""The latest format. A file has the first that holds what is in it, so that earlier files stay."""

_ENTRY = "redunet"

_DTYPES = {
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float64: "F64",
    torch.complex64: "C64",
    torch.float32: "F32",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Names of dtypes in the file, in the order in which it has tensors of them."""

_TORCH_DTYPES = {name: dtype for dtype, name in _DTYPES.items()}
_ORDER = {dtype: place for place, dtype in enumerate(_DTYPES)}

_LATER = {"self_labelled", "calibration"}
"""Keys of the content that came with version 3."""

T = TypeVar("T")

MALFORMED = (ReduNetError, LookupError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of taking a model out of the content of a file that `save` has not written.

Not among them: memory that PyTorch cannot have, which is a RuntimeError, and faults of the program.
"""


def save(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], content: Any) -> None:
    """Write a model file; a crash at any moment leaves the old file or the new one.

    Parameters
    ----------
    path : path of the file
    tensors : mapping from name to Tensor
    content : what JSON can hold
    """
    write_parts(path, _parts(tensors, content))


def load(
    path: str | os.PathLike[str], allocate: Allocate = in_memory
) -> tuple[dict[str, Tensor], Any]:
    """Read a model file.

    Parameters
    ----------
    path : path of the file
    allocate : Allocate, default=in_memory
        Memory for the file.

    Returns
    -------
    tensors : dict from name to Tensor
        Views of that memory, all of which stays while one of them does.
    content : what was saved with them
    """
    return _decoded(_read(path, allocate), path)


def decode(data: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    """Tensors and content of bytes that `encode` made; errors are about ``path``, their name."""
    own = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()
    return _decoded(own, path)


def _decoded(data: Tensor, path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], Any]:
    try:
        header = _header_of(data)
        entry = json.loads(header.pop("__metadata__")[_ENTRY])
        start = 8 + _header_length(data)
        tensors = {name: _view(data[start:], **facts) for name, facts in header.items()}
        version = entry["version"]
    except MALFORMED:
        raise ModelFileError(
            f"{path} is not a redunet model, or is damaged: take another copy of the file"
        ) from None
    _check_version(path, version)
    content = entry.get("content")
    try:
        header_bytes = bytes(next(_parts(tensors, content)))  # with the checksum of all tensors
        intact = data[: len(header_bytes)].numpy().tobytes() == header_bytes
        intact &= len(data) == len(header_bytes) + sum(one.nbytes for one in tensors.values())
    except MALFORMED:
        intact = False
    if not intact:
        raise ModelFileError(
            f"{path} was altered after it was saved: take another copy of the file"
        )
    return tensors, content


def _read(path: str | os.PathLike[str], allocate: Allocate) -> Tensor:
    """The bytes of a file: Tensor of shape (n,), uint8."""
    with open_regular(path) as file:
        try:
            data = allocate((os.fstat(file.fileno()).st_size,), dtype=torch.uint8)
            rest = data.numpy().data
            while rest and (n := file.readinto(rest)):  # type: ignore[attr-defined]
                rest = rest[n:]
        except OSError as error:
            raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    return data[: len(data) - len(rest)]  # should it have become shorter meanwhile


def _header_length(data: Tensor) -> int:
    return int.from_bytes(data[:8].numpy().tobytes(), "little")


def _header_of(data: Tensor) -> dict[str, Any]:
    end = 8 + _header_length(data)
    if end > len(data):
        raise ValueError("the header ends beyond the file")
    return _dictionary(json.loads(data[8:end].numpy().tobytes()))


def _dictionary(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected names and values")
    return value


def _view(data: Tensor, dtype: str, shape: list[int], data_offsets: list[int]) -> Tensor:
    """One tensor of a file, as its header describes it."""
    begin, end = data_offsets
    if not 0 <= begin <= end <= len(data):
        raise ValueError("a tensor ends beyond the file")
    of_dtype = _TORCH_DTYPES[dtype]
    if (
        (data.storage_offset() + begin) % of_dtype.itemsize
        or not all(type(side) is int and side >= 0 for side in shape)
        or math.prod(side or 1 for side in shape) >= 2**63  # strides are in 64 bits
        or math.prod(shape) * of_dtype.itemsize != end - begin
    ):
        raise ValueError("a tensor has another size than its shape")
    return data[begin:end].view(of_dtype).view(shape)


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


def _check_version(path: str | os.PathLike[str], version: Any) -> None:
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, and this redunet reads up to "
            f"{FORMAT_VERSION}: upgrade redunet"
        )


def _of_header(path: str | os.PathLike[str], take: Callable[[Any], T]) -> T:
    try:
        with open_regular(path) as file:
            length = int.from_bytes(file.read(8), "little")
            if length > os.fstat(file.fileno()).st_size:
                raise ValueError("the header ends beyond the file")
            return take(_dictionary(json.loads(file.read(length))))
    except FileAccessError:
        raise
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    except MALFORMED:
        raise ModelFileError(
            f"{path} is not a redunet model: take another copy of the file"
        ) from None


def encode(tensors: Mapping[str, Tensor], content: Any) -> bytes:
    """The bytes of a model file: a function of its content alone."""
    return b"".join(_parts(tensors, content))


def sha256(tensors: Mapping[str, Tensor], content: Any) -> str:
    """The sha256 of the file that `save` writes, part by part."""
    digest = hashlib.sha256()
    for part in _parts(tensors, content):
        digest.update(part)
    return digest.hexdigest()


def _parts(tensors: Mapping[str, Tensor], content: Any) -> Iterator[memoryview]:
    """The bytes of a model file: the header, then each tensor."""
    plain = {name: tensor.cpu().contiguous() for name, tensor in sorted(tensors.items())}
    version = _version(tensors, content)
    digest = hashlib.sha256(_canonical(content if version == 1 else [version, content]))
    for name, tensor in plain.items():
        digest.update(_canonical([name, str(tensor.dtype), list(tensor.shape)]))
        digest.update(bits(tensor))
    entry = {"version": version, "content": content, "checksum": digest.hexdigest()}
    header: dict[str, Any] = {"__metadata__": {_ENTRY: _canonical(entry).decode("ascii")}}
    # As the library orders them: the widest first, so that all are aligned.
    ordered = sorted(plain.items(), key=lambda item: (_ORDER[item[1].dtype], item[0]))
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        dtype, shape = _DTYPES[tensor.dtype], list(tensor.shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield memoryview(len(text).to_bytes(8, "little") + text)
    for _, tensor in ordered:
        yield bits(tensor)


def bits(tensor: Tensor) -> Any:
    """The memory of a tensor on the CPU, as bytes, without a copy where it is contiguous."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


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
