"""ReduNetClassifier: the scikit-learn face of the network."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet.core.calibration import probabilities
from redunet.core.cascade import Cascade, OutputFunction, close, same_label, same_label_and_close
from redunet.core.network import ReduNet
from redunet.core.readouts import Readout, scores_to_compare
from redunet.core.whitening import Whitening
from redunet.estimators import self_labelling
from redunet.estimators.base import MomentEstimator
from redunet.estimators.checks import column_names
from redunet.estimators.predictor import Predictor
from redunet.estimators.protocol import Transforms
from redunet.estimators.rejection import Calibration, checked_share, with_unknown
from redunet.estimators.settings import (
    InputSettings,
    RunSettings,
    Settings,
    parse_memory,
)
from redunet.estimators.tuning import Tuning, tune
from redunet.features import FeatureMap
from redunet.progress import Progress, silent
from redunet.validation import documented


@documented(Settings, InputSettings, RunSettings)
class ReduNetClassifier(Transforms, MomentEstimator):
    """A white-box network for classes that arrive one after another.

    What is remembered of the data is the count, the sum and the second moment
    of each class, as exact integers. The network is computed from them in
    closed form when it is next needed. So the model after any number of
    `partial_fit` calls equals the one fitted on everything at once, whatever
    the order and the batches, and `forget`, `unlearn` and `merge` are exact.

    Column names are part of the input that is agreed on with the first call, like
    the number of features: all samples that are learnt or withdrawn have the same
    names, or none of them has any, and `forget` leaves them. So they never depend
    on the order. Samples to predict may come without names, with a warning.

    Parameters
    ----------
    {settings}
    features : feature map, default=None
        A fixed map from raw samples to feature vectors, see `redunet.features`;
        None takes the samples as they are.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : ClassMoments
        All that is remembered of samples that were learnt with their labels.
    self_labelled_ : ClassMoments, or None
        The same of samples that the model labelled itself.
    network_ : ReduNet
        Built from the moments when it is first asked for.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where the input had named columns.
    tuning_ : Tuning
        After `tune`: what was tried, and what was chosen.

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

    `set_params` after `fit` keeps the moments: settings are tried without another pass over the
    samples, and the model is the one that `fit` would give. Only ``features``, ``normalize`` and
    ``input_range``, which the moments depend on, ask for a new `fit`.

    >>> model = ReduNetClassifier(n_layers=5).fit(X[:1000], y[:1000])
    >>> learnt = model.moments_
    >>> for n_components in (2, 4, 8, 16):
    ...     model = model.set_params(n_components=n_components)
    ...     print(n_components, round(model.score(X[1000:1400], y[1000:1400]), 2))
    2 0.96
    4 0.97
    8 0.98
    16 0.99
    >>> model.moments_ is learnt
    True
    """

    tuning_: Tuning
    poor_score = True  # x and −x span one line: classes on two sides of the origin can coincide

    def __init__(
        self,
        n_layers: int = Settings.n_layers,
        eps: float = Settings.eps,
        step: float = Settings.step,
        step_decay: float = Settings.step_decay,
        step_kind: str = Settings.step_kind,
        sharpness: float = Settings.sharpness,
        sharpness_kind: str = Settings.sharpness_kind,
        n_components: int | None = Settings.n_components,
        whitening: float | None = Settings.whitening,
        readout: str = Settings.readout,
        ridge: float = Settings.ridge,
        temperature: float | None = Settings.temperature,
        normalize: str = InputSettings.normalize,
        input_range: tuple[float, float] | None = InputSettings.input_range,
        features: FeatureMap | None = None,
        dtype: str = Settings.dtype,
        device: str = RunSettings.device,
        memory: str | int = RunSettings.memory,
        exact: bool = RunSettings.exact,
        tol: float | None = Settings.tol,
    ) -> None:
        self.n_layers = n_layers
        self.eps = eps
        self.step = step
        self.step_decay = step_decay
        self.step_kind = step_kind
        self.sharpness = sharpness
        self.sharpness_kind = sharpness_kind
        self.n_components = n_components
        self.whitening = whitening
        self.readout = readout
        self.ridge = ridge
        self.temperature = temperature
        self.normalize = normalize
        self.input_range = input_range
        self.features = features
        self.dtype = dtype
        self.device = device
        self.memory = memory
        self.exact = exact
        self.tol = tol

    def predict(self, X: ArrayLike, reject: float | None = None) -> NDArray[Any]:
        """The class of each sample.

        Unless ``exact``, a coarse network answers where its estimated error, with a safety
        factor, is too small to change the label. That labels are those of the whole network is
        tested, not proved: see docs/exactness.md.

        Parameters
        ----------
        X : array-like of shape (n, d)
        reject : float, default=None
            The share of samples of known classes that may be rejected, so that samples of unknown
            classes are: those of a `novelty` above `rejection_threshold`. None rejects nothing.

        Returns
        -------
        ndarray of shape (n,)
            With ``reject``, an array of objects: labels, and None for a sample that is rejected.
            None is never a label, whatever the classes are called.
        """
        share = None if reject is None else checked_share(reject)
        predictor = self._predictor()
        labels = np.asarray(predictor.state.labels)
        if share is None:
            scores = predictor.answer(X, scores_to_compare, same_label)
            predicted: NDArray[Any] = labels[scores.argmax(dim=1).numpy()]
            return predicted
        scores, novelty = predictor.answer_and_novelty(X, scores_to_compare, same_label)
        rejected = novelty > predictor.rejection_threshold(share)
        return with_unknown(labels[scores.argmax(dim=1).numpy()], rejected.numpy())

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The score of each class by the read-out; the highest wins.

        "subspace" gives minus the residual from each class's subspace, "coding"
        minus the nats that the sample adds to each class's code, "discriminant"
        and "quadratic" the log-likelihood of each class up to a constant,
        "regression" the prediction of each class's one-hot target, and "pairwise"
        the log-probability that the class wins against each other one.

        Returns
        -------
        ndarray of shape (n, k), or (n,) for two classes
            For two classes, how much larger the second one's score is. Unless
            ``exact``, estimated to be within 0.001 of the sample's largest score, at least of 1.
        """
        scores = self._predictor().answer(X, lambda one: one.scores, same_label_and_close)
        if scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
        decisions: NDArray[np.float64] = scores.numpy()
        return decisions

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each class: ndarray of shape (n, k), rows of sum 1.

        softmax(scores / T), with the scores of `decision_function` and T as
        ``temperature_`` has it. Unless ``exact``, estimated to be within 0.001 of those by the
        whole network with the same T.
        """
        predictor = self._predictor()
        T = predictor.temperature()

        def probabilities_of(readout: Readout) -> OutputFunction:
            return lambda Z: probabilities(readout.scores(Z), T)

        found: NDArray[np.float64] = predictor.answer(
            X, probabilities_of, same_label_and_close
        ).numpy()
        return found

    def tune(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        budget: str | int = "60s",
        search: Mapping[str, Sequence[Any]] | None = None,
        progress: Progress = silent,
    ) -> Self:
        """Choose network, read-out and regularisation on validation data.

        Nothing is learnt: all candidates are made from the moments. The present settings
        are the first candidate. They are kept, but for the temperature, unless another one
        is more accurate by more than 1.5 standard errors of the difference, so the model is never
        less accurate on these samples than before. From 100 samples on, ``temperature`` is set
        to that of the least log loss on them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Samples that were not learnt; others say nothing about new ones.
        y : array-like of shape (n,)
            Labels that the model has learnt.
        budget : str or int, default="60s"
            A time such as "60s" or "5min", or a number of candidates, which gives the same
            answer each time. It cuts the list of candidates, the most promising of
            which come first; the present settings are looked at in any case.
        search : mapping from setting to values, default=None
            Try all combinations of these instead, such as ``{"eps": [1, 4]}``.
        progress : callable, default=nothing
            Told what begins, and which share of the whole is done.

        Returns
        -------
        self
            With the settings chosen, and ``tuning_``: what was tried.
        """
        found = tune(self, X, y, budget=budget, search=search, progress=progress)
        self.set_params(**found.chosen)
        self.tuning_ = found
        return self

    def transform(self, X: ArrayLike) -> Any:
        """The network's features, on the unit sphere: ndarray of shape (n, d).

        Unless ``exact``, estimated to be within 0.001.
        """
        features = self._predictor().answer(X, lambda _: lambda Z: Z, close).numpy()
        return self._in_container(features, X)

    def memberships(self, X: ArrayLike) -> NDArray[Any]:
        """Estimated membership in each class at each layer: ndarray of shape (layers, n, k)."""
        memberships: NDArray[Any] = self._predictor().memberships(X).numpy()
        return memberships

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Distances of samples from every class: nats that they add to the code of the nearest one.

        log(1 + d/ε² · xᵀ (I + α_j Σ_j)⁻¹ x), the smallest over the classes, of the features that
        were learnt, before whitening and layers, and a constant beside them: see
        `redunet.core.rejection`. Compare it with `rejection_threshold`.

        Returns
        -------
        ndarray of shape (n,)
        """
        novelty: NDArray[np.float64] = self._predictor().novelty(X).numpy()
        return novelty

    def rejection_threshold(self, reject: float) -> float:
        """The novelty that a share of the samples of known classes is above.

        After `calibrate_rejection`, that share of the validation samples. Otherwise an estimate
        from the moments alone, see docs/unknown.md: within a factor of two of the share in most
        cases, and no rejection at all where classes have a handful of samples.

        Parameters
        ----------
        reject : float
            Between 0 and 1.

        Returns
        -------
        float
        """
        share = checked_share(reject)
        return self._predictor().rejection_threshold(share)

    def calibrate_rejection(self, X: ArrayLike) -> Self:
        """Choose thresholds for ``predict(X, reject=...)`` by validation samples.

        At most 1,000 numbers are kept of them, and saved with the model: quantiles of their
        novelty. They are about the model as it is now: whatever is learnt or withdrawn later
        drops them, and thresholds come from the moments again.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Samples of known classes that were not learnt. Labels are not needed.

        Returns
        -------
        self
        """
        predictor = self._predictor()
        calibration = Calibration.of(predictor.settings.eps, predictor.novelty(X))
        self._state = replace(predictor.state, calibration=calibration)
        return self

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
            The value in y that stands for no label, such as scikit-learn's -1: these samples are
            learnt by `learn_unlabelled`, after the others. None means that every sample has a
            label, and -1 is a class like any other.

        Returns
        -------
        self
        """
        if unlabelled is None:
            return super().partial_fit(X, y, classes)
        trial = copy.copy(self)  # so that all of it is learnt, or nothing after an error
        known = self._state_or_none()
        labelled, others = self_labelling.split(X, y, unlabelled, known)
        if labelled is not None:
            MomentEstimator.partial_fit(trial, *labelled, classes)
        if others is not None:
            trial.learn_unlabelled(others)
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
        names = column_names(X) if feature_names is None else tuple(feature_names)
        rows = self._rows_to_change(state, X, names)
        self._check_parameters(state.moments.n_features)
        memory = parse_memory(self.memory)
        own = self_labelling.learnt(state, rows, self._settings().eps, self._device(), memory)
        return self._set_moments(state, state.moments, own)

    def forget_unlabelled(self) -> Self:
        """Withdraw all samples that the model labelled itself, as if it had never seen them.

        Returns
        -------
        self
        """
        state = self._fitted()
        return self if state.self_labelled is None else self._set_moments(state, state.moments)

    @property
    def network_(self) -> ReduNet:
        """The network of the moments and settings as they are now."""
        return self._predictor().built().network

    @property
    def cascade_(self) -> Cascade:
        """The network with the coarse ones that answer for it, and what became of the samples."""
        return self._predictor().cascade()

    @property
    def whitening_(self) -> Whitening | None:
        """The map before the first layer, of the moments and settings as they are now."""
        return self._predictor().built().whitening

    @property
    def readout_(self) -> Readout:
        """The read-out of the moments and settings as they are now."""
        return self._predictor().readout()

    @property
    def temperature_(self) -> float:
        """T of the probabilities: ``temperature``, or what the moments tell where that is None.

        Then it is found on samples drawn from the moments, by every layer with ``exact``, and
        otherwise by the most accurate coarse network, which may change the last of its digits.
        """
        return self._predictor().temperature()

    def _predictor(self) -> Predictor:
        """One call's view of the state and the parameters as they are now, checked."""
        state = self._fitted()
        self._check_pipeline(state)
        run = self._once("run", lambda: RunSettings.of(self))
        memory = self._once("memory", lambda: parse_memory(run.memory))
        name = type(self).__name__
        return Predictor(name, state, self._settings(), run.device, memory, run.exact)

    @classmethod
    def name(cls) -> str:
        """The name that `redunet learn --estimator` takes."""
        return "redunet"

    def own_settings(self) -> dict[str, Any]:
        """The parameters of network and read-out, by name, checked."""
        return self._settings().to_dict()

    def _settings(self) -> Settings:
        """The parameters of network and read-out, checked."""
        return self._once("settings", lambda: Settings.of(self))

    def _check_parameters(self, n_features: int) -> None:
        self._once("run", lambda: RunSettings.of(self))
        self._once(f"components of {n_features}", lambda: self._settings().components(n_features))

    def _plain_settings(self) -> dict[str, Any]:
        return dict(self._once("saved", lambda: self._settings().to_state()))

    @classmethod
    def _made_with(cls, values: dict[str, Any]) -> Self:
        return cls(**Settings.from_state(values).to_dict())
