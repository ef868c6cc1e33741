"""scikit-learn estimators over class moments, incremental and withdrawable to the last bit.

`ReduNetClassifier` builds a network from the moments; the others are closed-form
methods with the same face: `NearestMean`, `LinearDiscriminant`,
`QuadraticDiscriminant`, `PairwiseDiscriminant` and `Ridge`. `EnsembleClassifier` averages the
scores of several models. Installed packages add estimators by entry points of the group
``redunet.estimators``. `load` reads files of all of them.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Any, TypeAlias

from redunet import registry
from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.base import MomentEstimator
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.closed_forms import (
    LinearDiscriminant,
    NearestMean,
    PairwiseDiscriminant,
    QuadraticDiscriminant,
    Ridge,
)
from redunet.estimators.ensemble import EnsembleClassifier
from redunet.estimators.model_file import Model

__all__ = [
    "CLOSED_FORM",
    "ClosedForm",
    "EnsembleClassifier",
    "Estimator",
    "LinearDiscriminant",
    "MomentEstimator",
    "NearestMean",
    "PairwiseDiscriminant",
    "QuadraticDiscriminant",
    "ReduNetClassifier",
    "Ridge",
    "closed_forms",
    "estimator_named",
    "kind_of",
    "load",
    "register",
]

Estimator: TypeAlias = Any
"""A `MomentEstimator` of any kind: what more it can do, such as `tune`, is asked by `hasattr`."""

CLOSED_FORM: dict[str, type[Any]] = {
    estimator.kind: estimator
    for estimator in (
        NearestMean,
        LinearDiscriminant,
        Ridge,
        QuadraticDiscriminant,
        PairwiseDiscriminant,
    )
}
"""Closed-form estimators by ``kind``, the name in model files and records."""


def closed_forms() -> dict[str, type[Any]]:
    """All closed-form estimators by ``kind``, with those that installed packages add."""
    for entry in entry_points(group="redunet.estimators"):
        if entry.name not in CLOSED_FORM:
            register(entry.load())
    return CLOSED_FORM


def register(estimator: type[ClosedForm]) -> type[ClosedForm]:
    """Add a closed-form estimator, for `load` and the command line; also a class decorator.

    Parameters
    ----------
    estimator : subclass of ClosedForm
        Whose ``kind`` is not taken.

    Returns
    -------
    class
        The same.
    """
    if CLOSED_FORM.setdefault(estimator.kind, estimator) is not estimator:
        raise SettingsError(
            f"expected a new kind of estimator, but {estimator.kind!r} is taken: rename it"
        )
    return estimator


def names() -> dict[str, type[Estimator]]:
    """Estimators by the names that people use, such as "linear-discriminant"."""
    elsewhere = [registry.find("estimators", kind) for kind in registry.names("estimators")]
    others: list[type[ClosedForm]] = [*closed_forms().values(), *elsewhere]
    return {"redunet": ReduNetClassifier, **{one.name(): one for one in others}}


def estimator_named(name: str) -> type[Estimator]:
    """The estimator of a name such as "linear-discriminant", or of a kind such as "lda"."""
    known: dict[str, type[Estimator]] = {**names(), **closed_forms()}
    if name not in known:
        raise SettingsError(
            f"expected an estimator among {', '.join(names())}, got {name!r}"
            f"{did_you_mean(name, names())}"
        )
    return known[name]


def load(
    path: str | os.PathLike[str], device: str = "auto", memory: str | int = "2GB"
) -> ReduNetClassifier | ClosedForm:
    """Read a model file of any estimator.

    Parameters
    ----------
    path : path of the file
    device : str, default="auto"
    memory : str or int, default="2GB"
        Of a network. Both are the machine's, and not in the file.

    Returns
    -------
    ReduNetClassifier or a closed-form estimator
        Whichever wrote the file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from redunet.estimators import Ridge, load
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> Ridge().fit([[3.0, 4.0], [1.0, 0.0]], [0, 1]).save(path)
    >>> load(path)
    Ridge()
    """
    read = Model.load(path, _checked)
    model = kind_of(read.settings)._restored(read)
    here = {"device": device, "memory": memory}
    own = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in here.items() if name in own})
    found: ReduNetClassifier | ClosedForm = model
    return found


def _checked(settings: Any) -> dict[str, Any]:
    """The settings in a file, checked."""
    checked: dict[str, Any] = kind_of(settings)._made_with(settings)._plain_settings()
    return checked


def kind_of(settings: Any) -> type[Estimator]:
    """The estimator whose settings a file has; those of a network name no kind."""
    if not isinstance(settings, dict):
        raise SettingsError(f"expected settings by their names, got {settings!r}")
    kind = settings.get("kind")
    if kind is None:
        return ReduNetClassifier
    if kind == EnsembleClassifier.kind:
        return EnsembleClassifier
    if isinstance(kind, str) and kind in registry.names("estimators"):
        found: type[Estimator] = registry.find("estimators", kind)
        return found
    if kind not in CLOSED_FORM and kind not in closed_forms():
        raise SettingsError(
            f"expected an estimator among {', '.join(CLOSED_FORM)}, got {kind!r}: "
            f"register it with redunet.estimators.register first"
        )
    return CLOSED_FORM[kind]
