"""One version of a served model, the network that is built of it, and what its changes tell."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.estimators import Estimator
from redunet.features import held_of_data

Found = dict[str, Any]

REJECT = 0.05
"""The share of known samples beyond whose novelty a sample is shown as new."""

NO_FACTS: Found = {"delta_R": None, "threshold": None, "build_seconds": None}
"""The facts about a network, before there is one."""


@dataclass(frozen=True, eq=False)
class Version:
    """A model as it was at one moment.

    Parameters
    ----------
    model : Estimator
        Never changed.
    sha256 : str
        Of its file.
    number : int
        From 1, of this server.
    facts : dict
        What its network tells, once it is built.
    """

    model: Estimator
    sha256: str
    number: int
    facts: Found = field(default_factory=dict)


def can_reject(model: Estimator) -> bool:
    """Whether a model says how novel samples are."""
    return hasattr(model, "novelty")


def about_change(what: str, before: Version, now: Version) -> Found:
    """Describe a change for an event."""
    counts, old = now.model.class_counts_, before.model.class_counts_
    changed = {label: counts.get(label, 0) - old.get(label, 0) for label in {**old, **counts}}
    return {
        "what": what,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "version": now.number,
        "before": before.sha256,
        "sha256": now.sha256,
        "classes": [
            {"class": label, "samples": counts.get(label, 0), "change": n}
            for label, n in changed.items()
            if n
        ],
        "samples": sum(counts.values()),
    }


def built(model: Estimator) -> Found:
    """Build a network, so that no answer waits for it; give the facts about it."""
    start = time.perf_counter()
    probe = _probe(model)
    model.predict_proba(probe[:1])
    model.predict_proba(probe)
    facts = dict(NO_FACTS)
    if can_reject(model):
        model.novelty(probe)
        facts["delta_R"] = [rate.delta_R for rate in model.network_.rates()]
        facts["threshold"] = model.rejection_threshold(REJECT)
    facts["build_seconds"] = round(time.perf_counter() - start, 4)
    return facts


def notes_on(what: str, before: Estimator) -> list[str]:
    """Notes on what a withdrawal takes along, and what it does not reach."""
    if what not in ("forget", "unlearn"):
        return []
    notes, own, held = [], before.self_labelled_counts_, held_of_data(before.features)
    if own:
        notes.append(
            f"{sum(own.values()):,} samples that the model had labelled itself were withdrawn too"
        )
    if held is not None:
        notes.append(
            f"the feature map was learnt from data and stays as it is: what it holds of that data "
            f"({held}) is not withdrawn"
        )
    return notes


def _probe(model: Estimator) -> NDArray[np.float64]:
    """Samples that mean nothing, (64, d): what answers them is built then."""
    features = model.feature_map_
    images = features is not None and len(features.input_shape) > 1
    low, high = model.input_range or (0.0, 255.0 if images else 1.0)
    samples = np.random.RandomState(0).uniform(low, high, (64, model.n_features_in_))
    return samples.round() if images else samples  # pixels are whole numbers
