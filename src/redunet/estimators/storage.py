"""One safe file per model: plain dictionaries and tensors in and out.

The file is a safetensors file with exactly one metadata entry, canonical JSON,
so that equal models are equal files, to the byte. Reading encodes what was
read once more and compares the bytes: a file altered anywhere is noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from redunet.errors import FileAccessError, ModelFileError

FORMAT_VERSION = 1
_ENTRY = "redunet"


def save(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], content: Any) -> None:
    """Write a model file; a crash at any moment leaves the old file or the new one.

    Parameters
    ----------
    path : path of the file
    tensors : mapping from name to Tensor
    content : what JSON can hold
    """
    write_bytes(path, encode(tensors, content))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all; a file that was there before is replaced at once."""
    path = Path(path)
    try:
        _replace(path, data)
    except FileAccessError:
        raise
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from error


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder, and those above it, where they are missing."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return path


def _cannot_write(path: Path, error: Exception) -> FileAccessError:
    why = getattr(error, "strerror", None) or error
    return FileAccessError(
        f"cannot write {path}: {why}; check the folder, its permissions "
        f"and the free space (a file that was there before is unchanged)"
    )


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
    path = Path(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        why = getattr(error, "strerror", None) or error
        raise FileAccessError(f"cannot read {path}: {why}") from error
    try:
        tensors = safetensors.torch.load(data)
        entry = _metadata(data)[_ENTRY]
        version = json.loads(entry)["version"]
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelFileError(
            f"{path} is not a redunet model, or is damaged: take another copy of the file"
        ) from None
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, and this redunet reads up to "
            f"{FORMAT_VERSION}: upgrade redunet"
        )
    content = json.loads(entry).get("content")
    try:
        intact = data == encode(tensors, content)
    except (ValueError, RecursionError):
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
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        return {
            name: end - begin
            for name, (begin, end) in sorted(
                (name, entry["data_offsets"])
                for name, entry in header.items()
                if name != "__metadata__"
            )
        }
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError):
        raise ModelFileError(
            f"{path} is not a redunet model: take another copy of the file"
        ) from None


def encode(tensors: Mapping[str, Tensor], content: Any) -> bytes:
    """The bytes of a model file: a function of its content alone."""
    plain = {name: tensor.cpu().contiguous() for name, tensor in sorted(tensors.items())}
    digest = hashlib.sha256(_canonical(content))
    for name, tensor in plain.items():
        digest.update(_canonical([name, str(tensor.dtype), list(tensor.shape)]))
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    entry = {"version": FORMAT_VERSION, "content": content, "checksum": digest.hexdigest()}
    return safetensors.torch.save(plain, {_ENTRY: _canonical(entry).decode("ascii")})


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata of a safetensors file; the library reads it from paths only."""
    length = int.from_bytes(data[:8], "little")
    metadata: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return metadata


def _replace(path: Path, data: bytes) -> None:
    """Write to a temporary name in the same folder, sync, rename.

    The temporary name is always the same, so that what a killed process left
    there is taken over by the next save, and it is locked, so that two
    processes that save at once do so one after the other.
    """
    if path.is_dir():
        raise IsADirectoryError(21, "a folder is in the way", str(path))
    folder = path.absolute().parent
    temporary = folder / f".{path.name}.saving"
    while True:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _same_file(file.fileno(), temporary):
                continue  # whoever held the lock has renamed it meanwhile
            try:
                file.truncate(0)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        break
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # a folder that may be written but not read cannot be synced
    try:
        os.fsync(handle)
    except OSError as error:
        raise FileAccessError(
            f"{path} is written, but its folder could not be synced: {error.strerror or error}"
        ) from error
    finally:
        os.close(handle)


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
