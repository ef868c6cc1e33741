"""Processes that exchange sums of tensors.

They are started by ``torchrun``, or by anything else that sets what PyTorch reads: RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from redunet.errors import GroupError, SettingsError

FIRST_MEETING = timedelta(minutes=1)
"""Long enough for the others to load PyTorch and appear."""

LONGEST_WAIT = timedelta(minutes=30)
"""A process waits so long for the part of another. One that ends is noticed at once; this is for
one that does not answer any more. It has to be longer than a layer takes."""

_meetings = itertools.count()


class Ranks:
    """The processes of a group, as one of them sees them; this class is one process alone.

    All processes call the same methods in the same order, with tensors of the same shape and
    dtype, and all get the same result.

    Attributes
    ----------
    rank : int
        The number of this process, from 0 on.
    size : int
        The number of processes.
    """

    rank = 0
    size = 1

    def sum_(self, part: Tensor) -> Tensor:
        """Turn the part of this process into the sum over all processes, in place."""
        return part

    def max_(self, part: Tensor) -> Tensor:
        """Turn the part of this process into the largest of all processes, in place."""
        return part


class TorchRanks(Ranks):
    """The processes of a group of ``torch.distributed``, with counts of what was reduced."""

    def __init__(self, by_nccl: bool, members: dist.ProcessGroup | None = None) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.messages = self.n_bytes = 0
        self._by_nccl, self._members = by_nccl, members

    def sum_(self, part: Tensor) -> Tensor:
        """Turn the part of this process into the sum over all processes, in place."""
        return self._reduce_(part, dist.ReduceOp.SUM)

    def max_(self, part: Tensor) -> Tensor:
        """Turn the part of this process into the largest of all processes, in place."""
        return self._reduce_(part, dist.ReduceOp.MAX)

    def _reduce_(self, part: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        self.messages += 1
        self.n_bytes += part.nbytes
        sent = part.contiguous() if self._by_nccl else part.cpu().contiguous()
        try:
            dist.all_reduce(sent, how, self._members)
        except RuntimeError as error:  # a peer's connection is closed, or nothing came in time
            raise GroupError(
                f"expected {self.size} processes to work together, but one has ended or does not "
                f"answer, so this one stops: see what the others say, and start all of them again"
            ) from error
        return part if sent is part else part.copy_(sent)


@contextmanager
def group() -> Iterator[Ranks]:
    """Connect to the other processes of a group, within the block.

    Yields
    ------
    Ranks
        With ``rank``, the number of this process, and ``size``, how many there are: 1 where the
        program was started as usual, without torchrun.

    Examples
    --------
    >>> with group() as ranks:  # started without torchrun
    ...     print(ranks.rank, ranks.size)
    0 1
    """
    if not dist.is_initialized() and os.environ.get("WORLD_SIZE", "1") == "1":
        yield Ranks()
        return
    by_nccl = _by_nccl()
    backend = "cpu:gloo,cuda:nccl" if by_nccl else "gloo"
    members = None
    if dist.is_initialized():  # by the program, perhaps for GPUs alone
        members = dist.new_group(backend=backend, timeout=LONGEST_WAIT)
    else:
        _begin(backend)
    try:
        yield TorchRanks(by_nccl, members)
    finally:
        dist.destroy_process_group(members)


def _by_nccl() -> bool:
    """Whether each process of this machine has a GPU of its own; takes it, where there are some."""
    n, local = torch.cuda.device_count(), int(os.environ.get("LOCAL_RANK", "0"))
    if n:
        torch.cuda.set_device(local % n)
    return dist.is_nccl_available() and 0 < int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= n


def _begin(backend: str) -> None:
    """Meet the other processes, and connect to them."""
    try:
        store, rank, size = next(rendezvous("env://", timeout=FIRST_MEETING))
        store = PrefixStore(f"redunet/{next(_meetings)}", store)  # one may follow another
        if store.add("met", 1) == size:
            store.set("all met", "")
        store.wait(["all met"], FIRST_MEETING)
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=LONGEST_WAIT
        )
    except (RuntimeError, ValueError) as error:
        where = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
        raise SettingsError(
            f"expected to meet {os.environ.get('WORLD_SIZE')} processes at {where} within "
            f"{FIRST_MEETING.seconds} s, but could not: start all of them with torchrun"
        ) from error
