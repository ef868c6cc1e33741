"""A Flower strategy whose server sees the sum of all moments, and of no client its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

from redunet.core.moments import Label
from redunet.distributed import masks
from redunet.distributed.contribution import Task, answered, one_line
from redunet.distributed.flower_records import bytes_in, of_task, records, values_in
from redunet.distributed.flower_strategy import MomentSum
from redunet.errors import DataError, SettingsError


@dataclass(frozen=True)
class _Keys:
    """What a client says before it sends anything: its public keys, and what it has learnt of."""

    mask: bytes
    share: bytes
    labels: list[Label]
    n_features: int
    input: dict[str, Any]


class MaskedMomentSum(MomentSum):
    """As `MomentSum`, by masked sums: see `redunet.distributed.masks`.

    Four messages to each client in place of one, of which one is large. Clients may drop out after
    each of them, as long as ``min_clients``, and more than half, remain.

    Parameters
    ----------
    task, n_clients, min_clients, timeout
        As for `MomentSum`; two clients or more.
    """

    def __init__(self, task: Task, n_clients: int, min_clients: int, timeout: float) -> None:
        super().__init__(task, n_clients, min_clients, timeout)
        if min_clients < 2:
            raise SettingsError(
                f"expected min_clients from 2 for masked sums, got {min_clients}: the sum of one "
                f"client is what it has learnt"
            )
        self._keys: dict[int, _Keys] = {}
        self._present: list[int] = []
        self._labels: list[Label] = []
        self._grid: Grid | None = None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages that ask clients for masked moments, after all keys were exchanged."""
        self._grid = grid
        asked = dict.fromkeys(self._connected(grid), of_task(self.task))
        self._keys = self._alike(self._exchanged(asked, "query.keys", self._keys_in))
        self._labels = self._all_labels()
        publics = {str(node): keys.share for node, keys in self._keys.items()}
        for_masks = {str(node): keys.mask.decode() for node, keys in self._keys.items()}
        content = records(publics, mask_keys=json.dumps(for_masks), labels=json.dumps(self._labels))
        sent = self._exchanged(dict.fromkeys(self._keys, content), "query.shares", self._shares_in)
        self._present = [*sent]
        self._check_enough_to_unmask(len(sent))
        return self._messages(
            {
                node: records({str(other): sent[other][node] for other in sent if other != node})
                for node in sent
            },
            "train.masked",
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Add all masked moments, and take the masks off the sum."""
        masked = self._answers(replies, self._vector_in)
        self._check_enough_to_unmask(len(masked))
        question = records({}, sent=json.dumps([*masked]))
        shares = self._exchanged(dict.fromkeys(masked, question), "query.unmask", self._shares_in)
        self._check_enough_to_unmask(len(shares), at_least=1)
        secrets = {node: self._secret_of(node, shares) for node in self._present}
        total = masks.unmasked(
            masked,
            {node: secrets[node] for node in masked},
            {node: secrets[node] for node in self._present if node not in masked},
            {node: keys.mask for node, keys in self._keys.items()},
        )
        self.total = masks.moments_of(total, self._labels, self._n_features)
        self.total.check_not_zero()
        self.taken = dict.fromkeys(masked, "")
        for node in masked:  # it may have dropped out after what matters
            self.refused.pop(node, None)
        return self._result()

    def _all_labels(self) -> list[Label]:
        """The classes of all clients; who names too many for a message is left out."""
        labels: set[Label] = set()
        for node in sorted(self._keys, key=lambda node: (len(self._keys[node].labels), node)):
            more = labels.union(self._keys[node].labels)
            try:
                masks.check_size(len(more), self._keys[node].n_features)
            except DataError as error:
                self.refused[node] = one_line(error)
                del self._keys[node]
            else:
                labels = more
        self._check_enough(len(self._keys))
        return sorted(labels)

    def _secret_of(self, node: int, shares: Mapping[int, dict[int, bytes]]) -> bytes:
        """A client's secret, of the shares that others have given of it."""
        of_node = {giver: given[node] for giver, given in shares.items() if node in given}
        found, needed = masks.well_formed(of_node, self._keys), masks.threshold(len(self._keys))
        if len(found) < needed:
            raise DataError(
                f"expected {needed} shares of the secret of client {node}, got {len(found)}, as it "
                f"gave the others none that they can open: nothing was changed; run the round "
                f"again without it"
            )
        return masks.secret_of(found[:needed])

    @property
    def _n_features(self) -> int:
        return next(iter(self._keys.values())).n_features

    def _exchanged(self, contents: Mapping[int, RecordDict], kind: str, use: Any) -> dict[int, Any]:
        """Send a message to each client, and wait for what they say."""
        messages = self._messages(contents, kind)
        if self._grid is None:
            raise DataError("expected configure_train before aggregate_train")
        return self._answers(self._grid.send_and_receive(messages, timeout=self.timeout), use)

    def _keys_in(self, node: int, reply: Message) -> _Keys:
        values: Any = values_in(reply)
        try:
            about = json.loads(values["about"])
            mask, share = values["mask"], values["share"]
            labels, d, given = about["labels"], about["n_features"], about["input"]
            task = about["task"]
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            raise DataError("expected the keys of a client, got something else") from error
        answered(self.task, task, given, labels, d)
        return _Keys(masks.checked_public(mask), masks.checked_public(share), labels, d, given)

    def _shares_in(self, node: int, reply: Message) -> dict[int, bytes]:
        """Shares for each other client, or, in the end, of each that has sent such."""
        found = bytes_in(reply)
        shares = {int(name): found[name] for name in found if name.isdecimal()}
        wanted = {*self._present} or {*self._keys} - {node}
        if not shares.keys() <= wanted or (not self._present and shares.keys() != wanted):
            raise DataError(f"expected {len(wanted)} shares, got {len(shares)}")
        return shares

    def _vector_in(self, node: int, reply: Message) -> masks.Vector:
        data, d = bytes_in(reply).get("masked", b""), self._n_features
        size = len(self._labels) * (1 + d + d * (d + 1) // 2)
        if len(data) != 8 * size:
            raise DataError(f"expected {size:,} masked integers, got {len(data) // 8:,}")
        return np.frombuffer(data, dtype="<u8").astype(np.uint64)

    def _check_enough_to_unmask(self, n_clients: int, at_least: int | None = None) -> None:
        self._check_enough(
            n_clients, max(at_least or self.min_clients, masks.threshold(len(self._keys)))
        )
