"""Model files that several ranks read, each its own classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import ModelFileError, ReduNetClassifier, SettingsError
from redunet.estimators import Ridge, load
from tests.conftest import classes_on_subspaces
from tests.threads import ThreadRanks, on_threads

X, Y = classes_on_subspaces(k=6, d=16, per_class=30, rank=4)
FEW = np.concatenate([np.flatnonzero(label == Y)[: 30 if label % 2 else 3] for label in range(6)])


def model(rows: Any = slice(None), **settings: Any) -> ReduNetClassifier:
    return ReduNetClassifier(n_layers=5, device="cpu", **settings).fit(X[rows], Y[rows])


@pytest.mark.parametrize("kind", ["whole", "columns", "self-labelled", "words", "calibrated"])
def test_each_rank_reads_its_own_classes_and_answers_are_the_same(
    kind: str, tmp_path: Path
) -> None:
    made = model(slice(None) if kind == "whole" else FEW)
    if kind == "self-labelled":
        made.learn_unlabelled(X)
        assert made.self_labelled_counts_
    if kind == "words":
        made = ReduNetClassifier(n_layers=5).fit(X, [f"c{label}" for label in Y])
    if kind == "calibrated":
        made.calibrate_rejection(X)
    path = tmp_path / "m"
    made.save(path)
    labels, scores = made.predict(X), made.set_params(exact=True).decision_function(X)

    def ask(ranks: ThreadRanks) -> tuple[Any, ...]:
        read = load(path, "cpu")
        assert isinstance(read, ReduNetClassifier)
        with pytest.raises(SettingsError, match="of 6, as it was read in a group of 3 processes"):
            read.save(tmp_path / "other")
        with pytest.raises(SettingsError, match="expected all classes in this process to change"):
            read.partial_fit(X, Y if kind != "words" else [f"c{label}" for label in Y])
        with pytest.raises(SettingsError, match="to give the moments of the model, got"):
            read.moments_  # noqa: B018
        with pytest.raises(SettingsError, match="expected one process to tune a model"):
            read.tune(X, Y)
        state = read._fitted()
        return (
            read.predict(X),
            read.decision_function(X),
            read.rejection_threshold(0.1),
            read.novelty(X),
            read.predict_proba(X),
            state.moments.labels,
            read,
        )

    found = on_threads(3, ask)
    every = sorted(label for one in found for label in one[5])
    assert every == made.classes_.tolist()
    for one in found:
        assert np.array_equal(one[0], labels)
        np.testing.assert_allclose(one[1], scores, rtol=1e-9, atol=1e-9)
        assert one[2] == pytest.approx(made.rejection_threshold(0.1), rel=1e-5)
        np.testing.assert_allclose(one[3], made.novelty(X), rtol=1e-5)  # partly in float32
        np.testing.assert_allclose(one[4], made.predict_proba(X), atol=1e-6)
        assert one[6].class_counts_ == made.class_counts_
        assert one[6].self_labelled_counts_ == made.self_labelled_counts_
        with pytest.raises(SettingsError, match="but it has ended: read the model again"):
            one[6].predict(X)


def test_a_model_that_was_learnt_here_is_built_by_all() -> None:
    made = model()
    labels = made.predict(X)

    def ask(ranks: ThreadRanks) -> tuple[Any, int]:
        own = model()
        return own.predict(X), own.network_.layers.first.Sigma.shape[0]

    for found, n_classes in on_threads(2, ask):
        assert np.array_equal(found, labels)
        assert n_classes == 3
    made = model(whitening=0.1, readout="quadratic")
    for found in on_threads(2, lambda _: model(whitening=0.1, readout="quadratic").predict(X)):
        assert np.array_equal(found, made.predict(X))


def refusal(path: Path, size: int = 2) -> str:
    def ask(ranks: ThreadRanks) -> str:
        with pytest.raises((ModelFileError, SettingsError)) as found:
            load(path)
        return str(found.value)

    return on_threads(size, ask)[0]


def test_damage_anywhere_is_noticed_by_the_first_rank(tmp_path: Path) -> None:
    path = tmp_path / "m"
    model(FEW).save(path)
    whole = path.read_bytes()
    ReduNetClassifier.load(path)
    for place in (len(whole) - 9, len(whole) // 2, len(whole) - 3000):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)

        with pytest.raises(ModelFileError, match="or is damaged"):
            on_threads(2, lambda _: load(path))
    path.write_bytes(whole[:-100])
    assert "not a model of this version, or is damaged" in refusal(path)
    path.write_bytes(b"abc")
    assert "is not a redunet model" in refusal(path)
    path.write_bytes(whole)
    assert "at most as many processes as classes, 6, got 7" in refusal(path, 7)


def test_other_estimators_are_for_one_process(tmp_path: Path) -> None:
    Ridge().fit(X, Y).save(tmp_path / "m")
    assert "expected the model of a network in a group of processes, got 'ridge'" in refusal(
        tmp_path / "m"
    )
