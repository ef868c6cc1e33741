"""Masked sums: exact, of whoever remains, and nothing of a single client in what it sends."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import DataError, ReduNetClassifier
from redunet.distributed import masks
from redunet.distributed.flower import learn
from redunet.distributed.flower_messages import bytes_in, records
from tests.conftest import classes_on_subspaces
from tests.distributed.flower_grid import LocalGrid

X, Y = classes_on_subspaces(k=4, d=6, per_class=12, rank=2)
N_CLIENTS = 4
STAGES = ("query.keys", "query.shares", "train.masked", "query.unmask")


def clients(n_clients: int = N_CLIENTS) -> LocalGrid:
    parts = [np.arange(len(X)) % n_clients == part for part in range(n_clients)]
    return LocalGrid(*(lambda _, part=part: (X[part], Y[part]) for part in parts))


def moments_without(gone: set[int]) -> Any:
    rows = np.array([row % N_CLIENTS + 1 not in gone for row in range(len(X))])
    return ReduNetClassifier().fit(X[rows], Y[rows]).moments_


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_that_answers_late(stage: str) -> None:
    grid, node = clients(), 3
    grid.late = {(node, stage)}
    model = ReduNetClassifier()
    if stage != "query.unmask":
        with pytest.raises(DataError, match=f"client {node}: no answer within 3600 s"):
            learn(model, grid, n_clients=N_CLIENTS, masked=True)
        assert not hasattr(model, "moments_")
    found = learn(model, grid, n_clients=N_CLIENTS, min_clients=3, masked=True)
    # Who had sent its masked moments is part of the sum, whatever becomes of it then.
    gone = set() if stage == "query.unmask" else {node}
    assert model.moments_ == moments_without(gone)
    assert set(found.refused) == gone
    assert set(found.taken) == {1, 2, 3, 4} - gone


@settings(max_examples=25)
@given(st.lists(st.sampled_from([None, *STAGES]), min_size=N_CLIENTS, max_size=N_CLIENTS))
def test_any_drop_outs(stages: list[str | None]) -> None:
    grid = clients()
    grid.drops = {(node, stage) for node, stage in enumerate(stages, 1) if stage is not None}
    model = ReduNetClassifier()
    asked = [node for node, stage in enumerate(stages, 1) if stage != "query.keys"]
    masked = [node for node in asked if stages[node - 1] in (None, "query.unmask")]
    left = [node for node in masked if stages[node - 1] is None]
    needed = masks.threshold(len(asked))
    if len(masked) < max(2, needed) or len(left) < needed:
        with pytest.raises(DataError, match="nothing was changed"):
            learn(model, grid, n_clients=N_CLIENTS, min_clients=2, masked=True)
        assert not hasattr(model, "moments_")
        return
    learn(model, grid, n_clients=N_CLIENTS, min_clients=2, masked=True)
    assert model.moments_ == moments_without({1, 2, 3, 4} - set(masked))


def test_what_a_client_sends_says_nothing_about_it() -> None:
    seen: list[dict[int, Any]] = []
    for _ in range(2):
        grid = clients(3)
        found: dict[int, Any] = {}

        def keep(node: int, reply: Message, found: dict[int, Any] = found) -> Message:
            if "masked" in bytes_in(reply):
                found[node] = np.frombuffer(bytes_in(reply)["masked"], dtype="<u8")
            return reply

        grid.change = keep
        learn(ReduNetClassifier(), grid, n_clients=3, masked=True)
        seen.append(found)
    whole = ReduNetClassifier().fit(X, Y).moments_
    total = masks.vector_of(whole, whole.labels)
    for one in (*seen[0].values(), *seen[1].values(), masks.sum_of(seen[0].values()) - total):
        assert one.min() > 2**40  # of uniform numbers the smallest of 112 is; counts are not
        assert 0.45 < np.unpackbits(one.view(np.uint8)).mean() < 0.55
    assert total.min() < 100
    assert not any(
        np.intersect1d(one, other).size
        for one, other in itertools.combinations([*seen[0].values(), *seen[1].values()], 2)
    )


def test_a_client_gives_one_of_two_secrets_once() -> None:
    grid = clients(3)
    grid.drops = {(2, "query.unmask")}
    learn(ReduNetClassifier(), grid, n_clients=3, min_clients=2, masked=True)
    app, context = grid.clients[2]  # has masked, and was not asked for shares

    def asked(sent: list[int]) -> Message:
        content = records({}, sent=json.dumps(sent))
        return app(Message(content, 2, "query.unmask"), context)

    assert "expected vectors of at least 2 of 3 clients, got 1" in str(asked([2]).error.reason)
    assert "of at least 2 of 3 clients, got 2: fewer" in str(asked([2, 9]).error.reason)
    assert bytes_in(asked([1, 2])).keys() == {"1", "2", "3"}
    for sent in ([1, 2], [1, 2, 3], [1, 3]):
        assert "in order, each once" in str(asked(sent).error.reason)


def test_a_client_that_takes_part_in_masked_sums_only() -> None:
    grid = clients()
    grid.clients[2][1].node_config["masked-only"] = True
    model = ReduNetClassifier()
    learn(model, grid, n_clients=N_CLIENTS, masked=True)
    assert model.moments_ == moments_without(set())
    with pytest.raises(DataError, match="client 2: expected a masked sum, as this client has"):
        learn(ReduNetClassifier(), grid, n_clients=N_CLIENTS)


def test_masks_are_those_of_aes() -> None:
    # FIPS 197 in counter mode: the first block of a zero key is the encryption of zero.
    assert masks.stream(bytes(32), 2).astype("<u8").tobytes().hex() == (
        "dc95c078a2408989ad48a21492842087"
    )


def test_shares_open_for_whom_they_are_meant() -> None:
    pairs = {client: masks.key_pair() for client in (1, 2, 3)}
    publics = {client: public for client, (_, public) in pairs.items()}
    secrets = [masks.new_secret(), pairs[1][0]]
    sent = masks.shares_for(secrets, pairs[1][0], publics, 1)
    opened = [masks.split_share(sent[1])]
    opened += [masks.opened_share(sent[one], pairs[one][0], publics[1]) for one in (2, 3)]
    for place, secret in enumerate(secrets):
        for two in itertools.combinations([shares[place] for shares in opened], 2):
            assert masks.secret_of(two) == secret
    with pytest.raises(DataError, match="that were encrypted for this client"):
        masks.opened_share(sent[2], pairs[3][0], publics[1])
