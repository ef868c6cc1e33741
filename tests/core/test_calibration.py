"""Temperatures of the least log loss, and samples as the moments predict them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

from redunet.core.calibration import best_temperature, log_loss, probabilities
from redunet.core.class_samples import _deviations, _deviations_of_rows
from redunet.core.construction import Schedule
from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet, build_network, extend_network
from redunet.core.second_moments import SecondMoments
from redunet.errors import DataError

pytestmark = pytest.mark.usefixtures("one_thread")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**16), k=st.integers(2, 6), scale=st.floats(1e-6, 1e6))
def test_the_temperature_is_that_of_the_least_log_loss(seed: int, k: int, scale: float) -> None:
    draw = np.random.RandomState(seed)
    scores = torch.from_numpy(draw.standard_normal((40, k)) * scale)
    classes = torch.from_numpy(np.where(draw.rand(40) < 0.7, scores.argmax(1), draw.randint(k)))
    n = len(scores)
    wrong = scores.clone()
    wrong[torch.arange(n), classes] = -torch.inf

    def loss(log_T: float) -> float:  # the samples, and on average one more with a wrong label
        T = scale * float(np.exp(log_T))
        return log_loss(scores, classes, T) + log_loss(scores, wrong.argmax(1), T) / n

    best = minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 1e-7})
    found = float(np.log(best_temperature(scores, classes) / scale))
    assert loss(min(found, 6.0)) == pytest.approx(best.fun, abs=1e-4)


def test_a_few_samples_that_are_all_right_do_not_make_it_certain() -> None:
    scores = torch.eye(3, dtype=torch.float64).repeat(4, 1)
    T = best_temperature(scores, scores.argmax(dim=1))
    sure = probabilities(scores, T).amax()
    assert 0.8 < float(sure) < 13 / 14
    assert best_temperature(scores[:, :1], torch.zeros(12, dtype=torch.int64)) == 1.0
    assert best_temperature(torch.zeros(5, 3), torch.zeros(5, dtype=torch.int64)) == 1.0


def moments_of(counts: tuple[int, ...], d: int, seed: int = 0) -> ClassMoments:
    draw = np.random.RandomState(seed)
    X = draw.standard_normal((sum(counts), d)) @ draw.standard_normal((d, d)) / d
    y = np.repeat(np.arange(len(counts)), counts)
    X += 0.5 * draw.standard_normal((len(counts), d))[y]
    return ClassMoments(d).update(torch.from_numpy(X), y.tolist())


@pytest.mark.parametrize("counts", [(200, 300), (6, 9), (4, 200)])
def test_samples_are_drawn_by_roots_of_the_covariances(counts: tuple[int, ...]) -> None:
    moments = moments_of(counts, 30)
    first = SecondMoments.of(moments, torch.float64, "cpu")
    assert bool(first.stacks) == (min(counts) < 10)  # both forms of a class are drawn from
    means = moments.means()
    inside = first.inside(means)
    full = SecondMoments(first.dense, first.Sigma, first.stacks).full()
    for j, n in enumerate(counts):
        C = full[j] / n - torch.outer(inside[j], inside[j])
        if j in first.dense:
            root = _deviations(torch.eye(len(full[j])).double(), full[j], inside[j], n).mT
        else:
            B = next(s.B[s.classes.index(j)] for s in first.stacks if j in s.classes)
            root = _deviations_of_rows(torch.eye(len(B)).double(), B, inside[j], n).mT
        np.testing.assert_allclose(root @ root.mT, C, rtol=0, atol=1e-6)


@pytest.mark.parametrize("counts", [(200, 300), (6, 9), (4, 200), (30,) * 40])
def test_samples_are_the_same_each_time_and_spread_over_the_classes(
    counts: tuple[int, ...],
) -> None:
    network = build_network(moments_of(counts, 30), 0.5, Schedule(0, 0.5, 0.9))
    Z, classes = network.layers.class_samples(128)
    again = network.layers.class_samples(128)
    assert torch.equal(Z, again[0])
    assert torch.equal(classes, again[1])
    np.testing.assert_allclose(torch.linalg.vector_norm(Z, dim=1), 1.0, rtol=1e-12)
    assert np.unique(classes, return_counts=True)[1].tolist() == (
        [64, 64] if len(counts) == 2 else [10] * 14
    )


def test_layers_alone_do_not_predict_samples() -> None:
    moments = moments_of((20, 20), 5)
    network: ReduNet = build_network(moments, 0.5, Schedule(2, 0.5, 0.9))
    assert network.layers.class_samples(64)[0].shape == (64, 5)
    new: Any = torch.randn(9, 5, dtype=torch.float64)
    extended = extend_network(network, new, [2] * 9)
    with pytest.raises(DataError, match="do not tell the means"):
        extended.layers.class_samples(64)
