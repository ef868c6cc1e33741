"""A feature map from outside: registered, named in settings, saved, loaded, exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from redunet import ModelFileError, ReduNetClassifier
from redunet.features import FeatureMap, Named, base, names, register, register_name
from redunet_lab.recipes import from_recipe


@dataclass(frozen=True)
class Squares:
    """Values and their squares."""

    kind: ClassVar[str] = "squares"
    input_shape: tuple[int, ...]

    @property
    def n_features(self) -> int:
        return 2 * self.input_shape[0]

    @property
    def learnt_from_data(self) -> bool:
        return False

    def __call__(self, X: Tensor) -> Tensor:
        X = X.to(torch.float64)
        return torch.cat([X, X.square()], dim=1)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {"input_shape": self.input_shape}, {}


@pytest.fixture
def registered() -> Iterator[None]:
    register(Squares)
    register_name("squares", Named(lambda own, samples, device: Squares(samples.shape[1:])))
    yield
    del base._KINDS["squares"], names._NAMED["squares"]


@pytest.mark.usefixtures("registered")
def test_a_map_of_ones_own_is_named_saved_and_loaded(tmp_path: Path) -> None:
    X = np.random.RandomState(0).randint(0, 9, (40, 5))
    y = np.arange(40) % 2
    assert isinstance(Squares((5,)), FeatureMap)
    model = from_recipe("directions", X, features="squares")
    model.partial_fit(X[::2], y[::2]).partial_fit(X[1::2], y[1::2]).save(tmp_path / "m")
    assert model.moments_.n_features == 10
    again = ReduNetClassifier.load(tmp_path / "m")
    assert again.features == Squares((5,))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    ReduNetClassifier.load(tmp_path / "m").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_a_file_with_a_map_that_is_not_registered_is_refused(
    tmp_path: Path, registered: None
) -> None:
    X, y = np.eye(4), [0, 0, 1, 1]
    ReduNetClassifier(features=Squares((4,))).fit(X, y).save(tmp_path / "m")
    kind = base._KINDS.pop("squares")
    with pytest.raises(ModelFileError, match=r"expected a feature map among .*, got 'squares'"):
        ReduNetClassifier.load(tmp_path / "m")
    base._KINDS["squares"] = kind
