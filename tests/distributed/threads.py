"""Ranks as threads of one process: the protocol of a group without the time that processes take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from redunet.distributed.group import Ranks

T = TypeVar("T")


class Meeting:
    """Where the parts of all threads come together."""

    def __init__(self, size: int) -> None:
        self.parts: dict[int, Tensor] = {}
        self.barrier = threading.Barrier(size, timeout=60)


class ThreadRanks(Ranks):
    def __init__(self, rank: int, size: int, meeting: Meeting) -> None:
        self.rank, self.size, self._meeting = rank, size, meeting

    def sum_(self, part: Tensor) -> Tensor:
        return part.copy_(self._all(part).sum(dim=0, dtype=part.dtype))

    def max_(self, part: Tensor) -> Tensor:
        return part.copy_(self._all(part).amax(dim=0))

    def _all(self, part: Tensor) -> Tensor:
        self._meeting.parts[self.rank] = part
        self._meeting.barrier.wait()
        parts = [self._meeting.parts[rank] for rank in range(self.size)]
        assert len({(one.shape, one.dtype) for one in parts}) == 1
        found = torch.stack(parts)
        self._meeting.barrier.wait()
        return found


def on_threads(size: int, work: Callable[[ThreadRanks], T]) -> list[T]:
    """What each rank of a group gives."""
    meeting = Meeting(size)

    def one(rank: int) -> T:
        ranks = ThreadRanks(rank, size, meeting)
        try:
            return work(ranks)
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    errors = [error for future in futures if (error := future.exception())]
    # A rank that fails breaks the barrier that the others wait at.
    for error in sorted(errors, key=lambda one: isinstance(one, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]
