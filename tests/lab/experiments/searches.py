"""Searches over arrays, as `redunet tune` makes them over an experiment."""

from __future__ import annotations

from typing import Any

import numpy as np

from redunet_lab.tuning import (
    check_own_settings,
    closed_form_candidates,
    combinations_of,
    found_by,
    held_out_rows,
    network_candidates,
)


def tune(
    model: Any,
    X: Any,
    y: Any,
    grid: Any,
    *,
    n_components: list[int],
    per_class: int = 200,
    seed: int = 0,
    paper_rule: bool = True,
    most: int | None = None,
) -> dict[str, Any]:
    """Search over settings of a network."""
    combinations, tried = combinations_of(grid, most, seed)
    mask = held_out_rows(y, per_class, seed)
    candidates = network_candidates(model, X, y, mask, combinations, n_components, paper_rule)
    return found_by(candidates, mask, per_class, tried, seed, paper_rule)


def tune_closed_form(
    model: Any,
    X: Any,
    y: Any,
    grid: Any,
    *,
    per_class: int = 200,
    seed: int = 0,
    most: int | None = None,
    held_out: Any = None,
) -> dict[str, Any]:
    """Search over settings of a method in closed form."""
    check_own_settings(model, grid)
    combinations, tried = combinations_of(grid, most, seed)
    mask = np.zeros(len(y), dtype=bool) if held_out else held_out_rows(y, per_class, seed)
    candidates = closed_form_candidates(model, X, y, mask, combinations, held_out)
    return found_by(candidates, mask, per_class, tried, seed)
