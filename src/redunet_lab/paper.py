"""The paper's experiments and figures, and those of the benchmark that it follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.recipes import RECIPES
from redunet.validation import settings_in_file
from redunet_lab.experiment import Experiment

_FIGURES = settings_in_file(Path(__file__).with_name("paper.toml"))
PAPER: dict[str, dict[str, Any]] = _FIGURES["paper"]
"""The paper's own figures; accuracy on all classes seen after each task."""

PUBLISHED: dict[str, dict[str, Any]] = _FIGURES["published"]
"""Figures of the benchmark whose settings the gradient methods have, after the last task."""


@dataclass(frozen=True)
class Reproduction:
    """An experiment of the paper, and the numbers of components it is evaluated with."""

    what: str
    data: str
    settings: Mapping[str, Any]
    readings: Mapping[str, int]

    def experiment(self, **changes: Any) -> Experiment:
        """The settings of model and stream, with some replaced."""
        usual = {self.data: self.settings}
        return Experiment.of(self.data, usual=usual, changes=changes)


REPRODUCTIONS = {
    "mnist": Reproduction(
        "ReduNet on MNIST, as published",
        "mnist",
        RECIPES["paper-mnist"].settings,
        {"as published, 28 components": 28},
    ),
    "mnist-tuned": Reproduction(
        "ReduNet on MNIST, standardised, settings chosen on training data",
        "mnist",
        {
            "features": "standardize-all",
            "n_layers": 200,
            "eps": 1.0,
            "step": 2.0,
            "sharpness": 16.0,
            "n_components": 32,
        },
        {"standardised, chosen on training data": 32},
    ),
    "cifar10": Reproduction(
        "ReduNet on CIFAR-10, five random Gaussian kernels",
        "cifar10",
        RECIPES["paper-cifar10"].settings,
        {"50 components, chosen on training data": 50, "15 components, as published": 15},
    ),
    "cifar10-uncentred": Reproduction(
        "ReduNet on CIFAR-10, five random Gaussian kernels, nothing centred",
        "cifar10",
        {"features": "lift", "n_layers": 50, "n_components": 100},
        {"100 components, chosen on training data": 100, "15 components, as published": 15},
    ),
}
"""The experiments of `redunet reproduce`, by name."""

SETTINGS = {name: REPRODUCTIONS[name].settings for name in ("mnist", "cifar10")}
"""Features and network where the paper has them; other data sets have the defaults."""


def find(name: str) -> Reproduction:
    """The reproduction of that name."""
    if name not in REPRODUCTIONS:
        raise SettingsError(
            f"expected one of {', '.join(REPRODUCTIONS)}, got {name!r}"
            f"{did_you_mean(name, REPRODUCTIONS)}"
        )
    return REPRODUCTIONS[name]
