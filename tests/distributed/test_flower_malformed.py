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
from redunet.distributed.contribution import Contribution, Task, learnt
from redunet.distributed.flower import learn
from redunet.distributed.flower_records import bytes_in, records
from redunet.estimators import storage
from tests.conftest import classes_on_subspaces
from tests.distributed.flower_grid import LocalGrid

X, Y = classes_on_subspaces(k=4, d=6, per_class=12, rank=2)
PARTS = [np.arange(len(X)) % 4 == part for part in range(4)]
OTHERS = ReduNetClassifier().fit(X[~PARTS[1]], Y[~PARTS[1]]).moments_
GOOD = learnt(Task.of(ReduNetClassifier()), (X[PARTS[1]], Y[PARTS[1]]))
DEEP = "[" * 100_000
BAD = 2


def grid_with(change: Callable[[Message], RecordDict | None], kind: str) -> LocalGrid:
    """Four clients, the replies of the second of which are something else."""
    grid = LocalGrid(*(lambda _, part=part: (X[part], Y[part]) for part in PARTS))

    def changed(node: int, reply: Message) -> Message:
        if node != BAD or reply.metadata.message_type != kind or reply.has_error():
            return reply
        content = change(reply)
        return reply if content is None else Message(content, reply_to=Message(content, node, kind))

    grid.change = changed
    return grid


def check_left_out(grid: LocalGrid, masked: bool, said: str = "") -> None:
    model = ReduNetClassifier()
    found = learn(model, grid, n_clients=4, min_clients=3, masked=masked)
    assert model.moments_ == OTHERS
    assert list(found.refused) == [BAD]
    assert found.refused[BAD]
    assert len(found.refused[BAD]) <= 500
    assert "\n" not in found.refused[BAD]
    assert said in found.refused[BAD]
    assert sorted(found.taken) == [1, 3, 4]


def with_content(**changes: Any) -> bytes:
    """A contribution that says other things, with a checksum that is right."""
    tensors, content = storage.decode(GOOD.to_bytes(), "good")
    changed = {**content, **{name: value for name, value in changes.items() if name in content}}
    return storage.encode(
        {**tensors, **{k: v for k, v in changes.items() if k in tensors}}, changed
    )


def with_input(**changes: Any) -> bytes:
    return with_content(input={**GOOD.input, **changes})


def sent(data: bytes) -> RecordDict:
    return records({"moments": data})


def raw(array: Array) -> RecordDict:
    return RecordDict({"bytes": ArrayRecord({"moments": array}), "values": ConfigRecord()})


def moments(count: int, X: Any = X[PARTS[1]]) -> ClassMoments:
    return ReduNetClassifier().fit(np.tile(X, (count, 1)), np.tile(Y[PARTS[1]], count)).moments_


WIDE = learnt(Task.of(ReduNetClassifier()), (np.tile(X, (1, 3)), Y)).to_bytes()
WORDS = learnt(Task.of(ReduNetClassifier()), (X, Y.astype(str))).to_bytes()
ZEROS = learnt(Task.of(ReduNetClassifier()), (X * (Y != 2)[:, None], Y)).to_bytes()
UNMASKED: dict[str, tuple[Callable[[], RecordDict], str]] = {
    "no input": (lambda: sent(with_content(input={})), "the columns of samples"),
    "an input of None": (lambda: sent(with_content(input=None)), "not one of this version"),
    "columns of None": (lambda: sent(with_input(n_columns=None)), "the columns of samples"),
    "columns as float": (lambda: sent(with_input(n_columns=6.0)), "the columns of samples"),
    "columns of True": (lambda: sent(with_input(n_columns=True)), "the columns of samples"),
    "too many columns": (lambda: sent(with_input(n_columns=10**6)), "of 1,000,000 features"),
    "columns beyond all": (lambda: sent(with_input(n_columns=10**30)), "the columns of samples"),
    "names as one text": (lambda: sent(with_input(names="abcdef")), "the columns of samples"),
    "too few names": (lambda: sent(with_input(names=["a"])), "a name for each of 6 columns"),
    "a resize of 3": (lambda: sent(with_input(resize=3)), "the columns of samples"),
    "no encoder": (lambda: sent(with_input(encoder={"name": "a"})), "the columns of the client"),
    "labels in a text": (lambda: sent(with_content(labels="abcd")), "expected"),
    "labels of lists": (lambda: sent(with_content(labels=[[0], [1], [2], [3]])), "expected"),
    "mixed labels": (lambda: sent(with_content(labels=[0, 1, 2, "3"])), "expected"),
    "labels of None": (lambda: sent(with_content(labels=None)), "not one of this version"),
    "labels of words": (lambda: sent(WORDS), "they differ in type of labels, int and str"),
    "three times the columns": (lambda: sent(WIDE), "they differ in n_columns, 6 and 18"),
    "a task of None": (lambda: sent(with_content(task=None)), "settings and features of the"),
    "zero vectors": (lambda: sent(ZEROS), "class 2: expected at least one sample that is not zero"),
    "moments of nothing": (
        lambda: sent(with_content(sums=GOOD.moments.to_tensors()["sums"] + 2)),
        "class 0: expected moments that samples can have",
    ),
    "nested": (lambda: sent(b"\x08\x00\x00\x00\x00\x00\x00\x00" + DEEP.encode()), "is not a"),
    "a nested header": (
        lambda: sent(len(DEEP).to_bytes(8, "little") + DEEP.encode()), "is not a redunet model"
    ),
    "no array": (lambda: raw(Array("uint8", (3,), "numpy.ndarray", b"abc")), "expected bytes"),
    "an array of a pickle": (
        lambda: raw(Array("object", (1,), "numpy.ndarray", b"\x93NUMPY\x01\x00v\x00{'descr': 'O'")),
        "expected bytes as an array",
    ),
    "another stype": (lambda: raw(Array("uint8", (3,), "pickle", b"abc")), "expected bytes"),
    "no bytes": (lambda: RecordDict({"bytes": ConfigRecord()}), "expected a message of a redunet"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNMASKED)
def test_an_answer_in_the_clear(name: str) -> None:
    content, said = UNMASKED[name]
    check_left_out(grid_with(lambda reply: content(), "train"), False, said)


MILLION = GOOD.input | {"n_columns": 10**6}


def about(change: Callable[[dict[str, Any]], Any]) -> Callable[[Message], RecordDict]:
    """What a client says of itself, changed; with its true keys."""

    def changed(reply: Message) -> RecordDict:
        values: Any = reply.content["values"]
        told = change(json.loads(values["about"]))
        text = told if isinstance(told, str) else json.dumps(told)
        return records({}, mask=values["mask"], share=values["share"], about=text)

    return changed


def key(name: str, value: Any) -> Callable[[Message], RecordDict]:
    def changed(reply: Message) -> RecordDict:
        values: Any = reply.content["values"]
        return records({}, **{**{n: values[n] for n in ("mask", "share", "about")}, name: value})

    return changed


KEYS: dict[str, tuple[Callable[[Message], RecordDict], str]] = {
    "no JSON": (about(lambda told: "{"), "expected the keys of a client"),
    "nested JSON": (about(lambda told: DEEP), "expected the keys of a client"),
    "a list": (about(lambda told: [told]), "expected the keys of a client"),
    "nothing": (about(lambda told: {}), "expected the keys of a client"),
    "a number": (key("about", 7), "expected the keys of a client"),
    "no mask key": (key("mask", "a text"), "expected a public key"),
    "no share key": (key("share", "a text"), "expected a public key"),
    "a mask key that is none": (key("mask", b"\xff\xfe"), "expected a public key"),
    "a share key that is a number": (key("share", 3), "expected a public key"),
    "features of None": (about(lambda told: told | {"n_features": None}), "got None"),
    "a million features": (about(lambda told: told | {"n_features": 10**6}), "got 1000000"),
    "a million columns": (
        about(lambda told: told | {"n_features": 10**6, "input": MILLION}),
        "they differ in n_columns, 6 and 1000000",
    ),
    "words": (about(lambda told: told | {"labels": ["0", "1"]}), "type of labels, int and str"),
    "mixed labels": (about(lambda told: told | {"labels": [0, "1"]}), "all int or all str"),
    "true labels": (about(lambda told: told | {"labels": [True]}), "expected labels that are"),
    "no labels": (about(lambda told: told | {"labels": []}), "at least one class"),
    "labels of None": (about(lambda told: told | {"labels": None}), "at least one class"),
    "labels in a table": (about(lambda told: told | {"labels": [[0]]}), "expected labels that are"),
    "too many labels": (
        about(lambda told: told | {"labels": [*range(10**7)]}), "at most 2.1 GB"
    ),
    "no input": (about(lambda told: told | {"input": {}}), "the columns of samples"),
    "a task of None": (about(lambda told: told | {"task": None}), "settings and features of the"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_the_keys_of_a_client(name: str) -> None:
    change, said = KEYS[name]
    check_left_out(grid_with(change, "query.keys"), True, said)


@pytest.mark.parametrize("kind", ["query.shares", "train.masked"])
@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        records({"moments": b"?"}),
        records({"1": b"", "-3": b"", "٤": b""}),
        RecordDict({"bytes": ArrayRecord({"masked": Array("x", (1,), "y", b"")})}),
        RecordDict({"bytes": ArrayRecord({"masked": Array(np.zeros(3))})}),
    ],
    ids=range(5),
)
def test_shares_and_masked_moments(kind: str, content: RecordDict) -> None:
    check_left_out(grid_with(lambda reply: content, kind), True)


def test_shares_of_a_secret_that_are_strings_or_of_nothing() -> None:
    """Those of the last step: by then the moments of the client are part of the sum."""
    for share in (b"", b"?", b"\0" * 4, b"\0" * 52):
        bad = {str(node): share for node in (1, 2, 3, 4)}
        model = ReduNetClassifier()
        grid = grid_with(lambda reply, bad=bad: records(bad), "query.unmask")  # type: ignore[misc]
        learn(model, grid, n_clients=4, min_clients=3, masked=True)
        assert model.moments_ == ReduNetClassifier().fit(X, Y).moments_


@pytest.mark.parametrize("kind", ["train", "query.shares", "train.masked", "query.unmask"])
def test_what_is_damaged_on_the_way_is_left_out(kind: str) -> None:
    def damaged(reply: Message) -> RecordDict:
        name, data = next(iter(bytes_in(reply).items()))
        other = bytes_in(reply) | {name: data[:-1] + bytes([data[-1] ^ 1])}
        values: Any = reply.content["values"]
        return RecordDict({"bytes": records(other)["bytes"], "values": values})

    grid, masked = grid_with(damaged, kind), kind != "train"
    if kind != "query.unmask":
        check_left_out(grid, masked, "expected bytes as they were sent, but they have another")
        return
    model = ReduNetClassifier()
    learn(model, grid, n_clients=4, min_clients=3, masked=masked)
    assert model.moments_ == ReduNetClassifier().fit(X, Y).moments_


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
    assert model.n_features_in_ == 6
    # A model that has learnt something says itself what all must be like.
    grid = LocalGrid(*others, *others, *parts)
    found = learn(model, grid, n_clients=6, min_clients=2, masked=masked)
    assert sorted(found.taken) == [5, 6]


def test_who_claims_too_many_samples_keeps_nobody_out() -> None:
    many = dict.fromkeys(range(4), 1)
    full = moments(1)
    tensors = full.to_tensors()
    most = (2**23 - 1) // max(full.counts)
    claimed = {name: tensors[name] * most for name in ("counts", "sums", "second_moments")}
    forged = ClassMoments.from_tensors([*many], {**tensors, **claimed})
    data = Contribution(forged, GOOD.input, GOOD.task).to_bytes()
    check_left_out(grid_with(lambda reply: sent(data), "train"), False, "the grid holds no more")
