"""Models in parts: moments that a copy of a model has learnt elsewhere, added or withdrawn here."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from redunet.core.allocation import in_memory
from redunet.core.moments import ClassMoments
from redunet.errors import DataError
from redunet.estimators.base import MomentEstimator
from redunet.estimators.state import Cache

E = TypeVar("E", bound=MomentEstimator)


def without_moments(model: E) -> E:
    """A copy that has agreed on the same input as the model, and has learnt nothing.

    What it then learns are moments to be given to `add` or `withdraw`.
    """
    part = copy.copy(model)
    state = model._state_or_none()
    if state is not None:
        nothing = state.moments.select([]).to_storage(in_memory)
        part._state = replace(
            state,
            moments=nothing,
            self_labelled=None,
            calibration=None,
            cache=Cache(),
            warned=set(),
        )
    return part


def add(
    model: MomentEstimator, moments: ClassMoments, n_columns: int, names: Sequence[str] | None
) -> None:
    """Add moments, as if their samples had been learnt here.

    Parameters
    ----------
    model : MomentEstimator
    moments : ClassMoments
        Learnt by a copy that `without_moments` made.
    n_columns : int
        The number of values of a raw sample.
    names : sequence of str, or None
        The names of these values, where they have some.
    """
    state = model._state_or_none()
    if state is None:
        state = model._before_learning(n_columns, None if names is None else tuple(names))
    else:
        model._check_pipeline(state)
    if not len(moments):
        raise DataError("expected at least one sample, got none")
    state.pipeline.check_moments(moments)
    model._set_moments(state, state.moments + moments, state.self_labelled)


def withdraw(model: MomentEstimator, moments: ClassMoments) -> None:
    """Withdraw moments, as if their samples had never been learnt."""
    state = model._fitted()
    model._check_pipeline(state)
    if not len(moments):
        raise DataError("expected at least one sample, got none")
    model._withdrawn(state, state.moments - moments)
