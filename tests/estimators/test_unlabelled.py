"""Samples without labels: learnt apart, withdrawn as a whole, and the same in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from redunet import DataError, ReduNetClassifier
from redunet.estimators.base import SelfLabelledWarning
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.usefixtures("one_thread")

Data = tuple[NDArray[Any], NDArray[Any]]


def network() -> ReduNetClassifier:
    return ReduNetClassifier(n_layers=1, n_components=2)


def some_labels(n: int, missing: Any = -1, seed: int = 0) -> tuple[Data, NDArray[Any]]:
    """Samples of three classes, of which n each keep their labels; and all true labels."""
    X, y = classes_on_subspaces(3, 10, 20, 2, seed=seed)
    labels = y if missing == -1 else np.array(["a", "b", "c"])[y]
    kept = np.concatenate([np.flatnonzero(y == j)[:n] for j in range(3)])
    given_ = np.full(len(y), missing, dtype=labels.dtype)
    given_[kept] = labels[kept]
    return (X, given_), labels


def saved(model: ReduNetClassifier, folder: Path, name: str = "model") -> bytes:
    model.save(folder / name)
    return (folder / name).read_bytes()


@pytest.mark.parametrize("missing", [-1, ""])
def test_samples_without_labels_are_learnt_apart(missing: Any, tmp_path: Path) -> None:
    (X, y), true = some_labels(3, missing)
    model = network().partial_fit(X, y, unlabelled=missing)
    assert model.moments_.counts == (3, 3, 3)
    assert model.moments_ == network().fit(X[y != missing], y[y != missing]).moments_
    own = model.self_labelled_
    assert own is not None
    assert sum(own.counts) > 30
    assert set(own.labels) == set(true)
    assert model.network_.counts == tuple(3 + n for n in own.counts)
    again = ReduNetClassifier.load(tmp_path / "model") if saved(model, tmp_path) else None
    assert again is not None
    assert again.self_labelled_ == own
    assert saved(again, tmp_path, "again") == saved(model, tmp_path)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_all_is_learnt_or_nothing() -> None:
    (X, y), _ = some_labels(3)
    model = network().partial_fit(X[y >= 0], y[y >= 0])
    before = model.moments_
    X = X.copy()
    X[np.flatnonzero(y < 0)[0], 0] = np.nan
    with pytest.raises(DataError, match="NaN"):
        model.partial_fit(X, y, unlabelled=-1)
    assert model.moments_ == before
    assert model.self_labelled_ is None


def test_samples_without_labels_need_some_with_labels() -> None:
    X, y = classes_on_subspaces(2, 10, 20, 2)
    with pytest.raises(Exception, match="has learnt nothing yet"):
        network().partial_fit(X, np.full(len(y), -1), unlabelled=-1)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_samples_makes_no_difference(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (X, y), _ = some_labels(2, seed=seed % 7)
    order, folder = np.random.default_rng(seed).permutation(len(X)), tmp_path_factory.mktemp("m")
    one = network().partial_fit(X, y, unlabelled=-1)
    other = network().partial_fit(X[order], y[order], unlabelled=-1)
    apart = network().partial_fit(X[y >= 0], y[y >= 0]).learn_unlabelled(X[order][y[order] < 0])
    files = {saved(model, folder, str(i)) for i, model in enumerate((one, other, apart))}
    assert len(files) == 1


def test_what_the_model_labelled_is_withdrawn_as_a_whole(tmp_path: Path) -> None:
    (X, y), _ = some_labels(3)
    plain = network().fit(X[y >= 0], y[y >= 0])
    file = saved(plain, tmp_path)
    model = network().partial_fit(X, y, unlabelled=-1)
    assert saved(model, tmp_path) != file
    assert saved(model.forget_unlabelled(), tmp_path) == file
    assert saved(model.forget_unlabelled(), tmp_path) == file


def test_withdrawing_labelled_samples_withdraws_what_was_labelled_by_them(tmp_path: Path) -> None:
    (X, y), _ = some_labels(3)
    labelled, row = y >= 0, np.flatnonzero(y == 1)[:1]
    left = labelled.copy()
    left[row] = False
    never = saved(network().fit(X[left], y[left]), tmp_path)
    model = network().partial_fit(X, y, unlabelled=-1)
    with pytest.warns(SelfLabelledWarning, match="samples that the model had labelled itself were"):
        model.unlearn(X[row], y[row])
    assert saved(model, tmp_path) == never
    model = network().partial_fit(X, y, unlabelled=-1)
    with pytest.warns(SelfLabelledWarning, match="learn them again"):
        model.forget([1])
    kept = labelled & (y != 1)
    assert saved(model, tmp_path) == saved(network().fit(X[kept], y[kept]), tmp_path, "other")


def test_a_sample_that_only_the_model_labelled_cannot_be_unlearnt() -> None:
    """`unlearn` acts on what people labelled."""
    (X, y), true = some_labels(3)
    model = network().partial_fit(X, y, unlabelled=-1)
    row = np.flatnonzero(y < 0)[:1]
    with pytest.raises(DataError, match="expected samples that were learnt before"):
        model.unlearn(X[row], true[row])
    assert model.self_labelled_ is not None


def test_models_are_merged_table_by_table(tmp_path: Path) -> None:
    (X, y), _ = some_labels(3)
    one = network().partial_fit(X, y, unlabelled=-1)
    own = one.self_labelled_
    assert own is not None
    plain = network().fit(X[y >= 0], y[y >= 0])
    assert plain.merge(one).self_labelled_ == own
    both = network().partial_fit(X, y, unlabelled=-1).merge(one)
    assert both.self_labelled_ == own + own
    assert both.moments_.counts == (6, 6, 6)
    later = one.partial_fit(X[y >= 0], y[y >= 0])
    assert later.self_labelled_ == own
    assert later.fit(X[y >= 0], y[y >= 0]).self_labelled_ is None


def test_forged_tables_are_refused(tmp_path: Path) -> None:
    from redunet.errors import ModelFileError
    from redunet.estimators import storage

    (X, y), _ = some_labels(3)
    network().partial_fit(X, y, unlabelled=-1).save(tmp_path / "model")
    tensors, content = storage.load(tmp_path / "model")
    assert storage.version(tmp_path / "model") == 3
    storage.save(tmp_path / "other", tensors, content | {"self_labelled": [0, 1, 7]})
    with pytest.raises(ModelFileError, match="no class that the model alone"):
        ReduNetClassifier.load(tmp_path / "other")
    without = {key: value for key, value in content.items() if key != "self_labelled"}
    storage.save(tmp_path / "other", tensors, without)
    with pytest.raises(ModelFileError, match="other things than a model"):
        ReduNetClassifier.load(tmp_path / "other")
