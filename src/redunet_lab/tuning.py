"""Accuracies of settings on samples that were held out; test data is not even passed in.

Two rules. *Held out*: the model is learnt from all but some samples of each
class, which are then labelled. *The paper's*, of networks: the network is built
from everything and the training samples' estimated memberships at the last layer
are compared with their labels; the samples held out are then added to what
was learnt of the others, which is exact. Both use the same samples, at
most a stated number of each class.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import SettingsError
from redunet.estimators.candidates import OF_READOUT
from redunet.progress import Progress, silent
from redunet.validation import whole_number
from redunet_lab.runner import labels_by_reading
from redunet_lab.streams import drawn
from redunet_lab.vectors import vectors_of

Pair = tuple[NDArray[Any], NDArray[Any]]
"""Samples and labels."""


@dataclass(frozen=True, eq=False)
class Split:
    """Samples to learn from, and others to label."""

    train: Pair
    held_out: Pair
    words: Mapping[str, str]

    @classmethod
    def of(cls, x: NDArray[Any], y: NDArray[Any], per_class: int, seed: int) -> Split:
        """Training samples divided: ``per_class`` of each class held out, at most a third."""
        mask = held_out_rows(y, per_class, seed)
        words = {
            "chosen_on": f"{int(mask.sum())} training samples, at most {per_class} of each class",
            "trained_on": f"{int((~mask).sum())} other training samples",
        }
        return cls((x[~mask], y[~mask]), (x[mask], y[mask]), words)

    @classmethod
    def validated(cls, train: Pair, held_out: Pair) -> Split:
        """Training samples, and validation samples that were given beside them."""
        words = {
            "chosen_on": f"{len(held_out[1])} validation samples",
            "trained_on": f"{len(train[1])} training samples",
        }
        return cls(train, held_out, words)


def held_out_rows(y: NDArray[Any], per_class: int, seed: int) -> NDArray[np.bool_]:
    """A mask of ``per_class`` samples of each class, but at most a third of it."""
    if per_class < 1:
        raise SettingsError(f"expected at least one sample of each class, got {per_class}")
    mask = drawn(y, seed, lambda n: min(per_class, n // 3))
    if not mask.any():
        raise SettingsError("expected at least three samples in some class to hold one out")
    return mask


def candidates(
    model: Any,
    split: Split,
    combinations: Sequence[Mapping[str, Any]],
    n_components: Sequence[int] = (),
    paper_rule: bool = False,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Combinations of settings with the accuracies that a model reaches with them."""
    params = model.get_params(deep=False)
    for settings in combinations:
        type(model)(**params).set_params(**settings).own_settings()  # a mistake shows first
    x, y = split.held_out
    rest, learnt, found = type(model)(**params), None, []
    whole: Any = None
    for number, settings in enumerate(combinations, 1):
        progress(f"candidate {number} of {len(combinations)}", (number - 1) / len(combinations))
        rest.set_params(**settings)
        own = rest.own_map(1) if hasattr(rest, "own_map") else None  # networks have none
        through = None if own is None else str(own.to_state())
        if number == 1 or through != learnt:
            rest.fit(*split.train)
            learnt = through
            answering, samples = over_vectors(rest, x) if own is None else (rest, x)
            whole = copy.copy(rest).partial_fit(x, y) if paper_rule else None
        rules = {} if whole is None else _estimated(whole.set_params(**settings), x, y)
        readings = _readings(answering.set_params(**settings), n_components)
        for name, labels in labels_by_reading(answering, samples, readings).items():
            components = {"n_components": readings[name]} if readings else {}
            accuracy = {"held_out_accuracy": float(np.mean(labels == y))}
            found.append({**settings, **components, **accuracy, **rules})
    return found


def check_own_settings(model: Any, grid: Mapping[str, Sequence[Any]]) -> None:
    """Raise a SettingsError where a method has no such settings to search."""
    known = model.own_settings()
    if not known:
        raise SettingsError(f"expected a method with settings to choose, got {model.kind!r}")
    unknown = [name for name in grid if name not in known]
    if unknown or not grid:
        got = repr(unknown[0]) if unknown else "none"
        raise SettingsError(f"expected settings among {', '.join(known)} to search, got {got}")


def combinations_of(
    grid: Mapping[str, Sequence[Any]], most: int | None, seed: int
) -> tuple[list[dict[str, Any]], str]:
    """The settings to try, and words for how many they are.

    Settings of read-outs, which leave the network as it is, vary first; otherwise they are in
    the order of the grid.
    """
    if most is not None:
        whole_number("most", most, least=1)
    grid = dict(sorted(grid.items(), key=lambda item: item[0] in OF_READOUT))
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if most is None or len(every) <= most:
        return every, f"all {len(every)} combinations"
    rows = np.random.RandomState([seed, most]).permutation(len(every))[:most]
    words = f"{most} of {len(every)} combinations, drawn at random"
    return [every[index] for index in sorted(rows)], words


def over_vectors(model: Any, X: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """A model of the same moments without their feature map, and the vectors of samples by it."""
    params = model.get_params(deep=False)
    vectors = vectors_of(model.features, X, model.device)
    return type(model)(**{**params, "features": None}).remember(model.moments_), vectors


def _readings(model: Any, n_components: Sequence[int]) -> dict[str, int]:
    """The numbers of components to try of a network by name, of other read-outs a single one."""
    if not n_components:
        return {}
    if model.own_settings()["readout"] != "subspace":
        return {str(n_components[0]): n_components[0]}
    d = model.moments_.n_features
    if not any(r < d for r in n_components):
        raise SettingsError(
            f"expected numbers of components below n_features = {d}, got {list(n_components)}"
        )
    return {str(r): r for r in n_components if r < d}


def _estimated(model: Any, X: NDArray[Any], y: NDArray[Any]) -> dict[str, float]:
    """Accuracy of the most likely membership at the last layer."""
    last = model.memberships(X)[-1]
    labels = model.classes_[last.argmax(axis=1)]
    return {"estimated_label_accuracy": float(np.mean(labels == y))}
