"""River: samples as dictionaries of features, learnt one at a time or in mini-batches."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, DataTypeError, not_installed
from redunet.estimators import Estimator, NearestMean, ReduNetClassifier
from redunet.estimators.widening import add_features

try:
    from river import base
except ImportError as error:
    raise not_installed("River", "river", error) from error

__all__ = ["RiverClassifier"]


class RiverClassifier(base.MiniBatchClassifier):
    """An estimator over class moments as a classifier of River.

    A feature that a sample lacks counts as 0. A feature that appears later is added to the model
    as if it had been 0 in all samples before, which is exact: the model is the one that had it
    from the start. In a sample to predict, features that no learnt sample had are left out. Names
    that appear together are put in order, so the order of a dictionary makes no difference.

    What is learnt is exact after each sample. The network or the solution is computed from it when
    an answer is next asked for, so predicting after every sample computes it after every sample:
    use `NearestMean`, `LinearDiscriminant` or few layers for that, or learn mini-batches.

    Parameters
    ----------
    model : estimator of redunet, default=ReduNetClassifier()
        Copied, and never changed; one that has learnt something is continued. A model that was
        fitted without column names has features named 0, 1, 2, …

    Attributes
    ----------
    estimator : estimator of redunet
        The copy that learns: `save` it, `forget` classes of it, `merge` others into it.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from redunet.adapters.river import RiverClassifier
    >>> from redunet.estimators import LinearDiscriminant
    >>> model = RiverClassifier(LinearDiscriminant(normalize="constant"))
    >>> evaluate.progressive_val_score(datasets.Phishing().take(200), model, metrics.Accuracy())
    Accuracy: 85.93%
    >>> model.estimator.class_counts_
    {0: 105, 1: 95}
    """

    def __init__(self, model: Estimator | None = None) -> None:
        self.model = model
        self.estimator: Estimator = ReduNetClassifier() if model is None else copy.deepcopy(model)
        self._names = _names_of(self.estimator)
        self._places = {name: place for place, name in enumerate(self._names)}
        self._bool = False

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Learn a sample.

        Parameters
        ----------
        x : dict from feature to number
        y : bool, int or str
        """
        self._learn(list(x), _row(x), [y])

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a mini-batch, the same as its samples one by one.

        Parameters
        ----------
        X : data frame of n rows
        y : series of n labels
        """
        self._learn(list(X.columns), _rows(X), list(y))

    def unlearn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Withdraw a sample, as if it had never been learnt; its features stay.

        Parameters
        ----------
        x, y
            As for `learn_one`.
        """
        rows, labels = self._known(list(x), _row(x)), self._labels([y])
        self.estimator.unlearn_batches([(rows, labels)], self._column_names())

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each class that was learnt; none where nothing was.

        Parameters
        ----------
        x : dict from feature to number

        Returns
        -------
        dict from label to float
        """
        if not self._is_fitted():
            return {}
        [shares] = self._probabilities(self._known(list(x), _row(x)))
        return dict(zip(self._classes(), shares.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """The class of a sample; None where nothing was learnt.

        Parameters
        ----------
        x : dict from feature to number

        Returns
        -------
        label
        """
        if not self._is_fitted():
            return None
        return self._predicted(self._known(list(x), _row(x)))[0]

    def predict_proba_many(self, X: Any) -> Any:
        """The probability of each class: a pandas DataFrame of n rows, a column for each class.

        Parameters
        ----------
        X : data frame of n rows
        """
        import pandas as pd

        index = getattr(X, "index", None)
        if not self._is_fitted():
            return pd.DataFrame(index=index)
        shares = self._probabilities(self._known(list(X.columns), _rows(X)))
        return pd.DataFrame(shares, index=index, columns=self._classes())

    def predict_many(self, X: Any) -> Any:
        """The class of each sample: a pandas Series of n labels.

        Parameters
        ----------
        X : data frame of n rows
        """
        import pandas as pd

        index = getattr(X, "index", None)
        if not self._is_fitted():
            return pd.Series(index=index, dtype=object)
        return pd.Series(self._predicted(self._known(list(X.columns), _rows(X))), index=index)

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": NearestMean()}

    def _is_fitted(self) -> bool:
        return bool(self.estimator.__sklearn_is_fitted__())

    def _learn(self, names: list[Hashable], values: NDArray[np.float64], y: list[Any]) -> None:
        """Learn samples, with all their features; nothing changes after an error."""
        labels, of_bool = self._labels(y), isinstance(y[0], bool | np.bool_)
        fresh = [name for name in names if name not in self._places]
        fresh.sort(key=lambda name: (type(name).__name__, name))
        model = copy.copy(self.estimator)  # what is learnt is never changed in place
        if fresh and self._is_fitted():
            given = None if self._column_names() is None else _strings(fresh)
            add_features(model, len(fresh), given)
        every = [*self._names, *fresh]
        places = {name: place for place, name in enumerate(every)}
        rows = np.zeros((len(values), len(every)))
        rows[:, [places[name] for name in names]] = values
        texts = all(isinstance(name, str) for name in every)
        named = texts if not self._is_fitted() else self._column_names() is not None
        model.partial_fit_batches([(rows, labels)], _strings(every) if named else None)
        self.estimator, self._names, self._places = model, every, places
        self._bool = of_bool

    def _known(self, names: Sequence[Hashable], values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Samples by the features of the model: an array of shape (n, d)."""
        rows = np.zeros((len(values), len(self._names)))
        found = [(self._places[name], i) for i, name in enumerate(names) if name in self._places]
        if found:
            ours, theirs = (list(one) for one in zip(*found, strict=True))
            rows[:, ours] = values[:, theirs]
        return rows

    def _column_names(self) -> tuple[str, ...] | None:
        """The names of the features that the model holds; None where it holds none."""
        names: tuple[str, ...] | None = self.estimator._fitted().feature_names
        return names

    def _labels(self, y: list[Any]) -> list[Any]:
        """Labels as the model holds them: those of River are often bool, those here int or str."""
        plain = [label.item() if isinstance(label, np.generic) else label for label in y]
        bools = [isinstance(label, bool) for label in plain]
        if not any(bools) and not self._bool:
            return plain
        if not all(bools) or (self._is_fitted() and not self._bool):
            raise DataTypeError(
                f"expected labels that are all bool or none of them, got {plain[0]!r} among "
                f"others: use one type of label throughout"
            )
        return [int(label) for label in plain]

    def _classes(self) -> list[Any]:
        classes: list[Any] = self.estimator.classes_.tolist()
        return [bool(label) for label in classes] if self._bool else classes

    def _predicted(self, rows: NDArray[np.float64]) -> list[Any]:
        with _without_names():
            labels: list[Any] = self.estimator.predict(rows).tolist()
        return [bool(label) for label in labels] if self._bool else labels

    def _probabilities(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        with _without_names():
            found: NDArray[np.float64] = self.estimator.predict_proba(rows)
            return found


def _names_of(model: Estimator) -> list[Hashable]:
    """The features of a model that has learnt something; none otherwise."""
    if not model.__sklearn_is_fitted__():
        return []
    names = model._fitted().feature_names
    return list(range(model.n_features_in_)) if names is None else list(names)


def _row(x: Mapping[Any, Any]) -> NDArray[np.float64]:
    """The values of a sample: an array of shape (1, d)."""
    if not isinstance(x, Mapping):
        raise DataTypeError(f"expected a dictionary of features, got {type(x).__name__}")
    for name, value in x.items():
        if not isinstance(value, int | float | np.number | np.bool_) or not math.isfinite(value):
            raise DataError(
                f"expected a finite number for the feature {name!r}, got {value!r}: encode texts "
                f"and fill gaps before, as with river.preprocessing"
            )
    return np.array([list(map(float, x.values()))])


def _rows(X: Any) -> NDArray[np.float64]:
    """The values of a data frame: an array of shape (n, d)."""
    try:
        rows: NDArray[np.float64] = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"expected a data frame of numbers ({error}): encode texts before, as with "
            f"river.preprocessing"
        ) from None
    return rows


def _strings(names: Sequence[Hashable]) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str):
            raise DataTypeError(
                f"expected names of features that are str, like those of the model, got {name!r}"
            )
    return tuple(str(name) for name in names)


@contextmanager
def _without_names() -> Iterator[None]:
    """Samples whose features are in the order of the model need no names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
