"""A Flower strategy that adds moments exactly."""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from redunet.core.moments import ClassMoments, Label
from redunet.distributed.contribution import Contribution, Task, answered, one_line
from redunet.distributed.flower_records import array_of, bytes_in, of_task
from redunet.errors import DataError, SettingsError

_LOG = logging.getLogger("flwr")

_POLL_SECONDS = 0.5

T = TypeVar("T")


class _Answer(Protocol):
    """What clients must agree on in what they answer."""

    @property
    def input(self) -> dict[str, Any]: ...

    @property
    def labels(self) -> Sequence[Label]: ...


A = TypeVar("A", bound=_Answer)


def _kind_of(answer: _Answer) -> dict[str, Any]:
    """What all clients must have alike."""
    return answer.input | {"type of labels": type(answer.labels[0]).__name__}


class MomentSum(Strategy):
    """One round: every client learns its own data, and the server adds what they have learnt.

    After `start` with one round, ``total`` and ``input`` are what all clients that took part have
    learnt together; nothing depends on their number or order.

    Parameters
    ----------
    task : Task
        Of the model that is to learn.
    n_clients : int
        How many must be connected before the round begins. All that are connected are asked.
    min_clients : int
        How many must take part for the round to count.
    timeout : float
        Seconds that clients may take to connect, and to answer.
    nodes : iterable of int, default=None
        The clients to ask, by Flower's node ids, in place of all that are connected.

    Attributes
    ----------
    taken : dict from int to str
        Of each client that took part, by its node id, the sha256 of what it sent; "" if masked.
    refused : dict from int to str
        Of each other client that was asked, one line that says why it did not take part.
    """

    def __init__(
        self,
        task: Task,
        n_clients: int,
        min_clients: int,
        timeout: float,
        nodes: Iterable[int] | None = None,
    ) -> None:
        for name, value in (("n_clients", n_clients), ("min_clients", min_clients)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SettingsError(f"expected {name} to be a whole number from 1, got {value!r}")
        if min_clients > n_clients:
            raise SettingsError(
                f"expected min_clients up to n_clients={n_clients}, got {min_clients}"
            )
        self.task, self.n_clients, self.min_clients = task, n_clients, min_clients
        self.timeout, self.nodes = timeout, None if nodes is None else sorted(set(nodes))
        self.taken: dict[int, str] = {}
        self.refused: dict[int, str] = {}
        self.total: ClassMoments | None = None
        self.input: dict[str, Any] | None = None
        self._asked: list[int] = []

    def summary(self) -> None:
        """Log what this strategy does."""
        _LOG.info("moments of %s clients or more, added exactly", self.min_clients)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages that ask clients for their moments."""
        nodes = self._connected(grid)
        return self._messages(dict.fromkeys(nodes, of_task(self.task)), "train")

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add the moments of all replies, and give them as bytes, with the number of samples."""
        found = self._alike(self._answers(replies, self._contribution_in))
        # The fewest samples first: who claims too many for a class keeps nobody else out.
        for node in sorted(found, key=lambda node: (sum(found[node].moments.counts), node)):
            own = found[node]
            try:
                self.total = own.moments if self.total is None else self.total + own.moments
            except DataError as error:
                self.refused[node] = one_line(error)
            else:
                self.taken[node] = own.sha256
        self.taken = {node: self.taken[node] for node in found if node in self.taken}
        self._check_enough(len(self.taken))
        return self._result()

    def _contribution_in(self, node: int, reply: Message) -> Contribution:
        own = Contribution.from_bytes(bytes_in(reply).get("moments", b""))
        labels, d = list(own.moments.labels), own.moments.n_features
        model = answered(self.task, own.task, own.input, labels, d)
        model._pipeline().check_moments(own.moments)
        own.moments.check_not_zero()
        return own

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """No messages: there is nothing to evaluate on clients."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Nothing."""
        return None

    def _connected(self, grid: Grid) -> list[int]:
        """The clients to ask, once enough of them are connected."""
        until = time.monotonic() + self.timeout
        while True:
            found = sorted(grid.get_node_ids())
            if self.nodes is not None:
                found = [node for node in found if node in self.nodes]
            if len(found) >= self.n_clients:
                return found
            if time.monotonic() > until:
                raise DataError(
                    f"expected {self.n_clients} clients to connect within {self.timeout:g} s, got "
                    f"{len(found)}: nothing was changed; start more, or ask for fewer"
                )
            time.sleep(_POLL_SECONDS)

    def _messages(self, contents: Mapping[int, RecordDict], kind: str) -> list[Message]:
        self._asked = list(contents)
        return [
            Message(content, node, kind, ttl=self.timeout, group_id="1")
            for node, content in contents.items()
        ]

    def _answers(
        self, replies: Iterable[Message], use: Callable[[int, Message], T]
    ) -> dict[int, T]:
        """What is made of the replies, by client; where it cannot be made, the reason is kept."""
        by_node = {reply.metadata.src_node_id: reply for reply in replies}
        found: dict[int, T] = {}
        for node in self._asked:
            reply = by_node.get(node)
            if reply is None:
                self.refused[node] = f"no answer within {self.timeout:g} s"
            elif reply.has_error():
                reason = " ".join((reply.error.reason or "").split())[:500]
                self.refused[node] = reason or f"Flower's error {reply.error.code}"
            else:
                try:
                    found[node] = use(node, reply)
                except Exception as error:  # noqa: BLE001 - a client may send anything
                    self.refused[node] = one_line(error)
        return found

    def _alike(self, found: dict[int, A]) -> dict[int, A]:
        """The answers of the largest group of clients that agree on input and type of labels.

        The others are left out. Where two groups are the largest, nobody can tell whose samples
        are the right ones, and that is a DataError.
        """
        self._check_enough(len(found))
        groups: dict[str, list[int]] = defaultdict(list)
        for node, own in found.items():
            groups[json.dumps(_kind_of(own), sort_keys=True)].append(node)
        largest, *others = sorted(groups.values(), key=len, reverse=True)
        wanted = _kind_of(found[largest[0]])
        for group in others:
            kind = _kind_of(found[group[0]])
            name = next(name for name in wanted if kind[name] != wanted[name])
            differ = (
                f"expected samples of one kind on all clients, but they differ in {name}, "
                f"{str(wanted[name])[:80]} and {str(kind[name])[:80]}"
            )
            if len(group) == len(largest):
                raise DataError(f"{differ}: nothing was changed")
            self.refused |= dict.fromkeys(group, f"{differ} of this one")
        self.input = found[largest[0]].input
        self._check_enough(len(largest))
        return {node: found[node] for node in found if node in set(largest)}

    def _check_enough(self, n_clients: int, needed: int | None = None) -> None:
        needed = self.min_clients if needed is None else needed
        if n_clients < needed:
            whys = "; ".join(f"client {node}: {why}" for node, why in self.refused.items())
            raise DataError(
                f"expected moments of {needed} clients or more, got those of {n_clients}; nothing "
                f"was changed; {whys}"
            )

    def _result(self) -> tuple[ArrayRecord | None, MetricRecord | None]:
        if self.total is None or self.input is None:
            return None, None
        total = Contribution(self.total, self.input, self.task.sha256).to_bytes()
        arrays = ArrayRecord({"moments": array_of(total)})
        return arrays, MetricRecord({"samples": sum(self.total.counts)})
