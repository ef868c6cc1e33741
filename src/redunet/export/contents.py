"""What an exported file holds, and what that reveals of the data."""

from __future__ import annotations

from redunet.estimators import (
    ClosedForm,
    EnsembleClassifier,
    Estimator,
    PairwiseDiscriminant,
    ReduNetClassifier,
)
from redunet.export.program import Form
from redunet.features import held_of_data

_READOUTS = {
    "subspace": "the leading directions of each class after the last layer",
    "coding": "the inverse second moment of each class after the last layer, and its count",
    "discriminant": "weights and an offset for each class",
    "regression": "weights and an offset for each class",
    "quadratic": "the mean of each class after the last layer, and its covariance averaged with "
    "those of similar classes, within the directions that tell classes apart",
    "pairwise": "weights and an offset for each pair of classes",
}


def held_by(model: Estimator, form: Form) -> tuple[str, ...]:
    """What a file of a model holds, in words.

    The operator of a class in a layer is Q_j = α_j Σ_j (I + α_j Σ_j)⁻¹, so it determines
    Σ_j / n_j, the second moment there, up to rounding. Nothing is said of single samples that
    the second moments do not say.
    """
    if isinstance(model, EnsembleClassifier):
        each = _of_model(_member(model), next(iter(form.members), form))
        n = len(model.moments_.sizes)
        held = ["labels", *(f"for each of {n} groups of features: {words}" for words in each)]
    else:
        held = ["labels", *_of_model(model, form)]
    of_data = held_of_data(model.feature_map_)
    if model.feature_map_ is not None:
        held.append(f"the feature map{f', with {of_data}' if of_data else ''}")
    return tuple(held)


def _of_model(model: Estimator, form: Form) -> list[str]:
    held = []
    if isinstance(model, ReduNetClassifier):
        if model.whitening is not None:
            held.append("the pooled covariance within classes, as a whitening map")
        if form.blocks:
            held.append(
                f"operators of {len(form.blocks)} layers, which determine each class's second "
                f"moment there up to its count"
            )
        held.append(_READOUTS[model.readout])
        if model.sharpness_kind == "absolute" and form.blocks:
            held.append("how counts of classes compare, in the memberships")
    elif isinstance(model, PairwiseDiscriminant):
        held.append(_READOUTS["pairwise"])
    else:
        held.append(model.exported or "")
    return held


def _member(model: EnsembleClassifier) -> ReduNetClassifier | ClosedForm:
    """One of an ensemble's models, which all hold the like."""
    return next(model.members())


def revealed(model: Estimator, layers: int) -> str | None:
    """What a file with so many layers tells of each class as exactly as the model does."""
    if isinstance(model, EnsembleClassifier):
        return revealed(_member(model), layers)
    if isinstance(model, ReduNetClassifier):
        return "second moment" if layers or model.readout == "coding" else None
    found: str | None = model.revealed
    return found
