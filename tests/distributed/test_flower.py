"""Federations on Flower: the file of one process, whoever takes part, and whoever does not."""

from __future__ import annotations

import hashlib
import logging
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import DataError, ReduNetClassifier, SettingsError
from redunet.distributed.flower import learn, server_app, withdraw
from redunet.estimators import LinearDiscriminant, Ridge
from redunet.features import Standardize
from tests.conftest import classes_on_subspaces
from tests.distributed.flower_grid import LocalGrid

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)

OVERLAPPING = [np.arange(len(X)) % 3 == part for part in range(3)]
DISJOINT = [Y < 2, Y == 2, Y > 2]


def data(rows: Any, X: Any = X, y: Any = Y) -> Callable[[Context], Any]:
    return lambda context: (X[rows], y[rows])


def file_hash(model: Any, folder: Path) -> str:
    model.save(folder / "hashed")
    return hashlib.sha256((folder / "hashed").read_bytes()).hexdigest()


@settings(max_examples=15)
@given(
    owner=st.lists(st.integers(0, 3), min_size=120, max_size=120),
    masked=st.booleans(),
    words=st.booleans(),
)
def test_any_split(owner: list[int], masked: bool, words: bool) -> None:
    labels = np.array([f"class {label}" for label in Y]) if words else Y
    parts = [np.array(owner) == part for part in sorted(set(owner))]
    if len(parts) < 2:
        return
    model = ReduNetClassifier()
    grid = LocalGrid(*(data(part, y=labels) for part in parts))
    found = learn(model, grid, n_clients=len(parts), masked=masked)
    assert model.moments_ == ReduNetClassifier().fit(X, labels).moments_
    assert sorted(found.taken) == [*range(1, len(parts) + 1)]


@pytest.mark.parametrize("masked", [False, True])
def test_settings_features_and_columns_travel(masked: bool, tmp_path: Path) -> None:
    images = np.abs(X).reshape(-1, 3, 4)
    features = Standardize.learn(images)
    words = np.array([f"c{label}" for label in Y])
    cases: list[tuple[Callable[[], Any], Any, Any]] = [
        (lambda: Ridge(features=features), images, Y),
        (lambda: LinearDiscriminant(normalize="constant"), X, words),
        (lambda: ReduNetClassifier(n_layers=3, normalize="class", input_range=(-9, 9)), X, Y),
    ]
    for make, samples, labels in cases:
        grid = LocalGrid(*(data(part, samples, labels) for part in OVERLAPPING))
        model = make()
        learn(model, grid, n_clients=3, masked=masked)
        wanted = file_hash(make().fit(samples, labels), tmp_path)
        assert file_hash(model, tmp_path) == wanted
        learn(model, grid, n_clients=3, masked=masked)  # adds to what is there
        both = make().fit(samples, labels).partial_fit(samples, labels)
        assert file_hash(model, tmp_path) == file_hash(both, tmp_path)
    frame = pd.DataFrame(X, columns=[f"v{index}" for index in range(12)])
    parts = [frame.iloc[:50], frame.iloc[50:]]
    grid = LocalGrid(lambda _: (parts[0], Y[:50]), lambda _: (parts[1], Y[50:]))
    model = ReduNetClassifier()
    learn(model, grid, n_clients=2, masked=masked)
    assert file_hash(model, tmp_path) == file_hash(ReduNetClassifier().fit(frame, Y), tmp_path)


def test_a_client_withdraws_as_if_it_had_never_taken_part(tmp_path: Path) -> None:
    grid = LocalGrid(*map(data, DISJOINT[:2]), data(OVERLAPPING[2]))
    for masked in (False, True):
        model = ReduNetClassifier()
        found = learn(model, grid, n_clients=3, masked=masked)
        before = file_hash(model, tmp_path)
        with pytest.raises(DataError, match="expected the moments that client 3 sent before"):
            withdraw(model, grid, {3: "0" * 64})
        assert file_hash(model, tmp_path) == before
        withdraw(model, grid, {3: found.taken[3]})
        plain = ReduNetClassifier().fit(X[Y < 3], Y[Y < 3])
        assert file_hash(model, tmp_path) == file_hash(plain, tmp_path)
    other = LocalGrid(*map(data, DISJOINT[:2]), data(OVERLAPPING[2], X + 5))
    with pytest.raises(DataError, match=r"expected a class that was learnt|learnt before"):
        withdraw(model, other, {3: ""})
    assert file_hash(model, tmp_path) == file_hash(plain, tmp_path)


def _fails(context: Context) -> Any:
    return 1 / 0


def test_a_client_that_does_not_fit_is_refused_in_one_line(tmp_path: Path) -> None:
    bad = X.copy()
    bad[60, 3] = np.nan
    clients: list[tuple[Callable[[Context], Any], str]] = [
        (lambda _: (X[:, :7], Y), "X has 7 features"),
        (lambda _: (X, Y.astype(str)), "all int or all str"),
        (lambda _: (bad, Y), "the data of this client: Input contains NaN"),
        (lambda _: (X[:0], Y[:0]), "expected at least one sample, got none"),
        (lambda _: X, "expected a pair of samples and labels"),
        (_fails, "the data of this client: ZeroDivisionError: division by zero"),
    ]
    for masked in (False, True):
        model = ReduNetClassifier().fit(X, Y)
        before = file_hash(model, tmp_path)
        for load, said in clients:
            grid = LocalGrid(data(OVERLAPPING[0]), load, data(OVERLAPPING[1]))
            with pytest.raises(DataError, match=said) as caught:
                learn(model, grid, n_clients=3, masked=masked)
            assert "\n" not in str(caught.value)
            assert file_hash(model, tmp_path) == before
        found = learn(model, grid, n_clients=3, min_clients=2, masked=masked)
        assert list(found.refused) == [2]
        wanted = ReduNetClassifier().fit(X, Y).partial_fit(X[~OVERLAPPING[2]], Y[~OVERLAPPING[2]])
        assert file_hash(model, tmp_path) == file_hash(wanted, tmp_path)


def test_moments_travel_as_packed_bytes() -> None:
    d, k = 40, 3
    samples, labels = classes_on_subspaces(k=k, d=d, per_class=200, rank=d)
    grid = LocalGrid(lambda _: (samples, labels), lambda _: (samples[:9], labels[:9]))
    learn(ReduNetClassifier(), grid, n_clients=2)
    (_, _, many), (_, _, few) = grid.sent
    triangles = 8 * k * (d * (d + 1) // 2 + d + 1)
    assert triangles <= many <= triangles + 2000
    assert few <= 8 * (9 * d + k * (d + 2) + 9) + 2000


def test_bad_settings() -> None:
    grid = LocalGrid(*map(data, OVERLAPPING))
    with pytest.raises(SettingsError, match="expected min_clients up to n_clients=3, got 4"):
        learn(ReduNetClassifier(), grid, n_clients=3, min_clients=4)
    with pytest.raises(SettingsError, match="expected n_clients to be a whole number from 1"):
        learn(ReduNetClassifier(), grid, n_clients=0)
    with pytest.raises(SettingsError, match="expected min_clients from 2 for masked sums"):
        learn(ReduNetClassifier(), grid, n_clients=3, min_clients=1, masked=True)
    with pytest.raises(DataError, match="expected 4 clients to connect within 0 s, got 3"):
        learn(ReduNetClassifier(), grid, n_clients=4, timeout=0)


def test_the_server_app_changes_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "model.safetensors"
    app = server_app(ReduNetClassifier(n_layers=3), path)
    grid = LocalGrid(*map(data, OVERLAPPING))

    def run(**config: Any) -> None:
        values = {key.replace("_", "-"): value for key, value in config.items()}
        app(grid, Context(7, 1, {}, RecordDict(), values))

    def plain(rows: Any) -> bytes:
        ReduNetClassifier(n_layers=3).fit(X[rows], Y[rows]).save(tmp_path / "plain")
        return (tmp_path / "plain").read_bytes()

    with pytest.raises(SettingsError, match="expected n-clients in the run configuration"):
        run(withdraw="")
    with caplog.at_level("INFO", "flwr"):
        run(n_clients=3, min_clients=3, masked=False, timeout=60, withdraw="")
    assert path.read_bytes() == plain(Y >= 0)
    gone = re.findall(r"redunet: taken (2:\w{64})$", caplog.text, re.M)[0]
    with pytest.raises(SettingsError, match='expected withdraw = "NODE:SHA256'):
        run(withdraw="x")
    assert path.read_bytes() == plain(Y >= 0)
    run(n_clients=3, withdraw=gone)
    assert path.read_bytes() == plain(~OVERLAPPING[1])
    grid.drops = {(3, "train")}
    with pytest.raises(DataError, match="client 3: no answer within 60 s") as caught:
        run(n_clients=3, timeout=60)
    logging.getLogger("flwr").error("ServerApp raised", exc_info=caught.value)  # as Flower does
    assert "ServerApp raised" not in caplog.text
    assert path.read_bytes() == plain(~OVERLAPPING[1])


def test_without_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr.app", None)
    monkeypatch.delitem(sys.modules, "redunet.distributed.flower")
    with pytest.raises(SettingsError, match=r"there is no .*: pip install 'redunet\[flower\]'$"):
        import_module("redunet.distributed.flower")
