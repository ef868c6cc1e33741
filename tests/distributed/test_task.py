"""Parts that others learn for a model: packed, added in any order, to the byte those of one."""

from __future__ import annotations

import copy
import hashlib
import itertools
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import DataError, EnsembleClassifier, ReduNetClassifier, SettingsError
from redunet.distributed.dask_learning import added
from redunet.distributed.dask_parts import frame_batches
from redunet.distributed.task import Part, Task
from redunet.estimators import LinearDiscriminant
from redunet.estimators.moment_deltas import add, withdraw
from tests.conftest import classes_on_subspaces

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)


def learnt(model: Any, X: Any, y: Any) -> Part | None:
    return Task.of(model).learn("a part", [(X, y)] if len(X) else [], None)


def sent(part: Part | None) -> Part | None:
    """A part as another worker gets it."""
    received: Part | None = pickle.loads(pickle.dumps(part, protocol=5))
    return received


@settings(max_examples=20)
@given(
    cuts=st.lists(st.integers(0, len(X)), max_size=5),
    words=st.booleans(),
    dtype=st.sampled_from(["float64", "float32", "int16"]),
    random=st.randoms(use_true_random=False),
)
def test_any_parts_added_in_any_order(
    cuts: list[int], words: bool, dtype: str, random: Any
) -> None:
    samples = np.round(X * 100).astype(dtype)
    labels = np.array([f"class {label}" for label in Y]) if words else Y
    bounds = [0, *sorted(cuts), len(X)]
    parts = [
        learnt(ReduNetClassifier(), samples[start:stop], labels[start:stop])
        for start, stop in itertools.pairwise(bounds)
    ]
    while len(parts) > 1:
        random.shuffle(parts)
        parts.append(sent(added(parts.pop(), sent(parts.pop()))))
    assert parts[0] is not None
    assert parts[0].moments == ReduNetClassifier().fit(samples, labels).moments_


def test_a_part_travels_as_packed_triangles_and_a_task_without_moments() -> None:
    d, k = 40, 3
    samples, labels = classes_on_subspaces(k=k, d=d, per_class=200, rank=d)
    part = learnt(ReduNetClassifier(), samples, labels)
    triangles = 8 * k * (d * (d + 1) // 2 + d + 1)
    assert triangles <= len(pickle.dumps(part)) <= triangles + 1500
    rows = np.random.default_rng(0).standard_normal((500, 300))
    model = LinearDiscriminant().fit(rows, np.arange(500) % 4)
    assert len(pickle.dumps(Task.of(model))) < 10_000
    with pytest.raises(SettingsError, match="expected a model of whole vectors to learn in parts"):
        Task.of(EnsembleClassifier(groups=(30, 10)).fit(samples, labels))
    other = replace(Task.of(model), version="9.9")
    with pytest.raises(DataError, match=r"expected redunet 9\.9, as where the task was made, got"):
        other.learn("a part", [(rows, rows[:, 0])], None)


def test_partitions_of_a_frame_have_the_same_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    model = ReduNetClassifier(n_components=1).fit(frame, Y)

    def learn(part: Any) -> Any:
        names = ("a", "b", "c")
        return Task.of(model).learn("partition 1", frame_batches(part, names, "label"), names)

    part = frame.assign(label=Y)
    assert learn(part[["c", "label", "b", "a"]]).moments == model.moments_
    assert learn(part[:0]) is None
    for other in (part.drop(columns="c"), part.assign(c2=1)):
        with pytest.raises(DataError, match=r"^partition 1: .* this one lacks or adds 'c"):
            learn(other)
    with pytest.raises(DataError, match="all int or all str, got int and str"):
        learn(part.assign(label="word"))


@pytest.mark.filterwarnings("ignore")
def test_samples_that_a_model_labelled_itself_stay_apart(tmp_path: Path) -> None:
    here = ReduNetClassifier(n_components=2).fit(X[:80], Y[:80]).learn_unlabelled(X[80:110])
    there = copy.copy(here)
    part = learnt(there, X[110:], Y[110:])
    assert part is not None
    assert sum(part.moments.counts) == 10
    add(there, part.moments, 12, None)
    here.partial_fit(X[110:], Y[110:])
    assert _hash(there, tmp_path) == _hash(here, tmp_path)
    withdraw(there, part.moments)
    here.unlearn(X[110:], Y[110:])
    assert _hash(there, tmp_path) == _hash(here, tmp_path)


def _hash(model: Any, folder: Path) -> str:
    model.save(folder / "hashed")
    return hashlib.sha256((folder / "hashed").read_bytes()).hexdigest()
