"""The paper's experiments and figures, and those of the benchmark that it follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.recipes import RECIPES
from redunet_lab.experiment import Experiment

PAPER: dict[str, dict[str, Any]] = {
    "mnist": {
        "row": [0.999, 0.990, 0.984, 0.975, 0.961],
        "rivals": {
            "LwF": [0.999, 0.494, 0.333, 0.252, 0.196],
            "oEWC": [1.0, 0.491, 0.332, 0.25, 0.217],
            "SI": [0.997, 0.494, 0.411, 0.297, 0.197],
            "iCaRL": [0.999, 0.889, 0.8, 0.768, 0.7],
        },
        "source": "Wu et al., CVPR 2021, Table 1",
    },
    "cifar10": {
        "row": [0.875, 0.678, 0.588, 0.547, 0.539],
        "rivals": {
            "LwF": [0.979, 0.461, 0.319, 0.247, 0.196],
            "oEWC": [0.981, 0.383, 0.296, 0.246, 0.194],
            "SI": [0.989, 0.461, 0.317, 0.248, 0.195],
            "iCaRL": [0.964, 0.662, 0.547, 0.5, 0.48],
        },
        "source": "Wu et al., CVPR 2021, Table 1",
    },
}
"""The paper's own figures; accuracy on all classes seen after each task."""

PUBLISHED: dict[str, dict[str, Any]] = {
    "cifar10": {
        "last": {
            "fine-tuning": 0.196,
            "joint training": 0.922,
            "LwF": 0.196,
            "oEWC": 0.195,
            "SI": 0.195,
            "iCaRL": 0.490,
            "ER": 0.448,
            "DER++": 0.649,
        },
        "source": "Buzzega et al., NeurIPS 2020",
    },
}
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
"""What `redunet reproduce` runs, by name."""

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
