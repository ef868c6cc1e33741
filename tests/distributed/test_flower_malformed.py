"""Clients that send anything: left out with one line, and the round goes on with the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict

from redunet import DataError, ReduNetClassifier
from redunet.core.moments import ClassMoments
from redunet.distributed.flower import learn
from redunet.distributed.flower_messages import bytes_in, records
from redunet.distributed.task import Part, Task
from redunet.estimators import storage
from tests.conftest import classes_on_subspaces
from tests.distributed.flower_grid import LocalGrid

X, Y = classes_on_subspaces(k=4, d=6, per_class=12, rank=2)
PARTS = [np.arange(len(X)) % 4 == part for part in range(4)]
OTHERS = ReduNetClassifier().fit(X[~PARTS[1]], Y[~PARTS[1]]).moments_
DEEP = "[" * 100_000
BAD = 2


def learnt(X: Any, y: Any, **settings: Any) -> Part:
    part = Task.of(ReduNetClassifier(**settings)).learn("data", [(X, y)], None)
    assert part is not None
    return part


GOOD = learnt(X[PARTS[1]], Y[PARTS[1]])


def grid_with(change: Callable[[Message], RecordDict], kind: str) -> LocalGrid:
    """Four clients, the replies of the second of which are something else."""
    grid = LocalGrid(*(lambda _, part=part: (X[part], Y[part]) for part in PARTS))

    def changed(node: int, reply: Message) -> Message:
        if node != BAD or reply.metadata.message_type != kind or reply.has_error():
            return reply
        content = change(reply)
        return Message(content, reply_to=Message(content, node, kind))

    grid.change = changed
    return grid


def check_left_out(grid: LocalGrid, masked: bool, said: str = "") -> None:
    model = ReduNetClassifier()
    found = learn(model, grid, n_clients=4, min_clients=3, masked=masked)
    assert model.moments_ == OTHERS
    assert list(found.refused) == [BAD]
    assert len(found.refused[BAD]) <= 500
    assert "\n" not in found.refused[BAD]
    assert said in found.refused[BAD]
    assert sorted(found.taken) == [1, 3, 4]


def with_content(**changes: Any) -> bytes:
    """A part that says other things, with a checksum that is right."""
    tensors, content = storage.decode(GOOD.to_bytes(), "good")
    changed = {**content, **{name: value for name, value in changes.items() if name in content}}
    return storage.encode(
        {**tensors, **{k: v for k, v in changes.items() if k in tensors}}, changed
    )


def sent(data: bytes) -> RecordDict:
    return records({"moments": data})


def raw(array: Array) -> RecordDict:
    return RecordDict({"bytes": ArrayRecord({"moments": array}), "values": ConfigRecord()})


def claims_too_many() -> bytes:
    """As many samples as there is room for in a class, so that no others can be added."""
    full = learnt(X[PARTS[1]], Y[PARTS[1]]).moments
    tensors, count = full.to_tensors(), (2**23 - 1) // max(full.counts)
    most = {name: tensors[name] * count for name in ("counts", "sums", "second_moments")}
    forged = ClassMoments.from_tensors([*full.labels], {**tensors, **most})
    return Part(forged, GOOD.input, GOOD.task).to_bytes()


ZEROS = learnt(X * (Y != 2)[:, None], Y)
IN_THE_CLEAR: dict[str, tuple[bytes | RecordDict, str]] = {
    "no input": (with_content(input={}), "the columns of samples"),
    "columns": (with_content(input=GOOD.input | {"n_columns": 10**6}), "of 1,000,000 features"),
    "mixed labels": (with_content(labels=[0, 1, 2, "3"]), "expected"),
    "labels of None": (with_content(labels=None), "not one of this version"),
    "labels of words": (learnt(X, Y.astype(str)).to_bytes(), "differ in type of labels, int and"),
    "more columns": (learnt(np.tile(X, (1, 3)), Y).to_bytes(), "differ in n_columns, 6 and 18"),
    "another task": (learnt(X, Y, n_layers=2).to_bytes(), "settings and features of the server"),
    "zero vectors": (ZEROS.to_bytes(), "class 2: expected at least one sample that is not zero"),
    "impossible moments": (
        with_content(sums=GOOD.moments.to_tensors()["sums"] + 2),
        "class 0: expected moments that samples can have",
    ),
    "too many samples": (claims_too_many(), "the grid holds no more"),
    "altered": (GOOD.to_bytes()[:-1] + b"?", "was altered after it was saved"),
    "nested": (len(DEEP).to_bytes(8, "little") + DEEP.encode(), "is not a redunet model"),
    "a pickle": (
        raw(Array("object", (1,), "numpy.ndarray", b"\x93NUMPY\x01\x00v\x00{'descr': 'O'")),
        "expected bytes as an array",
    ),
    "floats": (raw(Array(X)), r"expected bytes, got an array of float64 of shape (48, 6)"),
    "another message": (RecordDict(), "expected a message of a redunet federation"),
}


@pytest.mark.parametrize("name", IN_THE_CLEAR)
def test_an_answer_in_the_clear(name: str) -> None:
    found, said = IN_THE_CLEAR[name]
    content = sent(found) if isinstance(found, bytes) else found
    check_left_out(grid_with(lambda _: content, "train"), False, said)


def keys_with(about: Any = None, **keys: Any) -> Callable[[Message], RecordDict]:
    """The keys of a client and what it says of itself, changed."""

    def changed(reply: Message) -> RecordDict:
        values: Any = reply.content["values"]
        told = json.loads(values["about"]) | about if isinstance(about, dict) else about
        text = values["about"] if about is None else json.dumps(told)
        given = {"mask": values["mask"], "share": values["share"], "about": text}
        return records({}, **{**given, **keys})

    return changed


KEYS: dict[str, tuple[Callable[[Message], RecordDict], str]] = {
    "a list": (keys_with([1]), "expected the keys of a client"),
    "a number": (lambda reply: records({}, about=7), "expected the keys of a client"),
    "nested": (lambda reply: records({}, about=DEEP), "expected the keys of a client"),
    "no key": (keys_with(mask="a text"), "expected a public key"),
    "a key that is none": (keys_with(share=b"\xff\xfe"), "expected a public key"),
    "features of None": (keys_with({"n_features": None}), "got None"),
    "mixed labels": (keys_with({"labels": [0, "1"]}), "all int or all str"),
    "no labels": (keys_with({"labels": []}), "at least one class"),
    "too many labels": (keys_with({"labels": [*range(10**7)]}), "at most 2.1 GB"),
    "no input": (keys_with({"input": {}}), "the columns of samples"),
    "another task": (keys_with({"task": None}), "settings and features of the"),
}


@pytest.mark.parametrize("name", KEYS)
def test_the_keys_of_a_client(name: str) -> None:
    change, said = KEYS[name]
    check_left_out(grid_with(change, "query.keys"), True, said)


@pytest.mark.parametrize("kind", ["query.shares", "train.masked"])
@pytest.mark.parametrize("content", [RecordDict(), records({"1": b"", "-3": b"", "٤": b""})])
def test_shares_and_masked_moments(kind: str, content: RecordDict) -> None:
    check_left_out(grid_with(lambda reply: content, kind), True)


def test_wrong_shares_in_the_last_step_change_nothing() -> None:
    """By then the moments of the client are part of the sum."""
    bad = records({str(node): b"\0" * 52 for node in (1, 2, 3, 4)})
    model = ReduNetClassifier()
    grid = grid_with(lambda reply: bad, "query.unmask")
    learn(model, grid, n_clients=4, min_clients=3, masked=True)
    assert model.moments_ == ReduNetClassifier().fit(X, Y).moments_


@pytest.mark.parametrize("kind", ["train", "query.shares", "train.masked"])
def test_damage_on_the_way_is_noticed(kind: str) -> None:
    def damaged(reply: Message) -> RecordDict:
        name, data = next(iter(bytes_in(reply).items()))
        other = bytes_in(reply) | {name: data[:-1] + bytes([data[-1] ^ 1])}
        return RecordDict({"bytes": records(other)["bytes"], "values": reply.content["values"]})

    check_left_out(grid_with(damaged, kind), kind != "train", "they have another checksum")


def test_shares_that_nobody_can_open() -> None:
    def garbage(reply: Message) -> RecordDict:
        return records(dict.fromkeys(bytes_in(reply), b"?" * 200))

    grid, model = grid_with(garbage, "query.shares"), ReduNetClassifier()
    with pytest.raises(DataError, match="3 shares of the secret of client 2, got 1, as it gave"):
        learn(model, grid, n_clients=4, min_clients=3, masked=True)
    assert not hasattr(model, "moments_")

    def to_one(reply: Message) -> RecordDict:
        return records(bytes_in(reply) | {"3": b"?" * 200})

    learn(model, grid_with(to_one, "query.shares"), n_clients=4, masked=True)
    assert model.moments_ == ReduNetClassifier().fit(X, Y).moments_


@pytest.mark.parametrize("masked", [False, True])
def test_the_larger_group_decides_and_of_two_equal_ones_none(masked: bool) -> None:
    wide = np.tile(X, (1, 2))
    parts = [*(lambda _, part=part: (X[part], Y[part]) for part in PARTS[:2])]
    others = [*(lambda _, part=part: (wide[part], Y[part]) for part in PARTS[2:])]
    model = ReduNetClassifier()
    with pytest.raises(DataError, match="differ in n_columns, 6 and 12: nothing was changed"):
        learn(model, LocalGrid(*parts, *others), n_clients=4, min_clients=2, masked=masked)
    assert not hasattr(model, "moments_")
    grid = LocalGrid(*parts, lambda _: (X[PARTS[2]], Y[PARTS[2]]), *others)
    found = learn(model, grid, n_clients=5, min_clients=2, masked=masked)
    assert sorted(found.taken) == [1, 2, 3]
    assert "differ in n_columns, 6 and 12 of this one" in found.refused[4]
    # A model that has learnt something says itself what all must be like.
    grid = LocalGrid(*others, *others, *parts)
    found = learn(model, grid, n_clients=6, min_clients=2, masked=masked)
    assert sorted(found.taken) == [5, 6]
