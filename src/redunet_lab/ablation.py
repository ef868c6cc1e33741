"""A network with each of its parts alone and with all combinations of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from redunet.core.readouts import READOUTS
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.settings import resolve_device
from redunet.progress import Progress, silent
from redunet_lab.experiment import NETWORK, Experiment
from redunet_lab.methods import NO_LAYERS
from redunet_lab.streams import pooled
from redunet_lab.vectors import Vectors

OF_ANY_CLASSES = tuple(name for name in READOUTS if name != "pairwise")
"""Read-outs that every recipe is tried with; pairs, which grow with the square of the classes, only
where they are the recipe's own."""

WHITENING = 0.01
LAYERS = {"n_layers": 1, "step": 0.3, "step_kind": "relative"}
"""Values of a part where the network itself has none of it."""
PAPER_STEP = {"step": 0.5, "step_decay": 0.933, "step_kind": "absolute"}

FEATURE_STEPS = {"sqrt": "roots", "mirrored": "mirror images"}
"""Steps of a feature map that can be left out, and their names in tables."""


def variants(experiment: Experiment, n_pixels: int | None = None) -> list[Experiment]:
    """The experiment with each part alone, and with all combinations of them.

    Whitening and layers are each put in or left out, with every read-out, on
    the same features; beside these, pixels in place of the features, alone and
    with all else unchanged, each of several kinds of features by itself, the
    first of several maps, the features without roots and without mirror images,
    and the paper's step.
    What differs in its read-out alone stands together. Where there are no more
    pixels than components, pixels have the usual number of components.
    """
    plan = experiment.plan
    found = []
    if plan.features != "pixels":
        too_many = n_pixels is not None and (plan.n_components or 0) >= n_pixels
        usual = {"n_components": None} if too_many else {}
        pixels = experiment.changed({"features": "pixels", "n_ensemble": 1, **usual})
        found += [pixels.changed(NO_LAYERS), pixels]
    if len(plan.kinds) > 1:
        found += [experiment.changed({"features": kind}) for kind in plan.kinds]
    if plan.n_ensemble > 1:
        found.append(experiment.changed({"n_ensemble": 1}))
    found += [experiment.changed({name: False}) for name in FEATURE_STEPS if getattr(plan, name)]
    whitening = WHITENING if plan.whitening is None else plan.whitening
    layers: Mapping[str, Any] = {} if plan.n_layers else LAYERS
    found += [
        experiment.changed({"whitening": rho, "readout": readout, **depth})
        for rho in (None, whitening)
        for depth in ({"n_layers": 0}, layers)
        for readout in READOUTS
        if readout in (plan.readout, *OF_ANY_CLASSES)
    ]
    if plan.n_layers:
        found.append(experiment.changed(PAPER_STEP))
    return list(dict.fromkeys(found))


def check_variants(shared: Vectors) -> None:
    """Raise an error before the work where a variant cannot be built."""
    n_pixels = _n_pixels(shared)
    for one in variants(shared.experiment, n_pixels):
        one.components(n_pixels if one.plan.features == "pixels" else shared.n_features)


def ablation(
    shared: Vectors, model: ReduNetClassifier, progress: Progress = silent
) -> list[dict[str, Any]]:
    """The accuracy of each variant after the last task, for a record."""
    x_test, y_test = pooled(shared.tasks, "test")
    every = variants(shared.experiment, _n_pixels(shared))
    rows: list[dict[str, Any]] = []

    def tell() -> None:
        progress(f"variant {len(rows) + 1} of {len(every)}", len(rows) / len(every))

    for features, group in groupby(every, _features):
        tell()
        ones = list(group)
        if features == _features(shared.experiment):
            vectors, d = shared.of(x_test), shared.n_features
            reader = shared.experiment.estimator(None, shared.device, shared.memory)
            reader.remember(model.moments_)
        else:
            mapped = ones[0].features(shared.tasks, resolve_device(shared.device))
            reader = ones[0].estimator(mapped, shared.device, shared.memory)
            reader.fit(*pooled(shared.tasks, "train"))
            vectors, d = x_test, reader.moments_.n_features
        for one in ones:
            tell()
            labels = reader.set_params(**one.plan.network().to_dict()).predict(vectors)
            rows.append(_row(one, shared.experiment, d, float(np.mean(labels == y_test))))
    return rows


def _n_pixels(shared: Vectors) -> int:
    return int(np.prod(shared.tasks[0].data.x_train.shape[1:]))


def _features(experiment: Experiment) -> Sequence[Any]:
    """The settings of a variant that decide its feature map."""
    return tuple(experiment.feature_settings.values())


def _row(one: Experiment, whole: Experiment, d: int, accuracy: float) -> dict[str, Any]:
    network = {key: one.model_settings[key] for key in NETWORK}
    if one.plan.readout == "subspace":
        network["n_components"] = one.components(d)
    return {
        "recipe": one == whole,
        "features": one.plan.features,
        "without": [
            words
            for name, words in FEATURE_STEPS.items()
            if getattr(whole.plan, name) and not getattr(one.plan, name)
        ],
        "n_maps": one.plan.n_ensemble,
        "n_features": d,
        **network,
        "accuracy": accuracy,
    }
