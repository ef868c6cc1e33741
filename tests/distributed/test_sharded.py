"""Networks whose classes are spread over processes: features, scores and labels of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from redunet import ReduNetClassifier, SettingsError, offload
from redunet.distributed import ShardedClassifier
from redunet.estimators import load
from tests.distributed.threads import on_threads

D = 20
SAMPLES = {"matrices": [30, 40, 50, 26], "factors": [3, 5, 2, 4, 6], "both": [40, 3, 5, 30, 2, 60]}


def data(counts: list[int], seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Samples of classes around means of their own, with some features that are always zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((sum(counts), D)) + np.repeat(
        rng.standard_normal((len(counts), D)), counts, axis=0
    )
    X[:, :3] = 0
    return X, np.repeat(np.arange(len(counts)), counts)


def fitted(counts: list[int], **how: Any) -> ReduNetClassifier:
    how = {"n_layers": 4, "step": 0.3, "step_kind": "relative", "n_components": 5, **how}
    return ReduNetClassifier(device="cpu", exact=True, **how).fit(*data(counts))


NEW = data([20] * 6, seed=1)[0]


@pytest.mark.parametrize("memory", ["2GB", 1000], ids=["kept", "built again"])
@pytest.mark.parametrize("readout", ["subspace", "discriminant", "regression"])
@pytest.mark.parametrize("counts", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.filterwarnings("ignore::redunet.estimators.predictor.StreamingWarning")
def test_answers_are_those_of_one_process(counts: list[int], readout: str, memory: Any) -> None:
    model = fitted(counts, readout=readout, memory=memory)
    features, scores, labels = (
        model.transform(NEW),
        model.decision_function(NEW),
        model.predict(NEW),
    )
    rates = [rate.delta_R for rate in model.network_.rates()]
    for size in (1, 2, 4):

        def ask(ranks: Any) -> Any:
            one = ShardedClassifier(model, ranks)
            return one.transform(NEW), one.decision_function(NEW), one.predict(NEW), one.rates_

        for found in on_threads(size, ask):
            np.testing.assert_allclose(found[0], features, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(found[1], scores, rtol=1e-9, atol=1e-9)
            assert np.array_equal(found[2], labels)
            assert found[3] == pytest.approx(rates)


def test_whitened_by_all_classes() -> None:
    model = fitted(SAMPLES["both"], whitening=0.1)
    scores = model.decision_function(NEW)
    for found in on_threads(3, lambda r: ShardedClassifier(model, r).decision_function(NEW)):
        np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-9)


@settings(max_examples=10)
@given(st.lists(st.integers(1, 40), min_size=4, max_size=9), st.integers(2, 4))
def test_any_classes_in_float32(counts: list[int], size: int) -> None:
    model = fitted(counts, dtype="float32", sharpness=30, sharpness_kind="relative")
    expected = model.transform(NEW)
    for features in on_threads(size, lambda r: ShardedClassifier(model, r).transform(NEW)):
        np.testing.assert_allclose(features, expected, rtol=0, atol=5e-5)


def test_all_processes_stop_after_the_same_layer() -> None:
    deep = fitted(SAMPLES["both"], n_layers=60, step_decay=0.9)
    rates = [rate.delta_R for rate in deep.network_.rates()]
    short = deep.set_params(tol=(rates[21] - rates[20]) * 0.99)
    depth = len(short.network_.layers)
    assert 10 < depth < 40

    def ask(ranks: Any) -> int:
        one = ShardedClassifier(short, ranks)
        one.predict(NEW)
        return len(one.rates_)

    assert on_threads(3, ask) == [depth] * 3


def test_each_process_keeps_its_part_of_the_layers(tmp_path: Path) -> None:
    model = fitted(SAMPLES["both"])
    model.save(tmp_path / "m")
    with offload(tmp_path):
        read = load(tmp_path / "m", "cpu")
    assert isinstance(read, ReduNetClassifier)

    def ask(ranks: Any) -> tuple[int, Any]:
        one = ShardedClassifier(read.set_params(exact=True), ranks)
        one.predict(NEW)
        return max(layer.n_bytes for layer in one._kept or []), one.decision_function(NEW)

    (whole, expected), *_ = on_threads(1, ask)
    for n_bytes, scores in on_threads(3, ask):
        assert n_bytes <= whole / 3 + 2 * 8 * D * D  # E, and one class
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


def test_refusals() -> None:
    with pytest.raises(SettingsError, match="at most as many processes as classes, 4, got 5"):
        on_threads(5, lambda ranks: ShardedClassifier(fitted(SAMPLES["matrices"]), ranks))
    model = fitted(SAMPLES["matrices"], readout="pairwise")
    with pytest.raises(SettingsError, match="got 'pairwise': choose one with set_params"):
        on_threads(2, lambda ranks: ShardedClassifier(model, ranks))
