"""Recipes: settings under one name, chosen in advance and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from redunet.errors import SettingsError


@dataclass(frozen=True)
class Recipe:
    """Settings of features and network, as a `Plan` has them.

    Parameters
    ----------
    purpose : str
        What it is for.
    cost : str
        What it takes.
    reached : str
        What it reached, and the record that says so.
    settings : mapping from a parameter of `Plan` to its value
        What is not as usual.
    """

    purpose: str
    cost: str
    reached: str
    settings: Mapping[str, Any]


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "paper-mnist": Recipe(
            "The paper's network for MNIST: pixels, 200 layers, nearest subspace.",
            "784 features; about 8 minutes for MNIST's five tasks on two cores.",
            "MNIST 0.959 (results/mnist.json).",
            {"features": "pixels", "n_layers": 200, "n_components": 28},
        ),
        "paper-cifar10": Recipe(
            "The paper's network for CIFAR-10: five random kernels, 50 layers, nearest subspace.",
            "5,120 features; 2 minutes for CIFAR-10's five tasks on a GPU.",
            "CIFAR-10 0.551 (results/cifar10.json).",
            {"features": "lift", "centred": True, "n_layers": 50, "n_components": 50},
        ),
        "images-fast": Recipe(
            "Small images on a processor.",
            "1,800 features.",
            "",
            {
                "features": "patches",
                "n_filters": 100,
                "cells": 3,
                "standardized": False,
                "n_layers": 1,
                "step": 0.3,
                "step_kind": "relative",
                "readout": "discriminant",
            },
        ),
        "images-best": Recipe(
            "Small images, as accurately as can be; wants a GPU.",
            "14,400 features.",
            "",
            {
                "features": "patches",
                "n_filters": 800,
                "cells": 3,
                "standardized": False,
                "n_layers": 1,
                "step": 0.3,
                "step_kind": "relative",
                "readout": "discriminant",
            },
        ),
        "features": Recipe(
            "Vectors from any encoder, as they are.",
            "",
            "",
            {
                "features": "pixels",
                "n_layers": 1,
                "step": 0.3,
                "step_kind": "relative",
                "readout": "discriminant",
            },
        ),
    }
)
"""All recipes, by name."""


def find(name: str) -> Recipe:
    """The recipe of that name."""
    if name not in RECIPES:
        raise SettingsError(f"expected a recipe among {', '.join(RECIPES)}, got {name!r}")
    return RECIPES[name]
