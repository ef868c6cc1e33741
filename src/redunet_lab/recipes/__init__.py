"""Settings of experiments by name: the product's recipes, and TOML files beside this module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from redunet.errors import SettingsError, did_you_mean
from redunet.estimators import recipes
from redunet.estimators.model_settings import Learner, ModelSettings
from redunet.validation import settings_in_file

_FOLDER = Path(__file__).parent


def current_name(name: str) -> str:
    """The name of today of a recipe."""
    return recipes.SYNONYMS.get(name, name)


def settings(name: str) -> dict[str, Any]:
    """The settings of a recipe that differ from the defaults."""
    current = current_name(name)
    if current in recipes.RECIPES:
        return dict(recipes.RECIPES[current].settings)
    if current not in names():
        raise SettingsError(
            f"expected a recipe among {', '.join(names())}, got {name!r}"
            f"{did_you_mean(name, names())}"
        )
    return settings_in_file(_FOLDER / f"{current}.toml")


def names() -> list[str]:
    """All recipes: the product's, then the lab's own."""
    return [*recipes.RECIPES, *sorted(path.stem for path in _FOLDER.glob("*.toml"))]


def from_recipe(
    name: str,
    images: ArrayLike | None = None,
    *,
    device: str = "auto",
    memory: str = "2GB",
    **changes: Any,
) -> Learner:
    """A classifier as by `redunet.from_recipe`, of any of the lab's recipes too."""
    made = ModelSettings().changed({**settings(name), **changes})
    return recipes.from_settings(made, images, device, memory)
