"""ReduNetClassifier: the scikit-learn face of the network."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn import exceptions
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data
from torch import Tensor

from redunet.built import Built
from redunet.errors import DataError, DataTypeError, ReduNetError, SettingsError
from redunet.features import FeatureMap
from redunet.inputs import Embedding, checked_labels, checked_samples, one_line_errors
from redunet.model import Model
from redunet.moments import ClassMoments
from redunet.network import ReduNet
from redunet.readouts import NearestSubspace
from redunet.settings import Settings, parse_memory, resolve_device


class NotFittedError(ReduNetError, exceptions.NotFittedError):
    """A model was asked for something before it had learnt anything."""


class LearntFeaturesWarning(UserWarning):
    """A feature map that was learnt from data stays as it is when data is withdrawn."""


class ReduNetClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """A white-box network for classes that arrive one after another.

    What is remembered of the data is the count, the sum and the second moment
    of each class, as exact integers. The network is computed from them in
    closed form when it is next needed. So the model after any number of
    `partial_fit` calls equals the one fitted on everything at once, whatever
    the order and the batches, and `forget`, `unlearn` and `merge` are exact.

    Parameters
    ----------
    n_layers : int, default=50
        Depth. With the default decay, 50 layers take 97 % of all the way that
        endlessly many would. The paper has 200 on MNIST and 50 on CIFAR-10.
    eps : float, default=0.5
        ε, the precision of the coding.
    step : float, default=0.5
        η, the step of the first layer.
    step_decay : float, default=0.933
        Layer ℓ has the step ``step * step_decay**ℓ``.
    step_kind : {"absolute", "relative"}, default="absolute"
        "absolute" is the paper's. "relative" takes ``step`` as τ = ηα, so that
        a layer moves features as far with many samples as with few (α falls
        as 1/m). Either way ηα is capped at 2.
    sharpness : float, default=1.0
        λ, the confidence of the estimated memberships of new samples.
    n_components : int, default=None
        Dimension of each class's subspace in the read-out; None means 28, or
        one below the number of features where that is less. A class of lower
        numerical rank uses its rank.
    normalize : {"sample", "class"}, default="sample"
        "sample" puts each input on the unit sphere; "class" scales only each
        class as a whole, and needs ``input_range``.
    input_range : (float, float), default=None
        The range that input values keep to, with ``normalize="class"``.
    features : feature map, default=None
        A fixed map from raw samples to feature vectors, see `redunet.features`;
        None takes the samples as they are.
    dtype : {"float64", "float32"}, default="float64"
        Of the layers. Moments are integers whatever the dtype.
    device : str, default="auto"
        "auto" takes CUDA where there is some. Never saved with a model.
    memory : str or int, default="2GB"
        Layers that fit are kept; others are built anew by each `predict`.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered.
    network_ : ReduNet
        Built from the moments when it is first asked for.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where the input had named columns.

    References
    ----------
    Z. Wu, C. Baek, C. You, Y. Ma: Incremental Learning via Rate Reduction. CVPR 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet import ReduNetClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ReduNetClassifier(n_components=12)
    >>> for classes in [(0, 1, 2), (3, 4, 5, 6), (7, 8, 9)]:
    ...     of_task = [label in classes for label in y]
    ...     model = model.partial_fit(X[of_task], y[of_task])
    >>> model.moments_ == ReduNetClassifier().fit(X, y).moments_
    True
    >>> model.forget([7]).classes_.tolist()
    [0, 1, 2, 3, 4, 5, 6, 8, 9]
    """

    def __init__(
        self,
        n_layers: int = 50,
        eps: float = 0.5,
        step: float = 0.5,
        step_decay: float = 0.933,
        step_kind: str = "absolute",
        sharpness: float = 1.0,
        n_components: int | None = None,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        dtype: str = "float64",
        device: str = "auto",
        memory: str | int = "2GB",
    ) -> None:
        self.n_layers = n_layers
        self.eps = eps
        self.step = step
        self.step_decay = step_decay
        self.step_kind = step_kind
        self.sharpness = sharpness
        self.n_components = n_components
        self.normalize = normalize
        self.input_range = input_range
        self.features = features
        self.dtype = dtype
        self.device = device
        self.memory = memory

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything, then learn.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,), int or str

        Returns
        -------
        self
        """
        return self._learn(X, y, afresh=True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn new classes, or more samples of old ones, in any order and batch size.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,), int or str
        classes : array-like, default=None
            Never needed; where given, labels outside of it are an error.

        Returns
        -------
        self
        """
        return self._learn(X, y, not self.__sklearn_is_fitted__(), classes)

    def forget(self, classes: Iterable[Any]) -> Self:
        """Withdraw classes, as if they had never been seen.

        Parameters
        ----------
        classes : iterable of labels

        Returns
        -------
        self
        """
        moments = self._fitted_moments()
        try:
            labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
        except TypeError:
            raise DataTypeError(
                f"expected a list of classes to forget, such as [3, 7], got {classes!r}"
            ) from None
        return self._keep(moments.drop(labels))._say_what_stays()

    def unlearn(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Withdraw samples, as if they had never been seen.

        Samples that cannot have been learnt are an error. With many samples in
        a class this cannot always be known: a stranger's sample may pass.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        moments = self._fitted_moments()
        embedding, nothing = self._unchanged_embedding(), ClassMoments(moments.n_features)
        gone = self._moments_of(self._rows(X, embedding), y, embedding, nothing)
        return self._keep(moments - gone)._say_what_stays()

    def merge(self, other: ReduNetClassifier) -> Self:
        """Add what another model has learnt, as if one model had seen both.

        Parameters
        ----------
        other : ReduNetClassifier
            With the same settings.

        Returns
        -------
        self
        """
        moments = self._fitted_moments()
        if not isinstance(other, ReduNetClassifier):
            raise DataTypeError(
                f"expected a ReduNetClassifier to merge, got {type(other).__name__}"
            )
        theirs = other._fitted_moments()
        mine, others = self._identity(), other._identity()
        for name in mine:
            if mine[name] != others[name]:
                raise SettingsError(
                    f"expected models made alike, but they differ in {name}: "
                    f"merge models with the same settings and features"
                )
        return self._keep(moments + theirs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample: ndarray of shape (n,)."""
        residuals, _ = self._residuals(X)
        labels: NDArray[Any] = self.classes_[residuals.argmin(dim=1).numpy()]
        return labels

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Minus the residual from each class's subspace.

        Returns
        -------
        ndarray of shape (n, k), or (n,) for two classes
            For two classes, how much smaller the second one's residual is.
        """
        residuals, _ = self._residuals(X)
        if residuals.shape[1] == 2:
            residuals = residuals[:, 1] - residuals[:, 0]
        scores: NDArray[np.float64] = -residuals.numpy()
        return scores

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """softmax(−residual / 2σ²): ndarray of shape (n, k).

        σ² is the energy that the training moments themselves leave outside
        their classes' subspaces.
        """
        residuals, readout = self._residuals(X)
        probabilities: NDArray[np.float64] = readout.probabilities(residuals).numpy()
        return probabilities

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The network's features, on the unit sphere: ndarray of shape (n, d)."""
        passes = [Z.cpu() for Z in self._features(X)]
        features: NDArray[Any] = torch.cat(passes).numpy()
        return features

    def memberships(self, X: ArrayLike) -> NDArray[Any]:
        """Estimated membership in each class at each layer: ndarray of shape (layers, n, k)."""
        network, sharpness = self.network_, self._settings().sharpness
        passes = [network.memberships(Z, sharpness).cpu() for Z in self._inputs(X)]
        memberships: NDArray[Any] = torch.cat(passes, dim=1).numpy()
        return memberships

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; equal models give equal files, to the byte."""
        moments = self._fitted_moments()
        embedding = self._unchanged_embedding()
        Model(self._settings(), embedding, moments, self._feature_names()).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model from a file."""
        read = Model.load(path)
        model = cls(
            **read.settings.to_dict(),
            features=read.embedding.features,
            normalize=read.embedding.normalize,
            input_range=read.embedding.input_range,
        )
        model.n_features_in_ = read.n_features_in
        if read.feature_names is not None:
            model.feature_names_in_ = np.asarray(read.feature_names, dtype=object)
        model._learnt_through = read.embedding
        return model._keep(read.moments)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes seen, sorted: ndarray of shape (k,)."""
        return np.asarray(self._fitted_moments().labels)

    @property
    def network_(self) -> ReduNet:
        """The network of the moments and settings as they are now."""
        self._fitted_moments()
        return self._built.network(
            self._settings(), resolve_device(self.device), parse_memory(self.memory)
        )

    def _learn(
        self, X: ArrayLike, y: ArrayLike, afresh: bool, classes: ArrayLike | None = None
    ) -> Self:
        """Learn samples; nothing of the model changes before everything has gone well."""
        if not afresh:
            embedding = self._unchanged_embedding()
            rows = self._rows(X, embedding)
            return self._keep(self._moments_of(rows, y, embedding, self.moments_, classes))
        embedding = self._embedding()
        rows = checked_samples(X, embedding.features, self)
        nothing = ClassMoments(embedding.n_features(rows.shape[1]))
        moments = self._moments_of(rows, y, embedding, nothing, classes)
        names_from = X if embedding.features is None else rows
        with one_line_errors():
            validate_data(self, names_from, reset=True, skip_check_array=True)
        self._learnt_through = embedding
        return self._keep(moments)

    def _moments_of(
        self,
        rows: NDArray[Any],
        y: ArrayLike,
        embedding: Embedding,
        start: ClassMoments,
        classes: ArrayLike | None = None,
    ) -> ClassMoments:
        """Moments with these samples added to those of others."""
        self._settings().components(start.n_features)
        parse_memory(self.memory)
        device = resolve_device(self.device)
        labels = checked_labels(y, len(rows))
        if classes is not None:
            unknown = np.setdiff1d(labels, np.asarray(classes))
            if len(unknown):
                raise DataError(f"expected labels among classes=, got {unknown.tolist()[0]!r}")
        return start.update(rows, labels, lambda part: embedding.learn(part, device), device)

    def _keep(self, moments: ClassMoments) -> Self:
        """Take new moments; whatever was built from the old ones is gone."""
        if not len(moments):
            raise DataError(
                "expected at least one class to remain, but this would withdraw the last one: "
                "discard the model instead"
            )
        self.moments_ = moments
        self._built = Built(moments)
        return self

    def _say_what_stays(self) -> Self:
        if self.features is not None and self.features.learnt_from_data:
            warnings.warn(
                "the feature map was learnt from data and stays as it is: what it holds of the "
                "data it was learnt from is not withdrawn",
                LearntFeaturesWarning,
                stacklevel=3,
            )
        return self

    def _settings(self) -> Settings:
        """The parameters of network and read-out, checked."""
        names = Settings.__dataclass_fields__
        return Settings.checked(**{name: getattr(self, name) for name in names})

    def _embedding(self) -> Embedding:
        """The parameters of the input, checked."""
        return Embedding.checked(self.features, self.normalize, self.input_range)

    def _unchanged_embedding(self) -> Embedding:
        """The embedding that the moments were learnt through."""
        if self._embedding() != self._learnt_through:
            raise SettingsError(
                "features, normalize or input_range changed since the model was fitted: "
                "set them back, or fit anew"
            )
        return self._learnt_through

    def _feature_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else names.tolist()

    def _identity(self) -> dict[str, Any]:
        """What two models must share to be merged."""
        return {
            **self._settings().to_dict(),
            "features, normalize or input_range": self._unchanged_embedding(),
            "the number of features": self.n_features_in_,
            "the list of feature names": self._feature_names(),
        }

    def _rows(self, X: ArrayLike, embedding: Embedding) -> NDArray[Any]:
        """Samples of the features that the model knows, as an array of shape (n, values)."""
        rows = checked_samples(X, embedding.features, self)
        with one_line_errors():
            names_from = X if embedding.features is None else rows
            validate_data(self, names_from, reset=False, skip_check_array=True)
        return rows

    def _inputs(self, X: ArrayLike) -> Iterator[Tensor]:
        """New samples on the unit sphere, (rows, d), pass by pass."""
        self._fitted_moments()
        embedding, device = self._unchanged_embedding(), resolve_device(self.device)
        dtype, memory = self._settings().torch_dtype, parse_memory(self.memory)
        return embedding.new(self._rows(X, embedding), dtype, device, memory)

    def _features(self, X: ArrayLike) -> Iterator[Tensor]:
        """The network's features of new samples, pass by pass."""
        for Z in self._inputs(X):
            yield self.network_.transform(Z, self._settings().sharpness)

    def _residuals(self, X: ArrayLike) -> tuple[Tensor, NearestSubspace]:
        """Residuals of all samples, (n, k), and the read-out that gave them."""
        n_components = self._settings().components(self._fitted_moments().n_features)
        residuals = []
        # Features first: a pass through streamed layers gives the last moments for nothing.
        for Z in self._features(X):
            readout = self._built.readout(self.network_, n_components)
            residuals.append(readout.residuals(Z).cpu())
        return torch.cat(residuals), readout

    def _fitted_moments(self) -> ClassMoments:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "This ReduNetClassifier has learnt nothing yet: call fit or partial_fit first"
            )
        return self.moments_

    def __sklearn_is_fitted__(self) -> bool:
        return "moments_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # x and −x span one line, so classes on two sides of the origin can coincide.
        tags.classifier_tags.poor_score = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._fitted_moments().n_features

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "_built" in state:
            state = {**state, "_built": Built(self.moments_)}
        return state
