"""Recipes: presets of settings with a name, chosen in advance on training data.

`redunet recipes` lists them. In Python `redunet.from_recipe` makes a model with
one of them; on the command line ``--recipe NAME`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.checked_input import one_line_errors
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.ensemble import EnsembleClassifier
from redunet.estimators.model_settings import ModelSettings
from redunet.estimators.recipe_list import RECIPES as RECIPES
from redunet.estimators.recipe_list import Recipe as Recipe
from redunet.estimators.settings import resolve_device


def find(name: str) -> Recipe:
    """The recipe of that name."""
    if not isinstance(name, str) or name not in RECIPES:
        raise SettingsError(
            f"expected a recipe among {', '.join(RECIPES)}, got {name!r}"
            f"{did_you_mean(name, RECIPES)}"
        )
    return RECIPES[name]


def model_settings(
    recipe: str | None = None, changes: Mapping[str, Any] | None = None
) -> ModelSettings:
    """The settings of a recipe, or the defaults, with single ones replaced."""
    settings = {} if recipe is None else find(recipe).settings
    return ModelSettings().changed({**settings, **(changes or {})})


@overload
def from_recipe(
    name: Literal["images-ensemble", "images-ensemble-cpu"],
    images: ArrayLike | None = None,
    *,
    device: str = "auto",
    memory: str = "2GB",
    **changes: Any,
) -> EnsembleClassifier: ...
@overload
def from_recipe(
    name: str,
    images: ArrayLike | None = None,
    *,
    device: str = "auto",
    memory: str = "2GB",
    **changes: Any,
) -> ReduNetClassifier: ...
def from_recipe(
    name: str,
    images: ArrayLike | None = None,
    *,
    device: str = "auto",
    memory: str = "2GB",
    **changes: Any,
) -> ReduNetClassifier | ClosedForm:
    """A classifier with the settings of a recipe, that has learnt nothing yet.

    Parameters
    ----------
    name : str
        "paper-mnist", "paper-cifar10", "images-fast", "images-best", "images-ensemble",
        "images-ensemble-cpu", "images-cpu", "images-plain", "images-written", "images-fixed",
        "images-small", "invariant", "embeddings", "embeddings-wide", "features", "tables" or
        "directions";
        `redunet recipes` says what each is for, what it takes and what it reached.
    images : array-like of shape (n, height, width[, channels]) or (n, d), default=None
        What filters and statistics are learnt from, and what later samples look
        like: those of the first task, so that nothing leaks from later ones.
        They are not learnt yet. "embeddings", "features" and "directions" need none.
    device, memory
        As for `ReduNetClassifier`.
    **changes
        Single settings in place of the recipe's, see
        `redunet.estimators.model_settings.ModelSettings`.

    Returns
    -------
    ReduNetClassifier, ShiftInvariantClassifier for "invariant", or EnsembleClassifier where
    ``n_maps`` is more than 1, as for "images-ensemble" and "images-ensemble-cpu"

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> images, y = digits.images.astype("uint8"), digits.target
    >>> first = y < 5
    >>> model = from_recipe("images-fast", images[first], n_filters=20, patch_size=3)
    >>> model = model.partial_fit(images[first], y[first]).partial_fit(images[~first], y[~first])
    >>> model.n_features_in_, model.moments_.n_features  # 2 signs · 20 filters · 3 · 3 cells
    (64, 360)
    """
    settings = model_settings(name, changes)
    if images is not None:
        with one_line_errors():
            images = check_array(images, dtype="numeric", allow_nd=True)
    # A frame's values may be read-only, which PyTorch warns of.
    samples = None if images is None else np.require(images, requirements="W")
    features = settings.features_for(samples, resolve_device(device))
    return settings.learner(features, device, memory)
