"""Contents of an exported file, and what they reveal of the data."""

from __future__ import annotations

from redunet.estimators import EnsembleClassifier, Estimator, ReduNetClassifier
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
    """The contents of a file of a model, in words.

    The operator of a class in a layer is Q_j = α_j Σ_j (I + α_j Σ_j)⁻¹, so it determines
    Σ_j / n_j, the second moment there, up to rounding. Nothing is said of single samples that
    the second moments do not say.
    """
    member = next(model.members()) if isinstance(model, EnsembleClassifier) else model
    held = [] if member is model else ["all of this for each group of features:"]
    if isinstance(member, ReduNetClassifier):
        if member.whitening is not None:
            held.append("the pooled covariance within classes, as a whitening map")
        if form.blocks:
            held.append(
                f"operators of {len(form.blocks)} layers, which determine each class's second "
                f"moment there up to its count"
            )
        held.append(_READOUTS[member.readout])
    else:
        held.append(str(member.exported))
    of_data = held_of_data(model.feature_map_)
    if model.feature_map_ is not None:
        held.append(f"the feature map{f', with {of_data}' if of_data else ''}")
    return ("labels", *held)


def revealed(model: Estimator, layers: int) -> str | None:
    """The moments of each class that a file with so many layers tells as exactly as the model."""
    if isinstance(model, EnsembleClassifier):
        return revealed(next(model.members()), layers)
    if isinstance(model, ReduNetClassifier):
        return "second moment" if layers or model.readout == "coding" else None
    found: str | None = model.revealed
    return found
