"""Flower's records, to and from what they hold here: bytes, and a few plain values.

Moments travel as arrays of uint8, which nothing on the way adds or averages: the strategies that
come with Flower average arrays of floats, which integers of 64 bits do not survive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from redunet.distributed.contribution import Task
from redunet.errors import DataError

REFUSED = 0
"""Flower's code of an error that it does not know; ours come with a reason."""


def array_of(data: bytes) -> Array:
    """Bytes as an array of uint8."""
    return Array(np.frombuffer(data, dtype=np.uint8))


def bytes_of(array: Array) -> bytes:
    """The bytes in an array of uint8; a DataError where it is of anything else."""
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
    """A message's content: bytes by name, with a checksum, and plain values."""
    return RecordDict(
        {
            "bytes": ArrayRecord({name: array_of(data) for name, data in arrays.items()}),
            "values": ConfigRecord(values | {"sha256": _sha256(arrays)}),
        }
    )


def _sha256(arrays: Mapping[str, bytes]) -> str:
    """The checksum of bytes by name, in any order."""
    each = [(name, hashlib.sha256(arrays[name]).hexdigest()) for name in sorted(arrays)]
    return hashlib.sha256(json.dumps(each).encode()).hexdigest()


def bytes_in(message: Message) -> dict[str, bytes]:
    """All bytes of a message's content, by name."""
    found = message.content.get("bytes")
    if not isinstance(found, ArrayRecord):
        raise DataError("expected a message of a redunet federation, got another")
    given = {str(name): bytes_of(array) for name, array in found.items()}
    if values_in(message).get("sha256") != _sha256(given):
        raise DataError("expected bytes as they were sent, but they have another checksum")
    return given


def values_in(message: Message) -> ConfigRecord:
    """The plain values of a message's content."""
    found = message.content.get("values")
    if not isinstance(found, ConfigRecord):
        raise DataError("expected a message of a redunet federation, got another")
    return found


def of_task(task: Task) -> RecordDict:
    """A task, to be sent to clients."""
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


def refusal(reason: str, message: Message) -> Message:
    """The reply of a client that does not take part, with one line that says why."""
    return Message(Error(REFUSED, reason), reply_to=message)
