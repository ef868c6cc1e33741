"""What workers do, here in one process: moments of partitions, packed, added in any order."""

from __future__ import annotations

import copy
import hashlib
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from redunet import ClassMoments, DataError, EnsembleClassifier, ReduNetClassifier
from redunet.distributed.partial import (
    Job,
    Partial,
    added,
    array_batches,
    bag_batches,
    frame_batches,
    of_blocks,
)
from redunet.estimators import LinearDiscriminant
from redunet.estimators.base import SelfLabelledWarning
from redunet.estimators.partial import add, withdraw, without_moments
from tests.conftest import classes_on_subspaces

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)


def sent(part: Partial) -> Partial:
    """A partial result as another worker gets it: from memory that cannot be written."""
    buffers: list[pickle.PickleBuffer] = []
    raw = pickle.dumps(part, protocol=5, buffer_callback=buffers.append)
    received: Partial = pickle.loads(raw, buffers=[bytes(buffer.raw()) for buffer in buffers])
    return received


@settings(max_examples=60)
@given(
    model=st.sampled_from([ReduNetClassifier(), EnsembleClassifier(groups=(5, 4, 3))]),
    cuts=st.lists(st.integers(0, len(X)), max_size=8),
    words=st.booleans(),
    dtype=st.sampled_from(["float64", "float32", "int16"]),
    random=st.randoms(use_true_random=False),
)
def test_any_partitions_added_in_any_order(
    model: Any, cuts: list[int], words: bool, dtype: str, random: Any
) -> None:
    samples = np.round(X * 100).astype(dtype)
    labels = np.array([f"class {label}" for label in Y]) if words else Y
    bounds = [0, *sorted(cuts), len(X)]
    job = Job.of(without_moments(model), None)
    parts = [
        of_blocks(job, "a part", array_batches, None, samples[start:stop], labels[start:stop])
        for start, stop in itertools.pairwise(bounds)
    ]
    while len(parts) > 1:
        random.shuffle(parts)
        parts.append(sent(added(parts.pop(), sent(parts.pop()))))
    assert parts[0].moments == clone(model).fit(samples, labels).moments_


def test_a_partial_result_travels_as_packed_triangles(monkeypatch: pytest.MonkeyPatch) -> None:
    d, k = 40, 3
    samples, labels = classes_on_subspaces(k=k, d=d, per_class=200, rank=d)
    whole = Partial(ReduNetClassifier().fit(samples, labels).moments_)
    triangles = 8 * k * (d * (d + 1) // 2 + d + 1)
    assert triangles <= len(pickle.dumps(whole)) <= triangles + 1000
    assert whole.__sizeof__() == 8 * k * (d * d + d)
    assert sent(whole).moments == whole.moments
    monkeypatch.setattr("redunet.core.moments._ROOM", 0)
    few = Partial(ReduNetClassifier().fit(samples[:9], labels[:9]).moments_)
    assert len(pickle.dumps(few)) <= 8 * (9 * d + k * (2 * d + 1) + 9) + 1500
    assert few.__sizeof__() == 8 * (9 * d + k * d)
    assert sent(few).moments == few.moments
    groups = Partial(EnsembleClassifier(groups=(30, 10)).fit(samples, labels).moments_)
    triangles = 8 * k * (30 * 31 // 2 + 10 * 11 // 2 + d + 2)
    assert triangles <= len(pickle.dumps(groups)) <= triangles + 2000
    assert groups.__sizeof__() == 8 * k * (30 * 30 + 10 * 10 + d)
    assert sent(groups).moments == groups.moments


def test_nothing_travels_of_what_was_learnt_before() -> None:
    model = LinearDiscriminant().fit(np.random.default_rng(0).standard_normal((500, 300)), Y4)
    size = len(pickle.dumps(Job.of(without_moments(model), int)))
    assert size < 10_000
    assert model.moments_.n_features == 300


Y4 = np.arange(500) % 4


def test_a_model_that_agreed_on_columns_takes_only_these() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    model = ReduNetClassifier(n_components=1).fit(frame, Y)
    job = Job.of(without_moments(model), int)

    def learn(part: Any, columns: tuple[str, ...]) -> Partial:
        return of_blocks(
            job,
            "partition 1 of 1",
            lambda one: frame_batches(one, columns, "label"),
            columns,
            part,
        )

    part = frame.assign(label=Y)
    assert learn(part, ("a", "b", "c")).moments == model.moments_
    assert learn(part[["c", "label", "b", "a"]], ("a", "b", "c")).moments == model.moments_
    with pytest.raises(DataError, match=r"^partition 1 of 1: .* this one lacks 'c'"):
        learn(part.drop(columns="c"), ("a", "b", "c"))
    with pytest.raises(DataError, match="this one also has 'z'"):
        learn(part.assign(z=1), ("a", "b", "c"))
    with pytest.raises(DataError, match="feature names should match"):
        learn(part.rename(columns={"c": "z"}), ("a", "b", "z"))
    with pytest.raises(DataError, match="all int or all str, got int and str"):
        learn(part.assign(label="word"), ("a", "b", "c"))


def test_what_a_model_labelled_itself_stays_apart(tmp_path: Path) -> None:
    some = [*range(80)]
    here = ReduNetClassifier(n_components=2).fit(X[some], Y[some]).learn_unlabelled(X[80:110])
    assert here.self_labelled_ is not None
    there = copy.copy(here)
    part = of_blocks(
        Job.of(without_moments(there), int), "a part", array_batches, None, X[110:], Y[110:]
    )
    assert part.moments is not None
    assert sum(part.moments.counts) == 10
    add(there, part.moments, part.n_columns, None)
    here.partial_fit(X[110:], Y[110:])
    assert _hash(there, tmp_path) == _hash(here, tmp_path)
    with pytest.warns(SelfLabelledWarning):
        withdraw(there, part.moments)
    with pytest.warns(SelfLabelledWarning):
        here.unlearn(X[110:], Y[110:])
    assert _hash(there, tmp_path) == _hash(here, tmp_path)


def _hash(model: Any, folder: Path) -> str:
    model.save(folder / "hashed")
    return hashlib.sha256((folder / "hashed").read_bytes()).hexdigest()


def test_bags_come_in_batches_and_say_what_they_should_hold() -> None:
    pairs = [(x, int(label)) for x, label in zip(X, Y, strict=True)]
    job = Job.of(without_moments(ReduNetClassifier()), None)
    found = of_blocks(job, "a part", bag_batches, None, iter(pairs))
    assert found.moments == ReduNetClassifier().fit(X, Y).moments_
    assert of_blocks(job, "a part", bag_batches, None, []).moments is None
    with pytest.raises(DataError, match=r"^a part: expected a bag of pairs"):
        of_blocks(job, "a part", bag_batches, None, [5])
    with pytest.raises(DataError, match="samples of one shape"):
        of_blocks(job, "a part", bag_batches, None, [*pairs, (X[0, :3], 1), (X[0], 1)])


def test_no_samples_change_nothing() -> None:
    model = ReduNetClassifier()
    with pytest.raises(DataError, match="at least one sample"):
        add(model, ClassMoments(12), 12, None)
    assert not hasattr(model, "moments_")
    assert added(Partial(), sent(Partial())).moments is None
