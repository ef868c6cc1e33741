"""Learning from samples without labels: the model labels those that it is certain of."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from redunet.core.self_labelling import in_order, label_in_rounds
from redunet.errors import DataError
from redunet.estimators.base import MomentEstimator
from redunet.estimators.checks import column_names
from redunet.estimators.settings import parse_memory, resolve_device
from redunet.estimators.state import State

_ROWS = 2048
"""Samples that feature vectors are made of at a time."""


class LearnsUnlabelled(MomentEstimator):
    """An estimator that can label samples itself, and keeps them apart from labelled ones.

    Parameters
    ----------
    eps, memory
        As for `ReduNetClassifier`.
    """

    eps: float
    memory: str | int

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        unlabelled: int | str | None = None,
    ) -> Self:
        """Learn new classes, or more samples of old ones, in any order and batch size.

        Parameters
        ----------
        X : array-like of shape (n, d)
            With the column names of the first call, or without names as in the first call.
        y : array-like of shape (n,), int or str
        classes : array-like, default=None
            Never needed; where given, labels outside of it are an error.
        unlabelled : int or str, default=None
            What stands in y for no label, such as scikit-learn's -1: these samples are learnt by
            `learn_unlabelled`, after the others. None means that every sample has a label, and -1
            is a class like any other.

        Returns
        -------
        self
        """
        if unlabelled is None:
            return super().partial_fit(X, y, classes)
        has_none = _is(y, unlabelled)
        known = self._state_or_none()
        if known is not None and unlabelled in known.moments:
            raise DataError(
                f"expected unlabelled= to be no class, but the model has learnt a class "
                f"{unlabelled!r}: let another value stand for no label"
            )
        from sklearn.utils import _safe_indexing

        trial = copy.copy(self)  # so that all of it is learnt, or nothing after an error
        if not has_none.all():
            MomentEstimator.partial_fit(
                trial, _safe_indexing(X, ~has_none), _safe_indexing(y, ~has_none), classes
            )
        if has_none.any():
            trial.learn_unlabelled(_safe_indexing(X, has_none))
        self._state = trial._fitted()
        return self

    def learn_unlabelled(self, X: ArrayLike, feature_names: Sequence[str] | None = None) -> Self:
        """Label samples, the most certain first, and learn those that got a label.

        A sample goes to the class whose code it lengthens least; see docs/unlabelled.md. All
        samples of the call are held in memory and judged together, so their order makes no
        difference; how they are divided among several calls does. They are never part of
        ``moments_``: `self_labelled_` holds their moments, `forget_unlabelled` withdraws them,
        and so do `forget` and `unlearn`.

        Parameters
        ----------
        X : array-like of shape (n, d)
        feature_names : sequence of str, default=None
            Column names, where X is an array and the model has some.

        Returns
        -------
        self
        """
        state = self._fitted()
        device = resolve_device(self.device)
        names = column_names(X) if feature_names is None else tuple(feature_names)
        vectors = self._vectors(state, X, names, device)
        vectors = vectors[in_order(vectors)]
        memory, eps = parse_memory(self.memory), self.own_settings()["eps"]
        given = label_in_rounds(state.total, vectors, eps, memory)
        rows = [row for row, label in enumerate(given) if label is not None]
        own = state.self_labelled or state.moments.select([])
        labels = [given[row] for row in rows]
        own = own.update(vectors[rows], labels, lambda part: part, device)
        return self._set_moments(state, state.moments, own)

    def forget_unlabelled(self) -> Self:
        """Withdraw all samples that the model labelled itself, as if it had never seen them.

        Returns
        -------
        self
        """
        state = self._fitted()
        return self if state.self_labelled is None else self._set_moments(state, state.moments)

    def _vectors(
        self, state: State, X: ArrayLike, names: tuple[str, ...] | None, device: str
    ) -> Tensor:
        """Feature vectors of samples as they are learnt: (n, d), float64."""
        rows = self._rows_to_change(state, X, names)
        self._check_parameters(state.moments.n_features)
        parts = (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))
        return torch.cat([state.pipeline.vectors(part, device) for part in parts])


def _is(y: Any, value: int | str) -> NDArray[np.bool_]:
    """Which labels are a value, of its own type."""
    labels = np.asarray(y)
    if labels.dtype.kind not in ("OUT" if isinstance(value, str) else "Oiuf"):
        raise DataError(
            f"expected labels of the type of unlabelled={value!r}, got {labels.dtype}: let a value "
            f"of their own type stand for no label"
        )
    found: NDArray[np.bool_] = labels == value
    return found
