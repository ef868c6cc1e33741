"""The command that lists recipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from redunet.cli.terminal import say

if TYPE_CHECKING:
    from redunet.estimators.recipes import Recipe


def recipes() -> None:
    """List the recipes, which are presets of settings: purpose, cost, accuracy.

    Example:

        redunet recipes
        redunet learn wine.safetensors wine.csv --label cultivar --recipe tables
    """
    from redunet.estimators.recipes import RECIPES

    say(recipe_table(RECIPES))


def recipe_table(recipes: Mapping[str, Recipe]) -> Table:
    """Each recipe: what it is for, what it costs, what it reached, its settings."""
    table = Table(box=box.HORIZONTALS, show_header=False, show_lines=True, padding=(0, 1))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, recipe in recipes.items():
        settings = ", ".join(f"{key}={value}" for key, value in recipe.settings.items())
        said = {"Costs": recipe.cost, "Reached": recipe.reached, "Settings": settings}
        lines = [Text(recipe.purpose)]
        for word, text in said.items():
            if text:
                lines.append(Text.assemble((f"{word}: ", "dim"), text))
        table.add_row(name, Text("\n").join(lines))
    return table
