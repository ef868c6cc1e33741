"""scikit-learn's protocol of estimators, spoken without importing scikit-learn.

Importing it takes as long as importing PyTorch, and commands on model files need none of it.
"""

from __future__ import annotations

import inspect
import sys
from functools import cache
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet.errors import DataError, ReduNetError, SettingsError


class NotFittedError(ReduNetError, ValueError, AttributeError):
    """A model was asked for something before it had learnt anything.

    Raised as a subclass that is scikit-learn's error of this name, too.
    """


T = TypeVar("T")


@cache
def not_fitted() -> type[NotFittedError]:
    """The error that is raised: this package's and scikit-learn's in one."""
    from sklearn import exceptions

    return type("NotFittedError", (NotFittedError, exceptions.NotFittedError), {})


class SklearnEstimator:
    """A classifier with the parameters of its constructor, as scikit-learn asks for them."""

    poor_score: bool = False
    """Whether data of scikit-learn's checks suits it so badly that accuracy is not looked at."""

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """The parameters of the constructor and their defaults, in the order of their names."""
        found = inspect.signature(cls).parameters.values()
        return {one.name: one.default for one in sorted(found, key=lambda one: one.name)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of an estimator among them are there too, as ``NAME__PARAMETER``.

        Returns
        -------
        dict
        """
        own = {name: getattr(self, name) for name in self._parameters()}
        if not deep:
            return own
        inner = {
            f"{name}__{key}": value
            for name, one in own.items()
            if hasattr(one, "get_params") and not isinstance(one, type)
            for key, value in one.get_params().items()
        }
        return own | inner

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params
            By name; those of an estimator among them as ``NAME__PARAMETER``.

        Returns
        -------
        self
        """
        known, inner = self._parameters(), dict[str, dict[str, Any]]()
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            if name not in known:
                raise SettingsError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{list(known)!r}."
                )
            if nested:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            getattr(self, name).set_params(**values)
        return self

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy of `predict` on samples.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score

        predicted = self.predict(X)  # type: ignore[attr-defined]
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def __repr__(self) -> str:
        changed = (
            f"{name}={getattr(self, name, default)!r}"
            for name, default in self._parameters().items()
            if repr(getattr(self, name, default)) != repr(default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        """The parameters and whether something is learnt, for a notebook."""
        from sklearn.utils import estimator_html_repr

        shown: str = estimator_html_repr(self)
        return shown

    def __sklearn_tags__(self) -> Any:
        """Properties of an estimator that scikit-learn asks about."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=TransformerTags() if hasattr(self, "transform") else None,
            classifier_tags=ClassifierTags(poor_score=self.poor_score),
            regressor_tags=None,
            input_tags=InputTags(),
        )


def copied(estimator: Any) -> Any:
    """An estimator of the same kind and parameters that has learnt nothing."""
    return type(estimator)(**estimator.get_params(deep=False))


class Transforms:
    """An estimator whose `transform` gives an array with a column for each feature learnt."""

    n_features_out_: int
    _output: str | None = None

    def fit_transform(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Features of samples after they have been learnt.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n, n_features_out_)
        """
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the columns that `transform` gives: the class name and a number.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of shape (n_features_out_,)
        """
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{j}" for j in range(self.n_features_out_)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            An array, or a data frame; None leaves it as it is.

        Returns
        -------
        self
        """
        if transform is not None:
            self._output = transform
        return self

    def _in_container(self, features: NDArray[Any], X: Any) -> Any:
        """Features as an array, or as the data frame that a user has asked for."""
        kind = self._output
        if kind is None:
            loaded = sys.modules.get("sklearn")  # which knows of another output only then
            kind = "default" if loaded is None else loaded.get_config()["transform_output"]
        names = self.get_feature_names_out()
        if kind == "pandas":
            import pandas as pd

            return pd.DataFrame(features, index=getattr(X, "index", None), columns=names)
        if kind == "polars":
            import polars as pl

            return pl.DataFrame(features, schema=names.tolist())
        if kind != "default":
            raise DataError(f"expected output 'default', 'pandas' or 'polars', got {kind!r}")
        return features
