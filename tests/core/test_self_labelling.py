"""Labels for samples without labels: a function of the set of samples, within quotas."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet.core.grid import unit_rows
from redunet.core.moments import ClassMoments
from redunet.core.self_labelling import SHARE, in_order, label_in_rounds
from tests.conftest import classes_on_subspaces

pytestmark = pytest.mark.usefixtures("one_thread")


def case(k: int, d: int, labels: int, seed: int) -> tuple[ClassMoments, torch.Tensor, list[int]]:
    """Moments of a few labelled samples, and vectors of others with their true classes."""
    X, y = classes_on_subspaces(k, d, 30, 2, noise=0.05, seed=seed)
    first = np.concatenate([np.flatnonzero(y == j)[:labels] for j in range(k)])
    rest = np.setdiff1d(np.arange(len(X)), first)
    moments = ClassMoments(d).update(torch.from_numpy(X[first]), y[first])
    vectors = unit_rows(torch.from_numpy(X[rest]))
    order = in_order(vectors)
    return moments, vectors[order], y[rest][order].tolist()


@pytest.mark.parametrize("labels", [2, 12])  # in factors, and as matrices
def test_most_samples_get_a_label_and_nearly_all_of_these_are_right(labels: int) -> None:
    moments, vectors, y = case(4, 16, labels, seed=0)
    given_ = label_in_rounds(moments, vectors, 1.0, 2**30)
    pairs = [(mine, true) for mine, true in zip(given_, y, strict=True) if mine is not None]
    assert np.mean([mine == true for mine, true in pairs]) > 0.85
    quota = math.ceil(SHARE * len(y) / 4)
    assert max(Counter(mine for mine, _ in pairs).values()) <= quota
    assert len(pairs) > 0.7 * len(y)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), labels=st.sampled_from([1, 3]))
def test_labels_do_not_depend_on_the_order_of_samples(seed: int, labels: int) -> None:
    moments, vectors, _ = case(3, 10, labels, seed)
    shuffled = vectors[torch.randperm(len(vectors), generator=torch.Generator().manual_seed(seed))]
    again = shuffled[in_order(shuffled)]
    assert torch.equal(again, vectors)
    given_ = label_in_rounds(moments, vectors, 1.0, 2**30)
    assert label_in_rounds(moments, again, 1.0, 2**30) == given_


def test_one_class_takes_what_is_nearest_to_it() -> None:
    moments = ClassMoments(3).update(torch.eye(3, dtype=torch.float64)[:1], ["a"])
    vectors = unit_rows(
        torch.tensor([[1.0, 0.1, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.1]], dtype=torch.float64)
    )
    vectors = torch.cat([vectors] * 5)
    assert label_in_rounds(moments, vectors, 1.0, 2**30).count("a") == math.ceil(SHARE * 15)
