"""The content of Flower's messages: bytes with a checksum, and a few plain values.

Moments travel as arrays of uint8, which nothing on the way adds or averages: the strategies that
come with Flower average arrays of floats, which integers of 64 bits do not survive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from redunet.distributed.task import Task
from redunet.errors import DataError


def array_of(data: bytes) -> Array:
    """Bytes as an array of uint8."""
    return Array(np.frombuffer(data, dtype=np.uint8))


def bytes_of(array: Array) -> bytes:
    """The bytes in an array of uint8; a DataError where it is anything else."""
    try:
        values = array.numpy()  # Flower reads it without pickles
    except Exception as error:  # NumPy has many kinds for bytes that are no array
        raise DataError(
            f"expected bytes as an array of uint8, got something else: {error}"
        ) from error
    if values.dtype != np.uint8 or values.ndim != 1:
        raise DataError(f"expected bytes, got an array of {values.dtype} of shape {values.shape}")
    return values.tobytes()


def records(arrays: Mapping[str, bytes], **values: Any) -> RecordDict:
    """A content: bytes by name, with a checksum, and plain values."""
    return RecordDict(
        {
            "bytes": ArrayRecord({name: array_of(data) for name, data in arrays.items()}),
            "values": ConfigRecord(values | {"sha256": _sha256(arrays)}),
        }
    )


def _sha256(arrays: Mapping[str, bytes]) -> str:
    each = [(name, hashlib.sha256(arrays[name]).hexdigest()) for name in sorted(arrays)]
    return hashlib.sha256(json.dumps(each).encode()).hexdigest()


def bytes_in(message: Message) -> dict[str, bytes]:
    """All bytes of a message, by name."""
    found = message.content.get("bytes")
    if not isinstance(found, ArrayRecord):
        raise DataError("expected a message of a redunet federation, got another")
    given = {str(name): bytes_of(array) for name, array in found.items()}
    if values_in(message).get("sha256") != _sha256(given):
        raise DataError("expected bytes as they were sent, but they have another checksum")
    return given


def by_client(found: Mapping[str, bytes]) -> dict[int, bytes]:
    """The bytes for each client, whose names are whole numbers, each written one way."""
    numbered = {int(name): value for name, value in found.items()}
    if {*map(str, numbered)} != {*found}:
        raise DataError("expected the numbers of clients, got other names")
    return numbered


def values_in(message: Message) -> ConfigRecord:
    """The plain values of a message."""
    found = message.content.get("values")
    if not isinstance(found, ConfigRecord):
        raise DataError("expected a message of a redunet federation, got another")
    return found


def of_task(task: Task) -> RecordDict:
    """The content that brings a task to clients."""
    return records({"model": task.model}, kind=task.kind, version=task.version, grid=task.grid)


def task_in(message: Message) -> Task:
    """The task that a message brings."""
    values = values_in(message)
    try:
        kind, version, grid = str(values["kind"]), str(values["version"]), values["grid"]
        model = bytes_in(message)["model"]
    except KeyError as error:
        raise DataError(f"expected {error} in the server's message, got none") from error
    if type(grid) is not int:
        raise DataError(f"expected a whole number of steps of the grid, got {grid!r}")
    return Task(model, kind, version, grid)
