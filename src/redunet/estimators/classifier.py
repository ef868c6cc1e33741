"""ReduNetClassifier: the scikit-learn face of the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from torch import Tensor

from redunet.core.moments import ClassMoments
from redunet.core.network import ReduNet
from redunet.core.readouts import Readout
from redunet.estimators.base import MomentEstimator
from redunet.estimators.lazy import Built
from redunet.estimators.settings import Settings, parse_memory, resolve_device
from redunet.features import FeatureMap


class ReduNetClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, MomentEstimator
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
        "absolute" takes ``step`` as η. It is the paper's, and the default, so
        that the paper's settings and files made with them stay as published.
        "relative" takes it as τ = ηα; recipes beyond the paper use it. As α
        falls as 1/m, a layer of absolute step hardly moves features once there
        are many samples; one of relative step moves a class's moments as far
        with any number m. On class j a layer is I + τ(E/α − P_j), where E/α
        and P_j = C_j/α_j have eigenvalues in (0, 1]: up to τ = 1 it is positive
        definite, so no direction is lost or turned round. Above 1 some may be;
        steps up to τ = 2 are taken as given, larger ones of either kind as 2.
    sharpness : float, default=1.0
        λ, the confidence of the estimated memberships of new samples. They come
        from λ‖C_j z‖, and C_j falls as 1/n_j: with ten times the samples, ten
        times the λ gives the same memberships.
    n_components : int, default=None
        Dimension of each class's subspace in the read-out; None means 28, or
        one below the number of features where that is less. A class of lower
        numerical rank uses its rank.
    whitening : float, default=None
        ρ, relative to the mean eigenvalue of the pooled within-class covariance
        W: feature vectors become (W + ρI)^(−½) z before the first layer, so that
        directions in which all classes vary count less. W comes from the
        moments and is derived anew when they change. None leaves it out.
    readout : {"subspace", "coding", "discriminant", "regression"}, default="subspace"
        How the last layer's features become labels: "subspace" is the paper's,
        the class whose principal subspace is nearest; "coding" is the class
        that the sample lengthens least, coded up to ``eps``; "discriminant" is linear
        discriminant analysis by the last layer's means and covariance;
        "regression" is ridge regression to one-hot targets, from the same.
    ridge : float, default=0.01
        Of discriminant and regression: what is added to the covariance,
        relative to its mean eigenvalue.
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
    tol : float, default=None
        The network ends before ``n_layers`` with the layer that raises ΔR by
        less than this; None keeps the depth.

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
        whitening: float | None = None,
        readout: str = "subspace",
        ridge: float = 0.01,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        dtype: str = "float64",
        device: str = "auto",
        memory: str | int = "2GB",
        tol: float | None = None,
    ) -> None:
        self.n_layers = n_layers
        self.eps = eps
        self.step = step
        self.step_decay = step_decay
        self.step_kind = step_kind
        self.sharpness = sharpness
        self.n_components = n_components
        self.whitening = whitening
        self.readout = readout
        self.ridge = ridge
        self.normalize = normalize
        self.input_range = input_range
        self.features = features
        self.dtype = dtype
        self.device = device
        self.memory = memory
        self.tol = tol

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample: ndarray of shape (n,)."""
        scores, _ = self._scores(X)
        labels: NDArray[Any] = self.classes_[scores.argmax(dim=1).numpy()]
        return labels

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The score of each class by the read-out; the highest wins.

        "subspace" gives minus the residual from each class's subspace, "coding"
        minus the nats that the sample adds to each class's code, "discriminant"
        the log-likelihood of each class up to a constant, and "regression" the
        prediction of each class's one-hot target.

        Returns
        -------
        ndarray of shape (n, k), or (n,) for two classes
            For two classes, how much larger the second one's score is.
        """
        scores, _ = self._scores(X)
        if scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
        decisions: NDArray[np.float64] = scores.numpy()
        return decisions

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each class by the read-out: ndarray of shape (n, k), rows of sum 1.

        "subspace" gives softmax(−residual / 2σ²), with σ² the mean residual of
        the training samples from their own class's subspace. "coding" and
        "discriminant" give the softmax of their scores, "regression" its
        scores, those below 0 set to 0.
        """
        scores, readout = self._scores(X)
        probabilities: NDArray[np.float64] = readout.probabilities(scores).numpy()
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

    @property
    def network_(self) -> ReduNet:
        """The network of the moments and settings as they are now."""
        self._fitted_moments()
        return self._built.network(
            self._settings(), resolve_device(self.device), parse_memory(self.memory)
        )

    def _settings(self) -> Settings:
        """The parameters of network and read-out, checked."""
        return Settings.of(self)

    def _keep(self, moments: ClassMoments) -> Self:
        super()._keep(moments)
        self._built = Built(moments)
        return self

    def _check_parameters(self, n_features: int) -> None:
        self._settings().components(n_features)
        parse_memory(self.memory)

    def _plain_settings(self) -> dict[str, Any]:
        return self._settings().to_state()

    @classmethod
    def _made_with(cls, values: dict[str, Any]) -> Self:
        return cls(**Settings.checked(**values).to_dict())

    def _inputs(self, X: ArrayLike) -> Iterator[Tensor]:
        """New samples on the unit sphere, whitened where asked for, (rows, d), pass by pass."""
        self._fitted_moments()
        embedding, device = self._unchanged_embedding(), resolve_device(self.device)
        settings, memory = self._settings(), parse_memory(self.memory)
        rows = self._rows(X, embedding)
        whitening = self._built.whitening(settings, device)
        passes = embedding.new(rows, settings.torch_dtype, device, memory)
        return passes if whitening is None else map(whitening.samples, passes)

    def _features(self, X: ArrayLike) -> Iterator[Tensor]:
        """The network's features of new samples, pass by pass."""
        for Z in self._inputs(X):
            yield self.network_.transform(Z, self._settings().sharpness)

    def _scores(self, X: ArrayLike) -> tuple[Tensor, Readout]:
        """Scores of all samples, (n, k), and the read-out that gave them."""
        settings = self._settings()
        settings.components(self._fitted_moments().n_features)
        scores = []
        # Features first: a pass through streamed layers gives the last moments for nothing.
        for Z in self._features(X):
            readout = self._built.readout(self.network_, settings)
            scores.append(readout.scores(Z).cpu())
        return torch.cat(scores), readout

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
