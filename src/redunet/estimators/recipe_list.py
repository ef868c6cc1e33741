"""The recipes: what each is for, what it takes, what it reached, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """A preset of settings.

    Parameters
    ----------
    purpose : str
        What it is for.
    cost : str
        What it takes.
    reached : str
        The accuracy it reached, and the record that says so.
    settings : mapping from a setting of `ModelSettings` to its value
        Those that differ from the defaults.
    """

    purpose: str
    cost: str
    reached: str
    settings: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))


_COLUMNS: Mapping[str, Any] = {
    "normalize": "constant",
    "n_layers": 1,
    "eps": 1.0,
    "step": 0.15,
    "step_kind": "relative",
    "sharpness": 120.0,
    "sharpness_kind": "relative",
    "readout": "quadratic",
    "ridge": 0.03,
}
"""For columns that are standardized: the scale of features is known, so lengths can count."""

_FOUR_MAPS: Mapping[str, Any] = {
    "features": "patches-6+patches-8+stacked-patches-3+stacked-patches-5",
    "n_maps": 4,
    "threshold": 0.35,
    "window": 6.0,
    "mirrored": True,
    "root": True,
    "standardized": False,
    "n_layers": 0,
}
"""Of photographs: patches and stacked patches, and a model without layers of each map."""

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
            "Small images on a processor, in minutes.",
            "3,600 features, a file of 0.5 GB for ten classes; three minutes and 7 GB of memory "
            "for MNIST's five tasks on two cores.",
            "MNIST 0.9888 ± 0.0004 (results/images-fast-mnist.json).",
            {
                "features": "patches",
                "n_filters": 200,
                "cells": 3,
                "root": True,
                "standardized": False,
                "n_layers": 1,
                "eps": 0.25,
                "step": 0.5,
                "step_kind": "relative",
                "sharpness": 3.0,
                "readout": "discriminant",
                "ridge": 0.00001,
                "n_components": 160,
            },
        ),
        "images-best": Recipe(
            "Photographs, and whatever else looks as natural in a mirror.",
            "16,000 features of colour images of 32 x 32 pixels, a file of 5.4 GB for ten classes; "
            "wants a GPU with 20 GB, and 40 GB of main memory.",
            "CIFAR-10 0.8351 ± 0.0004 (results/images-best-cifar10.json).",
            {
                "features": "patches+larger-patches",
                "n_filters": 1000,
                "threshold": 0.35,
                "window": 6.0,
                "mirrored": True,
                "root": True,
                "standardized": False,
                "n_layers": 1,
                "eps": 0.25,
                "step": 0.2,
                "step_kind": "relative",
                "sharpness": 10.0,
                "readout": "regression",
                "ridge": 0.003,
            },
        ),
        "images-ensemble": Recipe(
            "Photographs, as accurately as can be: the mean of four networks without layers.",
            "64,000 features of colour images of 32 x 32 pixels in four maps; wants a GPU with "
            "12 GB, and 95 GB of main memory.",
            "CIFAR-10 0.8670 ± 0.0030 (results/images-ensemble-cifar10.json).",
            {
                **_FOUR_MAPS,
                "n_filters": 500,
                "readout": "regression",
                "ridge": 0.001,
            },
        ),
        "images-ensemble-cpu": Recipe(
            "Photographs, on a processor, in more time: the mean of four networks without layers.",
            "16,000 features of colour images of 32 x 32 pixels in four maps, a file of 2.6 GB for "
            "ten classes; an hour of processor time and 11 GB of memory for CIFAR-10's five "
            "tasks.",
            "CIFAR-10 0.8413 ± 0.0045 (results/images-ensemble-cpu-cifar10.json).",
            {
                **_FOUR_MAPS,
                "n_filters": 125,
                "readout": "pairwise",
                "ridge": 0.01,
            },
        ),
        "images-cpu": Recipe(
            "Photographs, on a processor.",
            "4,000 features of colour images of 32 x 32 pixels, a file of 0.6 GB for ten classes; "
            "half an hour of processor time and 7 GB of memory for CIFAR-10's five tasks.",
            "CIFAR-10 0.7976 ± 0.0012 (results/images-cpu-cifar10.json).",
            {
                "features": "patches+larger-patches",
                "n_filters": 250,
                "threshold": 0.35,
                "window": 6.0,
                "mirrored": True,
                "root": True,
                "standardized": False,
                "n_layers": 2,
                "eps": 0.25,
                "step": 0.2,
                "step_kind": "relative",
                "sharpness": 10.0,
                "readout": "regression",
                "ridge": 0.001,
            },
        ),
        "images-plain": Recipe(
            "Things on a plain ground, such as goods in a catalogue.",
            "8,000 features of grey images of 28 x 28 pixels, a file of 2.6 GB for ten classes; "
            "ten minutes and 14 GB of memory for Fashion-MNIST's five tasks on two cores.",
            "Fashion-MNIST 0.9412 ± 0.0004 (results/images-plain-fashion_mnist.json).",
            {
                "features": "patches-5+patches-8+stacked-patches-3+stacked-patches-5",
                "n_filters": 40,
                "cells": 5,
                "threshold": 0.35,
                "window": 2.5,
                "padding": 3,
                "mirrored": True,
                "root": True,
                "standardized": False,
                "n_layers": 0,
                "readout": "pairwise",
                "ridge": 0.03,
            },
        ),
        "images-written": Recipe(
            "Written signs: upright images beside those that were given.",
            "8,000 features of grey images of 28 x 28 pixels, a file of 2.6 GB for ten classes; "
            "ten minutes and 15 GB of memory for MNIST's five tasks on two cores.",
            "MNIST 0.9949 ± 0.0002 (results/images-written-mnist.json).",
            {
                "features": "upright-patches-8+upright-stacked-patches-5+patches-8"
                "+stacked-patches-5",
                "n_filters": 40,
                "cells": 5,
                "threshold": 0.35,
                "window": 2.5,
                "padding": 3,
                "root": True,
                "standardized": False,
                "n_layers": 0,
                "readout": "pairwise",
                "ridge": 0.03,
            },
        ),
        "images-fixed": Recipe(
            "Features fixed in advance, which hold nobody's images: written signs and the like.",
            "6,944 features of grey images of 28 x 28 pixels, a file of 1.9 GB for ten classes; "
            "half an hour and 20 GB of memory for MNIST's five tasks on two cores.",
            "MNIST 0.9956 (results/images-fixed-mnist.json).",
            {
                "features": "scattering+upright-scattering",
                "n_scales": 3,
                "root": True,
                "standardized": False,
                "statistics_from": "nowhere",
                "n_layers": 1,
                "eps": 0.25,
                "step": 0.2,
                "step_kind": "relative",
                "sharpness": 10.0,
                "readout": "pairwise",
                "ridge": 0.01,
            },
        ),
        "images-small": Recipe(
            "Small models of images that look as natural in a mirror: few features, more layers.",
            "868 features of grey images of 28 x 28 pixels, 2,604 of colour images of 32 x 32; "
            "files of 30 MB and 0.3 GB for ten classes; three minutes for Fashion-MNIST's five "
            "tasks on two cores.",
            "CIFAR-10 0.6827 (results/images-small-cifar10.json), Fashion-MNIST 0.8839 "
            "(results/images-small-fashion_mnist.json).",
            {
                "features": "scattering",
                "n_scales": 3,
                "pool": 2,
                "mirrored": True,
                "root": True,
                "standardized": False,
                "statistics_from": "nowhere",
                "n_layers": 3,
                "eps": 0.25,
                "step": 0.5,
                "step_kind": "relative",
                "sharpness": 10.0,
                "readout": "regression",
                "ridge": 0.01,
                "n_components": 50,
            },
        ),
        "invariant": Recipe(
            "Small images whose things may lie anywhere: no circular shift changes a label.",
            "32 channels of every pixel, a file of 32 MB for ten classes of 28 x 28 pixels; 4 ms "
            "to learn a sample, and to label it, on one core.",
            "MNIST 0.9790 (results/invariant-mnist.json), test images moved by up to 7 pixels "
            "0.9651 (results/invariant-mnist-shifted.json).",
            {
                "features": "patch-planes",
                "n_filters": 16,
                "patch_size": 11,
                "threshold": 0.2,
                "root": True,
                "shifts": True,
                "n_layers": 1,
                "eps": 1.0,
                "step": 0.3,
                "step_kind": "relative",
                "sharpness": 50.0,
                "sharpness_kind": "relative",
                "dtype": "float32",
            },
        ),
        "embeddings": Recipe(
            "Vectors from an encoder of texts or images, hundreds of features and of classes.",
            "As many features as the encoder gives; with 384, a file of 41 MB for 150 classes of "
            "100 samples.",
            "CLINC150 0.9516 (results/embeddings-clinc150.json).",
            {
                "features": "pixels",
                "n_layers": 1,
                "eps": 4.0,
                "step": 0.3,
                "step_kind": "relative",
                "sharpness": 60.0,
                "sharpness_kind": "relative",
                "readout": "quadratic",
                "ridge": 0.03,
            },
        ),
        "embeddings-wide": Recipe(
            "The same with 3,000 random features beside them: more accurate, larger and slower.",
            "3,384 features for 384 of an encoder, a file of 0.4 GB for 150 classes of 100 "
            "samples.",
            "CLINC150 0.9578 (results/embeddings-wide-clinc150.json).",
            {
                "features": "pixels+random-relu",
                "width": 3000,
                "n_layers": 1,
                "eps": 4.0,
                "step": 0.15,
                "step_kind": "relative",
                "sharpness": 60.0,
                "sharpness_kind": "relative",
                "readout": "quadratic",
                "ridge": 0.03,
            },
        ),
        "features": Recipe(
            "Columns that were standardized, such as by scikit-learn's StandardScaler.",
            "One feature more than there are columns; with 30, a file of 10 KB for two classes.",
            "",
            {"features": "pixels", **_COLUMNS},
        ),
        "tables": Recipe(
            "Columns of numbers in any units, such as those of a CSV file.",
            "The same; means and deviations of the columns are learnt from the first data.",
            "",
            {"features": "standardize-columns", **_COLUMNS},
        ),
        "directions": Recipe(
            "Vectors of tens of features whose direction tells the class, such as pixels.",
            "As many features as there are columns; with 64, a file of 0.2 MB for ten classes.",
            "Pixels of digits, taken as vectors: 0.987 (results/directions-digits.json).",
            {
                "features": "pixels",
                "n_layers": 5,
                "eps": 0.5,
                "step": 0.5,
                "step_kind": "relative",
                "sharpness": 200.0,
                "sharpness_kind": "relative",
                "readout": "discriminant",
                "ridge": 0.0001,
            },
        ),
    }
)
"""All recipes, by name."""
