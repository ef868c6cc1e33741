"""What a network that does not fit its memory takes of it: the moments, and one layer."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet import ClassMoments, ReduNetClassifier
from redunet.core.construction import Pass
from redunet_lab.equivalence import network_hash
from tests.conftest import classes_on_subspaces

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::redunet.estimators.predictor.StreamingWarning"),
]

K, D = 4, 30
X, Y = classes_on_subspaces(k=K, d=D, per_class=50, rank=4)
NEW = X[::3]


class Counting:
    """Memory whose numbers in use are counted, and the most there were at a time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def __call__(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        array: NDArray[Any] = torch.empty(shape, dtype=dtype).numpy().copy()
        self.now += array.size
        self.most = max(self.most, self.now)
        weakref.finalize(array, self._freed, array.size)
        return torch.from_numpy(array)

    def _freed(self, size: int) -> None:
        self.now -= size


def model(memory: int, **settings: Any) -> ReduNetClassifier:
    own = {"n_layers": 3, "readout": "regression", "ridge": 0.01, "device": "cpu", **settings}
    return ReduNetClassifier(**own, memory=memory)


def counted_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []

    def counting(self: Pass, *args: Any, **options: Any) -> None:
        made.append(1)
        plain(self, *args, **options)

    plain = Pass.__init__
    monkeypatch.setattr(Pass, "__init__", counting)
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("readout", ["regression", "discriminant", "subspace"])
def test_answers_do_not_depend_on_memory(dtype: str, readout: str) -> None:
    settings = {"dtype": dtype, "readout": readout, "n_components": 4, "exact": True}
    kept, streamed = (model(memory, **settings).fit(X, Y) for memory in (10**9, 0))
    for _ in range(2):
        for ask in ("decision_function", "transform", "predict_proba"):
            assert np.array_equal(getattr(kept, ask)(NEW), getattr(streamed, ask)(NEW))
    assert network_hash(kept) == network_hash(streamed)
    assert streamed.network_.rates() == kept.network_.rates()


def test_moments_and_one_layer_are_all_that_is_held() -> None:
    memory = Counting()
    moments = ClassMoments(D, allocate=memory).update(X, Y)
    learnt = memory.now
    assert learnt == K * D**2
    streamed = model(0).remember(moments)
    memory.most = 0
    for _ in range(3):
        streamed.predict(NEW)
    moved, layer = K * D**2, (K + 1) * D**2
    assert memory.most == learnt + moved + layer
    assert memory.now == learnt + moved  # those after the last layer


@pytest.mark.parametrize("memory", [0, 10**9])
def test_what_was_built_is_freed_with_the_model(memory: int) -> None:
    gc.disable()
    try:
        gone = model(memory).fit(X, Y)
        gone.predict(NEW)
        gone.predict_proba(NEW)
        built = [weakref.ref(one) for one in (gone.moments_, gone.network_, gone.readout_)]
        del gone
        assert [one() for one in built] == [None, None, None]
    finally:
        gc.enable()
