"""Choosing settings on training data; test data is not even passed in.

Two rules. *Held out*: the network is built from all but some samples of each
class, which are then labelled. *The paper's*: the network is built from
everything and the training samples' estimated memberships at the last layer
are compared with their labels; the samples held out are then added to what
was learnt of the others, which is exact. Both use the same samples, at
most a stated number of each class. Closed-form methods know the first rule only.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.core.readings import Reading, Readings
from redunet.errors import SettingsError
from redunet.estimators.candidates import OF_READOUT
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.ensemble import EnsembleClassifier
from redunet.progress import Progress, silent
from redunet.validation import whole_number
from redunet_lab.vectors import vectors_of


def held_out_rows(y: NDArray[Any], per_class: int, seed: int) -> NDArray[np.bool_]:
    """Which samples are held out: ``per_class`` of each class, but at most a third of it."""
    if per_class < 1:
        raise SettingsError(f"expected at least one sample of each class, got {per_class}")
    mask = np.zeros(len(y), dtype=bool)
    for index, label in enumerate(np.unique(y)):
        rows = np.flatnonzero(y == label)
        draw = np.random.RandomState([seed, index]).permutation(rows)
        mask[draw[: min(per_class, len(rows) // 3)]] = True
    if not mask.any():
        raise SettingsError("expected at least three samples in some class to hold one out")
    return mask


def network_candidates(
    model: ReduNetClassifier,
    x_train: NDArray[Any],
    y_train: NDArray[Any],
    mask: NDArray[np.bool_],
    combinations: Sequence[Mapping[str, Any]],
    n_components: Sequence[int],
    paper_rule: bool,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Combinations of settings with the accuracies that networks of them reach.

    Parameters
    ----------
    model : ReduNetClassifier
        Whose other settings all candidates share; it is not changed.
    x_train, y_train : ndarray
    mask : ndarray of bool
        The samples that are held out.
    combinations : sequence of mappings from setting to value
        Networks and features are kept from one to the next where they are the same.
    n_components : sequence of int
        Tried for each network; those not below the number of features are not.
    paper_rule : bool
        Whether to compute the paper's rule too, which takes a second network.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.
    """
    x_out, y_out = x_train[mask], y_train[mask]
    # Read-outs share features, so these must be those of the whole network.
    rest = type(model)(**model.get_params(deep=False) | {"exact": True})
    rest.fit(x_train[~mask], y_train[~mask])
    whole = copy.copy(rest).partial_fit(x_out, y_out) if paper_rule else None
    candidates: list[dict[str, Any]] = []
    built: dict[str, Any] | None = None
    for number, settings in enumerate(combinations, 1):
        progress(f"candidate {number} of {len(combinations)}", (number - 1) / len(combinations))
        rest.set_params(**settings)
        of_network = {key: settings[key] for key in settings if key not in OF_READOUT}
        if of_network != built:
            built, Z = of_network, torch.from_numpy(rest.transform(x_out))
            estimated = whole and _estimated(whole.set_params(**of_network), x_out, y_out)
        for components, labels in _labels(rest, Z, n_components).items():
            accuracy = float(np.mean(labels == y_out))
            candidates.append(
                {**settings, "n_components": components}
                | {"held_out_accuracy": accuracy, "estimated_label_accuracy": estimated}
            )
    return candidates


def check_own_settings(model: ClosedForm, grid: Mapping[str, Sequence[Any]]) -> None:
    """Raise a SettingsError where a method has no such settings to search."""
    known = model.own_settings()
    if not known:
        raise SettingsError(f"expected a method with settings to choose, got {model.kind!r}")
    unknown = [name for name in grid if name not in known]
    if unknown or not grid:
        got = repr(unknown[0]) if unknown else "none"
        raise SettingsError(f"expected settings among {', '.join(known)} to search, got {got}")


def closed_form_candidates(
    model: ClosedForm,
    x_train: NDArray[Any],
    y_train: NDArray[Any],
    mask: NDArray[np.bool_],
    combinations: Sequence[Mapping[str, Any]],
    held_out: tuple[NDArray[Any], NDArray[Any]] | None = None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Combinations of settings with the accuracies that a closed-form method reaches.

    Parameters
    ----------
    model : ClosedForm
        Whose other settings all candidates share; it is not changed.
    x_train, y_train, mask, combinations, progress
        As for `network_candidates`.
    held_out : (ndarray, ndarray), default=None
        Validation samples and labels to evaluate on, in place of training samples.
    """
    params = model.get_params(deep=False)
    for settings in combinations:
        type(model)(**params).set_params(**settings).own_settings()  # a mistake shows first
    x_out, y_out = held_out or (x_train[mask], y_train[mask])
    rest, learnt = type(model)(**params), None
    candidates = []
    for number, settings in enumerate(combinations, 1):
        progress(f"candidate {number} of {len(combinations)}", (number - 1) / len(combinations))
        own = rest.set_params(**settings).own_map(1)
        through = None if own is None else str(own.to_state())
        if number == 1 or through != learnt:
            rest.fit(x_train[~mask], y_train[~mask])
            learnt = through
            answering, samples = _over_vectors(rest, x_out) if own is None else (rest, x_out)
        accuracy = float(np.mean(answering.set_params(**settings).predict(samples) == y_out))
        candidates.append({**settings, "held_out_accuracy": accuracy})
    return candidates


def _over_vectors(model: ClosedForm, X: NDArray[Any]) -> tuple[ClosedForm, NDArray[Any]]:
    """A model of the same moments without their feature map, and what this map makes of samples."""
    params = model.get_params(deep=False)
    vectors = vectors_of(model.features, X, model.device)
    return type(model)(**{**params, "features": None}).remember(model.moments_), vectors


def found_by(
    candidates: list[dict[str, Any]],
    mask: NDArray[np.bool_],
    per_class: int,
    tried: str,
    seed: int,
    paper_rule: bool = False,
) -> dict[str, Any]:
    """What a search gives: candidates, best first, and on which samples they were compared.

    Of equals the one with fewer components comes first, then the first in the grid.
    """
    best_first = sorted(
        candidates, key=lambda c: (-c["held_out_accuracy"], c.get("n_components", 0))
    )
    chosen = {"held_out": best_first[0]}
    if paper_rule:
        # The paper's rule cannot tell numbers of components apart: held-out accuracy does.
        chosen["paper"] = max(best_first, key=lambda c: c["estimated_label_accuracy"])
    rules = " (held_out), all (paper)" if paper_rule else ""
    return {
        "chosen_on": f"{int(mask.sum())} training samples, at most {per_class} of each class",
        "trained_on": f"{int((~mask).sum())} other training samples{rules}",
        "tried": tried,
        "seed": seed,
        "chosen": chosen,
        "candidates": best_first,
    }


def on_validation(
    held_out: tuple[NDArray[Any], NDArray[Any]], y_train: NDArray[Any]
) -> dict[str, Any]:
    """Words for what was compared on which samples, where validation samples were given."""
    return {
        "chosen_on": f"{len(held_out[1])} validation samples",
        "trained_on": f"{len(y_train)} training samples",
    }


def combinations_of(
    grid: Mapping[str, Sequence[Any]], most: int | None, seed: int
) -> tuple[list[dict[str, Any]], str]:
    """The settings to try, and words for how many they are.

    What leaves the network as it is varies first, so its features are computed once for all of it;
    otherwise they are in the order of the grid.
    """
    if most is not None:
        whole_number("most", most, least=1)
    grid = dict(sorted(grid.items(), key=lambda item: item[0] in OF_READOUT))
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if most is None or len(every) <= most:
        return every, f"all {len(every)} combinations"
    drawn = np.random.RandomState([seed, most]).permutation(len(every))[:most]
    words = f"{most} of {len(every)} combinations, drawn at random"
    return [every[index] for index in sorted(drawn)], words


def labels_by_components(
    model: ReduNetClassifier | EnsembleClassifier, X: NDArray[Any], n_components: Sequence[int]
) -> dict[int, NDArray[Any]]:
    """Labels of nearest subspace for several numbers of components, by one network.

    Those not below the number of features are left out. Other read-outs have no
    components: their labels stand under the first number.
    """
    if model.own_settings()["readout"] != "subspace":
        return {n_components[0]: model.predict(X)}
    wanted = [r for r in n_components if r < model.moments_.n_features]
    return {r: model.set_params(n_components=r).predict(X) for r in wanted}


def _labels(
    model: ReduNetClassifier, Z: Tensor, n_components: Sequence[int]
) -> dict[int, NDArray[Any]]:
    """Labels for several numbers of components from the network's features, (n, d)."""
    network, d = model.network_, model.moments_.n_features
    wanted = [r for r in n_components if r < d]
    if model.readout != "subspace":
        wanted = [n_components[0]]
    if not wanted:
        raise SettingsError(
            f"expected numbers of components below n_features = {d}, got {list(n_components)}"
        )
    readings = Readings(network, [Reading(model.readout, r, model.ridge) for r in wanted])
    found = readings.labels(Z.to(network.last_means().device))
    return {r: model.classes_[one.cpu().numpy()] for r, one in zip(wanted, found, strict=True)}


def _estimated(model: ReduNetClassifier, X: NDArray[Any], y: NDArray[Any]) -> float:
    """Accuracy of the most likely membership at the last layer."""
    last = model.memberships(X)[-1]
    return float(np.mean(model.classes_[last.argmax(axis=1)] == y))
