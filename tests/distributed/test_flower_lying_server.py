"""What a client refuses of a server that does not follow the protocol."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict

from redunet import ReduNetClassifier
from redunet.distributed import masks
from redunet.distributed.flower_messages import bytes_in, of_task, records, values_in
from redunet.distributed.task import Task
from redunet.estimators import storage
from tests.conftest import classes_on_subspaces
from tests.distributed.flower_grid import LocalGrid

X, Y = classes_on_subspaces(k=4, d=6, per_class=12, rank=2)
TASK = Task.of(ReduNetClassifier())
LABELS = [0, 1, 2, 3]
DEEP = "[" * 100_000


class Server:
    """Three clients, 1 to 3, whose messages a test writes itself."""

    def __init__(self) -> None:
        self.grid = LocalGrid(*(lambda _, part=part: (X[part::3], Y[part::3]) for part in range(3)))
        self.keys = {node: self.ask(node, "query.keys", of_task(TASK)) for node in (1, 2, 3)}

    def reply(self, node: int, kind: str, content: RecordDict) -> Message:
        app, context = self.grid.clients[node]
        found: Message = app(Message(content, node, kind), context)
        return found

    def ask(self, node: int, kind: str, content: RecordDict) -> Message:
        found = self.reply(node, kind, content)
        assert not found.has_error(), found.error.reason
        return found

    def refusal(self, node: int, kind: str, content: RecordDict) -> str:
        found = self.reply(node, kind, content)
        assert found.has_error()
        reason = str(found.error.reason)
        assert "\n" not in reason
        assert len(reason) <= 500
        return reason

    def of_all(self, **changed: Any) -> RecordDict:
        """What a server that follows the protocol sends after the keys."""
        values: dict[int, Any] = {node: values_in(one) for node, one in self.keys.items()}
        shares = {str(node): one["share"] for node, one in values.items()}
        for_masks = {str(node): one["mask"].decode() for node, one in values.items()}
        told = {"mask_keys": for_masks, "labels": LABELS, "shares": shares} | changed
        return records(
            told["shares"],
            **{name: json.dumps(told[name]) for name in ("mask_keys", "labels")},
        )

    def masked(self) -> dict[int, Message]:
        """Everything up to the masked moments."""
        sent = {node: bytes_in(self.ask(node, "query.shares", self.of_all())) for node in (1, 2, 3)}
        return {
            node: self.ask(
                node,
                "train.masked",
                records({str(o): sent[o][str(node)] for o in sent if o != node}),
            )
            for node in sent
        }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": 2**10}, "expected a grid of 1024 steps, as in the task, got 1048576"),
        ({"grid": True}, "expected a whole number of steps"),
        ({"version": "0.0"}, "expected redunet 0.0, as where the task was made, got"),
        ({"kind": "float"}, "expected labels of type int or str"),
        ({"model": TASK.model + b"\0"}, "was altered after it was saved"),
        ({"model": b"\x08" + bytes(7) + DEEP.encode()}, "is not a redunet model"),
    ],
)
def test_a_task_of_another_kind(changes: dict[str, Any], said: str) -> None:
    changed = of_task(replace(TASK, **changes))
    for kind in ("train", "query.keys"):
        assert said in Server().refusal(1, kind, changed)


def of_model(place: str, value: Any) -> RecordDict:
    """A task whose model holds something else, with a checksum that is right."""
    tensors, content = storage.decode(TASK.model, "")
    *above, last = place.split(".")
    target = content
    for name in above:
        target = target[name]
    target[last] = value
    return of_task(replace(TASK, model=storage.encode(tensors, content)))


LIFT = {"kind": "gaussian-lift", "values": {
    "seed": 0, "relu": True, "centred": False, "learnt_from_data": False,
    "input_shape": [2, 3, 1], "n_kernels": 10**9,
}}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("settings", None),
        ("settings.n_layers", 10**9),
        ("settings.kind", ["ridge"]),
        ("settings.new", 1),
        ("embedding.input_range", [0, 0]),
        ("embedding.features", LIFT),
        ("embedding.features", {"kind": "os.system", "values": {}}),
        ("input", {"n_columns": 2**24, "names": None, "resize": False, "encoder": None}),
        ("input", {"n_columns": 6, "names": ["a"], "resize": False, "encoder": None}),
    ],
)
def test_a_model_with_impossible_settings(place: str, value: Any) -> None:
    server = Server()
    for kind in ("train", "query.keys"):
        assert server.refusal(1, kind, of_model(place, value))


def test_messages_that_are_none() -> None:
    server = Server()
    arrays = RecordDict({"bytes": ArrayRecord({"model": Array("x", (1,), "y", b"")})})
    for content in (RecordDict(), arrays, records({})):
        for kind in ("train", "query.keys", "query.shares", "train.masked", "query.unmask"):
            assert server.refusal(1, kind, content)
    for name in ("mask_keys", "labels"):
        for text in ("{", DEEP, '{"1": 2}', "null"):
            values = {"mask_keys": "{}", "labels": "[]"} | {name: text}
            sent = bytes_in_record(server.of_all())
            assert server.refusal(1, "query.shares", records(sent, **values))
    server.masked()
    for told in (DEEP, "7", '["a"]', "[1e400]"):
        assert server.refusal(1, "query.unmask", records({}, sent=told))


def bytes_in_record(content: RecordDict) -> dict[str, bytes]:
    return bytes_in(Message(content, 1, "query"))


def test_asked_for_shares_again_for_others() -> None:
    """Otherwise invented clients would have had both secrets, and real ones the masked sum."""
    server = Server()
    invented = {node: masks.key_pair()[1] for node in (1, 8, 9)}
    mine: Any = values_in(server.keys[1])
    for_masks = {str(node): key.decode() for node, key in invented.items()}
    shares = {str(node): key for node, key in invented.items()} | {"1": mine["share"]}
    lie = server.of_all(mask_keys=for_masks | {"1": mine["mask"].decode()}, shares=shares)
    server.ask(1, "query.shares", lie)  # this alone cannot be told from clients that are real
    said = server.refusal(1, "query.shares", server.of_all())
    assert "in order, each once: start again" in said
    other = Server()
    other.masked()
    for kind in ("query.shares", "train.masked"):
        content = other.of_all() if kind == "query.shares" else records({})
        assert "in order, each once: start again" in other.refusal(1, kind, content)
    # A new round has new secrets: what was masked before stays masked.
    before = other.grid.clients[1][1].state["redunet"]["own"]
    other.ask(1, "query.keys", of_task(TASK))
    assert other.grid.clients[1][1].state["redunet"]["own"] != before


def test_claims_about_who_takes_part() -> None:
    def refused(said: str, **changed: Any) -> None:
        server = Server()
        assert said in server.refusal(1, "query.shares", server.of_all(**changed))

    values: dict[int, Any] = {node: values_in(one) for node, one in Server().keys.items()}
    keys = {str(node): one["mask"].decode() for node, one in values.items()}
    refused("this client's own keys among those of all", mask_keys=keys)
    server = Server()
    own: dict[int, Any] = {node: values_in(one) for node, one in server.keys.items()}
    good = {str(node): one["mask"].decode() for node, one in own.items()}
    shares = {str(node): one["share"] for node, one in own.items()}
    for changed, said in (
        ({"mask_keys": {"1": good["1"]}}, "two keys of each client"),
        ({"mask_keys": good | {"4": keys["2"]}}, "two keys of each client"),
        ({"mask_keys": good | {"2": good["3"]}}, "no two of them alike"),
        ({"shares": shares | {"2": shares["1"]}}, "no two of them alike"),
        ({"mask_keys": good | {"2": "no key"}}, "expected a public key"),
        ({"shares": {"1": shares["1"]}, "mask_keys": {"1": good["1"]}}, "at least two clients"),
        ({"shares": {"2": shares["2"], "3": shares["3"]}}, "this one among them"),
        ({"shares": shares | {"02": shares["2"]}}, "expected the numbers of clients"),
        ({"labels": [0, 1]}, "expected all classes of this client"),
        ({"labels": [0, 0, 1, 2, 3]}, "among those of the sum, in order"),
        ({"labels": ["0", 1, 2, 3]}, "all int or all str"),
        ({"labels": [*range(10**7)]}, "at most 2.1 GB"),
    ):
        assert said in server.refusal(1, "query.shares", server.of_all(**changed))
    sent = {node: bytes_in(server.ask(node, "query.shares", server.of_all())) for node in (1, 2, 3)}
    to_one = {str(other): sent[other]["1"] for other in (2, 3)}
    for lie in ({}, to_one | {"1": sent[2]["1"]}, to_one | {"9": sent[2]["1"]}, {"x": b""}):
        assert server.refusal(1, "train.masked", records(lie))
    server.ask(1, "train.masked", records(to_one))
    for claim in ([1], [1, 9], [], [1, 1]):
        said = server.refusal(1, "query.unmask", records({}, sent=json.dumps(claim)))
        assert "fewer are not to be unmasked" in said
    given = bytes_in(server.ask(1, "query.unmask", records({}, sent="[1, 2]")))
    assert given.keys() == {"1", "2", "3"}
    assert "in order" in server.refusal(1, "query.unmask", records({}, sent="[1, 2, 3]"))
