"""Recipes: presets of settings with a name, chosen in advance on training data.

`redunet recipes` lists them. In Python `redunet.from_recipe` makes a model with
one of them; on the command line ``--recipe NAME`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.checks import one_line_errors
from redunet.estimators.model_settings import Learner, ModelSettings
from redunet.estimators.settings import resolve_device


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


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "vectors": Recipe(
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
        "tables": Recipe(
            "Columns of numbers in any units, such as those of a CSV file.",
            "One feature more than there are columns; with 30, a file of 10 KB for two classes. "
            "Means and deviations of the columns are learnt from the first data.",
            "",
            {
                "features": "standardize-columns",
                "normalize": "constant",
                "n_layers": 1,
                "eps": 1.0,
                "step": 0.15,
                "step_kind": "relative",
                "sharpness": 120.0,
                "sharpness_kind": "relative",
                "readout": "quadratic",
                "ridge": 0.03,
            },
        ),
        "images": Recipe(
            "Photographs and other images, on a processor.",
            "4,000 features of colour images of 32 x 32 pixels, a file of 0.6 GB for ten classes; "
            "half an hour of processor time and 7 GB of memory for CIFAR-10's five tasks.",
            "CIFAR-10 0.7976 ± 0.0012 (results/images-cpu-cifar10.json).",
            {
                "features": "patches+larger-patches",
                "n_filters": 250,
                "threshold": 0.35,
                "window": 6.0,
                "mirrored": True,
                "sqrt": True,
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
        "images-gpu": Recipe(
            "Photographs, as accurately as can be: the mean of four networks without layers.",
            "64,000 features of colour images of 32 x 32 pixels in four maps; wants a GPU with "
            "12 GB, and 95 GB of main memory.",
            "CIFAR-10 0.8670 ± 0.0030 (results/images-ensemble-cifar10.json).",
            {
                "features": "patches-6+patches-8+stacked-patches-3+stacked-patches-5",
                "n_filters": 500,
                "n_ensemble": 4,
                "threshold": 0.35,
                "window": 6.0,
                "mirrored": True,
                "sqrt": True,
                "standardized": False,
                "n_layers": 0,
                "readout": "regression",
                "ridge": 0.001,
            },
        ),
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
    }
)
"""All recipes, by name."""

SYNONYMS = {"embeddings": "vectors", "images-cpu": "images", "images-ensemble": "images-gpu"}
"""Names of earlier versions, and the recipes of the same settings."""

_NEAREST = {
    "features": "tables",
    "directions": "vectors",
    "embeddings-wide": "vectors",
    "images-best": "images-gpu",
    "images-ensemble-cpu": "images-gpu",
    "images-fast": "images",
    "images-fixed": "images",
    "images-plain": "images",
    "images-small": "images",
    "images-written": "images",
    "invariant": "images",
}
"""Recipes of earlier versions that experiments alone have now, and the nearest of those here."""


def find(name: str) -> Recipe:
    """The recipe of that name, or of that name in an earlier version."""
    current = SYNONYMS.get(name, name) if isinstance(name, str) else name
    if isinstance(current, str) and current in RECIPES:
        return RECIPES[current]
    nearest = _NEAREST.get(current) if isinstance(current, str) else None
    if nearest is not None:
        raise SettingsError(
            f"expected a recipe among {', '.join(RECIPES)}, got {name!r} of an earlier version: "
            f"take {nearest}, or its settings in redunet_lab/recipes/{name}.toml, by --config or "
            f"redunet_lab.recipes.from_recipe"
        )
    raise SettingsError(
        f"expected a recipe among {', '.join(RECIPES)}, got {name!r}{did_you_mean(name, RECIPES)}"
    )


def model_settings(
    recipe: str | None = None, changes: Mapping[str, Any] | None = None
) -> ModelSettings:
    """The settings of a recipe, or the defaults, with single ones replaced."""
    settings = {} if recipe is None else find(recipe).settings
    return ModelSettings().changed({**settings, **(changes or {})})


def from_settings(
    settings: ModelSettings,
    images: ArrayLike | None = None,
    device: str = "auto",
    memory: str = "2GB",
) -> Learner:
    """A classifier with these settings, that has learnt nothing yet.

    Parameters
    ----------
    settings : ModelSettings
    images, device, memory
        As for `from_recipe`.
    """
    if images is not None:
        from sklearn.utils.validation import check_array

        with one_line_errors():
            images = check_array(images, dtype="numeric", allow_nd=True)
    # A frame's values may be read-only, which PyTorch warns of.
    samples = None if images is None else np.require(images, requirements="W")
    features = settings.features_for(samples, resolve_device(device))
    return settings.learner(features, device, memory)


def from_recipe(
    name: str,
    images: ArrayLike | None = None,
    *,
    device: str = "auto",
    memory: str = "2GB",
    **changes: Any,
) -> Any:
    """A classifier with the settings of a recipe, that has learnt nothing yet.

    Parameters
    ----------
    name : str
        "vectors", "tables", "images", "images-gpu", "paper-mnist" or "paper-cifar10";
        `redunet recipes` says what each is for, what it takes and what it reached.
    images : array-like of shape (n, height, width[, channels]) or (n, d), default=None
        What filters and statistics are learnt from, and what later samples look
        like: those of the first task, so that nothing leaks from later ones.
        They are not learnt yet. "vectors" needs none.
    device, memory
        As for `ReduNetClassifier`.
    **changes
        Single settings in place of the recipe's, see
        `redunet.estimators.model_settings.ModelSettings`.

    Returns
    -------
    ReduNetClassifier, or EnsembleClassifier with ``n_ensemble`` above 1, as for "images-gpu"

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> images, y = digits.images.astype("uint8"), digits.target
    >>> first = y < 5
    >>> model = from_recipe("images", images[first], n_filters=20, features="patches", patch_size=3)
    >>> model = model.partial_fit(images[first], y[first]).partial_fit(images[~first], y[~first])
    >>> model.n_features_in_, model.moments_.n_features  # 2 signs · 20 filters · 2 · 2 cells
    (64, 160)
    """
    return from_settings(model_settings(name, changes), images, device, memory)
