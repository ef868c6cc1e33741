"""The server of a federation on Flower, which adds what clients learn: in the clear or masked."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from redunet.core.moments import ClassMoments, Label
from redunet.distributed import masks
from redunet.distributed.flower_messages import bytes_in, of_task, records, values_in
from redunet.distributed.task import Part, Task, one_line
from redunet.errors import DataError, SettingsError

_POLL_SECONDS = 0.5

T = TypeVar("T")
A = TypeVar("A", bound="Part | _Keys")


@dataclass
class Round:
    """One round of a federation, with the parameters and the outcome of `flower.learn`.

    Of ``nodes``, where there are some, only these clients are asked.
    """

    task: Task
    grid: Grid
    n_clients: int
    min_clients: int
    timeout: float
    nodes: Iterable[int] = ()
    taken: dict[int, str] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("n_clients", self.n_clients), ("min_clients", self.min_clients)):
            if type(value) is not int or value < 1:
                raise SettingsError(f"expected {name} to be a whole number from 1, got {value!r}")
        if self.min_clients > self.n_clients:
            raise SettingsError(
                f"expected min_clients up to n_clients={self.n_clients}, got {self.min_clients}"
            )

    def in_the_clear(self) -> Part:
        """The sum of what clients send, each its moments."""
        asked = dict.fromkeys(self._connected(), of_task(self.task))
        found = self._alike(self._answers(asked, "train", self._part_in))
        total: ClassMoments | None = None
        # The fewest samples first: who claims too many for a class keeps nobody else out.
        for node in sorted(found, key=lambda node: (sum(found[node].moments.counts), node)):
            own = found[node]
            try:
                total = own.moments if total is None else total + own.moments
            except DataError as error:
                self.refused[node] = one_line(error)
            else:
                self.taken[node] = own.sha256
        self._check_enough(len(self.taken))
        first = next(iter(found.values()))
        return Part(total or first.moments, first.input, self.task.sha256)

    def _part_in(self, node: int, reply: Message) -> Part:
        own = Part.from_bytes(bytes_in(reply).get("moments", b""))
        model = self.task.check(own.task, own.input, list(own.labels), own.moments.n_features)
        model._pipeline().check_moments(own.moments)
        own.moments.check_not_zero()
        return own

    def masked(self) -> Part:
        """The sum alone, by the protocol of `redunet.distributed.masks`.

        Clients may drop out after each of four messages, as long as ``min_clients``, and more
        than half, remain.
        """
        if self.min_clients < 2:
            raise SettingsError(
                f"expected min_clients from 2 for masked sums, got {self.min_clients}: the sum of "
                f"one client is what it has learnt"
            )
        asked = dict.fromkeys(self._connected(), of_task(self.task))
        keys = self._alike(self._answers(asked, "query.keys", self._keys_in))
        labels = sorted({label for one in keys.values() for label in one.labels})
        d, needed = next(iter(keys.values())).n_features, masks.threshold(len(keys))
        enough = max(self.min_clients, needed)
        masks.check_size(len(labels), d)

        publics = {str(node): one.share for node, one in keys.items()}
        for_masks = json.dumps({str(node): one.mask.decode() for node, one in keys.items()})
        content = records(publics, mask_keys=for_masks, labels=json.dumps(labels))
        sent = self._answers(
            dict.fromkeys(keys, content),
            "query.shares",
            lambda node, reply: _shares_in(reply, keys.keys() - {node}, all_of_them=True),
        )
        self._check_enough(len(sent), enough)

        received = {
            node: records({str(other): sent[other][node] for other in sent if other != node})
            for node in sent
        }
        size = len(labels) * masks.class_size(d)
        vectors = self._answers(received, "train.masked", lambda _, one: _vector_in(one, size))
        self._check_enough(len(vectors), enough)

        question = records({}, sent=json.dumps([*vectors]))
        shares = self._answers(
            dict.fromkeys(vectors, question),
            "query.unmask",
            lambda _, reply: _shares_in(reply, sent.keys()),
        )
        self._check_enough(len(shares), needed)
        secrets = {node: _secret_of(node, shares, keys) for node in sent}
        total = masks.unmasked(
            vectors,
            {node: secrets[node] for node in vectors},
            {node: secrets[node] for node in sent if node not in vectors},
            {node: one.mask for node, one in keys.items()},
        )
        moments = masks.moments_of(total, labels, d)
        moments.check_not_zero()
        self.taken = dict.fromkeys(vectors, "")
        for node in vectors:  # it may have dropped out after what matters
            self.refused.pop(node, None)
        return Part(moments, next(iter(keys.values())).input, self.task.sha256)

    def _keys_in(self, node: int, reply: Message) -> _Keys:
        values: Any = values_in(reply)
        try:
            about = json.loads(values["about"])
            mask, share = values["mask"], values["share"]
            labels, d, given = about["labels"], about["n_features"], about["input"]
            task = about["task"]
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            raise DataError("expected the keys of a client, got something else") from error
        self.task.check(task, given, labels, d)
        masks.check_size(len(labels), d)
        return _Keys(masks.checked_public(mask), masks.checked_public(share), labels, d, given)

    def _connected(self) -> list[int]:
        """The clients to ask, once enough of them are connected."""
        until = time.monotonic() + self.timeout
        while True:
            nodes = set(self.grid.get_node_ids())
            found = sorted(nodes.intersection(self.nodes) if self.nodes else nodes)
            if len(found) >= self.n_clients:
                return found
            if time.monotonic() > until:
                raise DataError(
                    f"expected {self.n_clients} clients to connect within {self.timeout:g} s, got "
                    f"{len(found)}: nothing was changed; start more, or ask for fewer"
                )
            time.sleep(_POLL_SECONDS)

    def _answers(
        self, contents: Mapping[int, RecordDict], kind: str, use: Callable[[int, Message], T]
    ) -> dict[int, T]:
        """The replies of clients, as ``use`` reads them; where it cannot, the reason is kept."""
        messages = [
            Message(content, node, kind, ttl=self.timeout, group_id="1")
            for node, content in contents.items()
        ]
        replies = self.grid.send_and_receive(messages, timeout=self.timeout)
        by_node = {reply.metadata.src_node_id: reply for reply in replies}
        found: dict[int, T] = {}
        for node in contents:
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

        Of two groups that are equally large nobody can tell whose samples are the right ones.
        """
        self._check_enough(len(found))
        kinds = {
            node: own.input | {"type of labels": type(own.labels[0]).__name__}
            for node, own in found.items()
        }
        groups: dict[str, list[int]] = defaultdict(list)
        for node, kind in kinds.items():
            groups[json.dumps(kind, sort_keys=True)].append(node)
        largest, *others = sorted(groups.values(), key=len, reverse=True)
        wanted = kinds[largest[0]]
        for group in others:
            kind = kinds[group[0]]
            name = next(name for name in wanted if kind[name] != wanted[name])
            differ = (
                f"expected samples of one kind on all clients, but they differ in {name}, "
                f"{str(wanted[name])[:80]} and {str(kind[name])[:80]}"
            )
            if len(group) == len(largest):
                raise DataError(f"{differ}: nothing was changed")
            self.refused |= dict.fromkeys(group, f"{differ} of this one")
        self._check_enough(len(largest))
        return {node: found[node] for node in found if node in largest}

    def _check_enough(self, n_clients: int, needed: int | None = None) -> None:
        needed = self.min_clients if needed is None else needed
        if n_clients < needed:
            whys = "; ".join(f"client {node}: {why}" for node, why in self.refused.items())
            raise DataError(
                f"expected moments of {needed} clients or more, got those of {n_clients}; nothing "
                f"was changed; {whys}"
            )


@dataclass(frozen=True)
class _Keys:
    """The public keys of a client, and what it says of its part."""

    mask: bytes
    share: bytes
    labels: list[Label]
    n_features: int
    input: dict[str, Any]


def _shares_in(
    reply: Message, clients: Iterable[int], all_of_them: bool = False
) -> dict[int, bytes]:
    """Shares for clients, or of them."""
    found, wanted = bytes_in(reply), set(clients)
    shares = {int(name): found[name] for name in found if name.isdecimal()}
    if not shares.keys() <= wanted or (all_of_them and shares.keys() != wanted):
        raise DataError(f"expected {len(wanted)} shares, got {len(shares)}")
    return shares


def _vector_in(reply: Message, size: int) -> masks.Vector:
    data = bytes_in(reply).get("masked", b"")
    if len(data) != 8 * size:
        raise DataError(f"expected {size:,} masked integers, got {len(data) // 8:,}")
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def _secret_of(
    node: int, shares: Mapping[int, dict[int, bytes]], clients: Mapping[int, _Keys]
) -> bytes:
    """A client's secret, of the shares that others have given of it."""
    of_node = {giver: given[node] for giver, given in shares.items() if node in given}
    found, needed = masks.well_formed(of_node, clients), masks.threshold(len(clients))
    if len(found) < needed:
        raise DataError(
            f"expected {needed} shares of the secret of client {node}, got {len(found)}, as it "
            f"gave the others none that they can open: nothing was changed; run the round again "
            f"without it"
        )
    return masks.secret_of(found[:needed])
