"""EnsembleClassifier: the mean of the scores of several models, each of a group of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from redunet.core import calibration
from redunet.core.grid import unit_rows
from redunet.core.readouts import Readout
from redunet.errors import ModelFileError, SettingsError
from redunet.estimators.base import MomentEstimator
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.closed_forms import PairwiseDiscriminant, Ridge
from redunet.estimators.group_moments import GroupMoments
from redunet.estimators.model_file import Model
from redunet.estimators.offloading import allocate_here
from redunet.estimators.protocol import copied
from redunet.estimators.settings import InputSettings, parse_memory, resolve_device
from redunet.estimators.state import State
from redunet.features import Concatenate, FeatureMap
from redunet.validation import whole_number


@dataclass(frozen=True, eq=False)
class OfNetwork:
    """The scores of a member with layers.

    Parameters
    ----------
    network : ReduNetClassifier
        That has learnt the group.
    """

    network: ReduNetClassifier

    def scores(self, Z: Tensor) -> Tensor:
        """The score of each class, (n, k), of vectors of the group, (n, d)."""
        scores = torch.from_numpy(self.network.decision_function(Z.cpu().numpy()))
        if scores.ndim == 1:  # of two classes, how much higher the second one is
            scores = torch.stack([-scores / 2, scores / 2], dim=1)
        return scores.to(Z.device)


@dataclass(frozen=True, eq=False)
class MeanScores:
    """The mean of the scores of all members.

    Parameters
    ----------
    moments : GroupMoments
    members : tuple of Readout
        What is kept of each.
    to_probabilities : callable
        From scores to rows of sum 1.
    """

    moments: GroupMoments
    members: tuple[Readout, ...]
    to_probabilities: Callable[[Tensor], Tensor]

    def scores(self, Z: Tensor) -> Tensor:
        """The score of each class, (n, k), of feature vectors, (n, d); the highest wins."""
        pairs = zip(self.members, self.moments.parts(Z), strict=True)
        every = [one.scores(unit_rows(part)).to(torch.float64) for one, part in pairs]
        return torch.stack(every).mean(dim=0)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Rows of sum 1, (n, k), from scores, (n, k)."""
        return self.to_probabilities(scores)

    @property
    def temperature(self) -> float | None:
        """T, where probabilities are softmax(scores / T); None if the members are closed forms."""
        softmax = self.to_probabilities
        return softmax.temperature if isinstance(softmax, _Softmax) else None


class EnsembleClassifier(ClosedForm):
    """Several models, each of its own group of features, whose scores are averaged.

    Groups of features are the maps that stand side by side in ``features``, such as patches with
    draws of their own. Each group is put on the unit sphere, has moments of its own, and a model
    is made of these. Nothing is remembered across groups, so M groups of d features take M d²
    numbers a class, and M times the work of one; a single model of all of them would take
    (M d)². The mean of several scores is more accurate than any of them, as far as they err
    apart.

    As for every estimator here, learning in any order and batches, `forget`, `unlearn` and
    `merge` are exact to the last bit.

    Parameters
    ----------
    estimator : estimator, default=None
        What is made of each group: a `ReduNetClassifier`, or one in closed form. None means
        ``ReduNetClassifier()``. What it says of features, input, device and memory is of no
        meaning.
    groups : tuple of int, default=None
        How many features each group has. None takes the maps of ``features``, where it is a
        `redunet.features.Concatenate`, or without it one group of all.
    normalize, input_range, features, device, memory
        As for `ReduNetClassifier`; memory is for all layers of all members.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        The classes seen, sorted.
    moments_ : GroupMoments
        All that is remembered.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet import EnsembleClassifier
    >>> from redunet.estimators import Ridge
    >>> from redunet.features import RandomReLU, Concatenate
    >>> X, y = load_digits(return_X_y=True)
    >>> maps = Concatenate(tuple(RandomReLU(seed, (64,), 300) for seed in range(3)))
    >>> model = EnsembleClassifier(Ridge(), features=maps).partial_fit(X[:900], y[:900])
    >>> model.moments_.sizes, round(model.score(X[900:], y[900:]), 2)
    ((300, 300, 300), 0.96)
    """

    kind = "ensemble"
    _remembers = GroupMoments
    _of_pipeline = "features, normalize, input_range or groups"

    def __init__(
        self,
        estimator: ReduNetClassifier | ClosedForm | None = None,
        groups: tuple[int, ...] | None = None,
        normalize: str = "sample",
        input_range: tuple[float, float] | None = None,
        features: FeatureMap | None = None,
        device: str = "auto",
        memory: str | int = "2GB",
    ) -> None:
        super().__init__(normalize, input_range, features, device)
        self.estimator = estimator
        self.groups = groups
        self.memory = memory

    @classmethod
    def name(cls) -> str:
        """The name on the command line."""
        return cls.kind

    @property
    def moments_(self) -> Any:
        """All that is remembered, group by group."""
        return _of_groups(super().moments_)

    @property
    def solution_(self) -> MeanScores:
        """The members' scores, for the moments and settings as they are now."""
        return self._solution(self._fitted(), resolve_device(self.device))

    def members(self) -> Iterator[ReduNetClassifier | ClosedForm]:
        """A model of each group, one after another: it takes vectors of that group's features."""
        for moments in _of_groups(self._fitted().total).groups:
            yield self._member().remember(moments)

    def alone(self, group: int) -> ReduNetClassifier | ClosedForm:
        """The model of one group behind that group's own map: it takes samples as they are."""
        state = self._fitted()
        features = state.pipeline.features
        if not isinstance(features, Concatenate):
            raise SettingsError(
                f"expected an {type(self).__name__} of several feature maps, got one of groups of "
                f"vectors: take its members()"
            )
        alone: ReduNetClassifier | ClosedForm = self._member().set_params(
            features=features.parts[group]
        )
        return alone.remember(_of_groups(state.total).groups[group])

    def own_settings(self) -> dict[str, Any]:
        """The estimator's parameters and the groups, by name, checked."""
        member = self._member()
        return {
            "groups": None if self.groups is None else _checked_sizes(self.groups),
            "estimator": member.name(),
            **member.own_settings(),
        }

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of the estimator may be given by their own names."""
        own, deep = self.get_params(deep=False), {}
        for name, value in params.items():
            deep[name if name in own or "__" in name else f"estimator__{name}"] = value
        if self.estimator is None and any(name.startswith("estimator__") for name in deep):
            self.estimator = ReduNetClassifier()
        super().set_params(**deep)
        return self

    def _member(self) -> ReduNetClassifier | ClosedForm:
        """A model of one group that has learnt nothing."""
        made: Any = ReduNetClassifier() if self.estimator is None else self.estimator
        if not isinstance(made, MomentEstimator) or not made.learns_vectors:
            raise SettingsError(
                f"expected a ReduNetClassifier or an estimator in closed form for each group, got "
                f"{type(made).__name__}"
            )
        made = copied(made)
        if isinstance(made, ClosedForm) and made.own_map(1) is not None:
            raise SettingsError(
                f"expected an estimator without a feature map of its own, got {made.name()}"
            )
        usual = InputSettings().to_dict()
        found: ReduNetClassifier | ClosedForm = made.set_params(
            features=None, device=self.device, **usual
        )
        return found

    def _sizes(self) -> tuple[int, ...]:
        """Of the groups that the parameters name; none where they name none."""
        sizes = self.own_settings()["groups"]
        if sizes is None and isinstance(self.features, Concatenate):
            sizes = [part.n_features for part in self.features.parts]
        return tuple(sizes or ())

    def _embed(self, state: State, device: str) -> Callable[[Any], Any]:
        return lambda part: state.pipeline.before_length(part, device)

    def _no_moments(self, n_features: int) -> Any:
        sizes = self._sizes() or (n_features,)
        if sum(sizes) != n_features:
            raise SettingsError(
                f"expected groups of {n_features} features in all, got {list(sizes)}: "
                f"set groups to how many features each map gives"
            )
        return GroupMoments.empty(sizes, allocate_here())

    def _full_pipeline(self, n_columns: int) -> Any:
        if self.normalize != "sample":
            raise SettingsError(
                f"expected normalize='sample' for an {type(self).__name__}, which puts each group "
                f"of features on the unit sphere, got {self.normalize!r}"
            )
        return super()._full_pipeline(n_columns)

    @classmethod
    def _restored(cls, read: Model) -> Self:
        model = super()._restored(read)
        if not model._fits(read.state):
            raise ModelFileError(
                "expected moments of the groups of features in the file, got others: the file is "
                "damaged"
            )
        return model

    def _check_parameters(self, n_features: int) -> None:
        super()._check_parameters(n_features)
        parse_memory(self.memory)

    def _check_pipeline(self, state: State) -> None:
        super()._check_pipeline(state)
        if not self._fits(state):
            raise SettingsError(
                f"{self._of_pipeline} changed since the model was fitted: "
                f"set them back, or fit again"
            )

    def _fits(self, state: State) -> bool:
        """Whether the moments are of the groups that the parameters name, where they name some."""
        return self._sizes() in ((), _of_groups(state.moments).sizes)

    def _solution(self, state: State, device: str) -> MeanScores:
        settings = self.own_settings()
        key = device, parse_memory(self.memory), *settings.items()
        return state.cache.get("solution", key, lambda: self._solved(_of_groups(state.total)))

    def _solved(self, moments: GroupMoments) -> MeanScores:
        """One member after another, of which no more is kept than answers take."""
        memory = parse_memory(self.memory) // len(moments.sizes)
        found: list[Readout] = []
        for table in moments.groups:
            member: Any = _without_network(self._member()).remember(table)
            if isinstance(member, ClosedForm):
                found.append(member.solution_)
            elif member.n_layers or member.whitening is not None:
                found.append(OfNetwork(member.set_params(memory=memory)))
            else:
                found.append(member.readout_)
        if isinstance(self._member(), ReduNetClassifier):
            return MeanScores(moments, tuple(found), _Softmax(self._member(), moments))
        return MeanScores(moments, tuple(found), member.solution_.probabilities)

    def _plain_settings(self) -> dict[str, Any]:
        groups = self.own_settings()["groups"]
        member = self._member()._plain_settings()
        return {"kind": self.kind, "groups": groups, "estimator": member}

    @property
    def poor_score(self) -> bool:  # type: ignore[override]
        """Whether its members have one."""
        return self._member().poor_score

    @classmethod
    def _made_with(cls, values: dict[str, Any]) -> Self:
        from redunet.estimators import kind_of  # which knows this class, too

        if values.get("kind") != cls.kind or set(values) != {"kind", "groups", "estimator"}:
            raise SettingsError(f"expected a model of {cls.__name__}")
        groups, member = values["groups"], values["estimator"]
        return cls(kind_of(member)._made_with(member), None if groups is None else tuple(groups))


def _checked_sizes(groups: Any) -> list[int]:
    try:
        sizes = [whole_number("groups", size, least=1) for size in groups]
    except (TypeError, SettingsError):
        sizes = []
    if not sizes:
        raise SettingsError(
            f"expected groups as numbers of features such as (300, 300), got {groups!r}"
        )
    return sizes


def _without_network(member: ReduNetClassifier | ClosedForm) -> ReduNetClassifier | ClosedForm:
    """The closed form that a network without layers is, which takes less memory."""
    if not isinstance(member, ReduNetClassifier) or member.n_layers or member.whitening is not None:
        return member
    closed = _READOUTS.get(member.readout)
    return member if closed is None else closed(ridge=member.ridge, device=member.device)


_READOUTS: dict[str, Any] = {"regression": Ridge, "pairwise": PairwiseDiscriminant}


class _Softmax:
    """Probabilities softmax(scores / T), with T the mean of the members' own."""

    def __init__(self, member: Any, moments: GroupMoments) -> None:
        self._member, self._moments = member, moments

    @cached_property
    def temperature(self) -> float:
        every = [copied(self._member).remember(t).temperature_ for t in self._moments.groups]
        return float(sum(every) / len(every))

    def __call__(self, scores: Tensor) -> Tensor:
        return calibration.probabilities(scores, self.temperature)


def _of_groups(moments: Any) -> GroupMoments:
    if not isinstance(moments, GroupMoments):
        raise SettingsError("expected moments of groups of features, got others: fit again")
    return moments
