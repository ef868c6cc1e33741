"""What a reproduction would cost here, from layers that are built and applied for a moment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from redunet.estimators.classifier import ReduNetClassifier
from redunet.experiments.experiment import Experiment

_SIZES = {"mnist": (784, 1000), "cifar10": (5120, 1000)}
"""Features, and test samples of a class."""

_MEASURED_FEATURES = 512
"""A layer of more features is measured at this size, and the time extrapolated."""

_JOINT_PASSES, _RATES_PASSES = 2.5, 0.3
"""What the joint check and the rates cost, in evaluations of the last network."""


def estimate(
    experiment: Experiment, seeds: Sequence[int], device: str, joint: bool
) -> dict[str, Any]:
    """Seconds and memory of an experiment of the paper.

    Parameters
    ----------
    experiment : Experiment
    seeds, device, joint
        As for the command.

    Returns
    -------
    dict
        ``layers``, ``features``, ``measured_features``, ``seconds``, ``memory_bytes``.
    """
    n_layers, dtype = (experiment.model_settings[key] for key in ("n_layers", "dtype"))
    d, n_test = _SIZES[experiment.data]
    measured = min(d, _MEASURED_FEATURES)
    # As many samples to a feature as in the experiment: then building and moving scale alike.
    n_measured = n_test * measured // d
    two, ten = (_layer_seconds(k, measured, n_measured, device, dtype) for k in (2, 10))
    scale = n_layers * (d / measured) ** 3
    a_task = [scale * (two + (ten - two) * (k - 2) / 8) for k in (2, 4, 6, 8, 10)]
    more = (_JOINT_PASSES * joint + _RATES_PASSES * len(seeds)) * a_task[-1]
    itemsize = 8 if dtype == "float64" else 4
    return {
        "layers": n_layers,
        "features": d,
        "measured_features": measured,
        "seconds": len(seeds) * sum(a_task) + more,
        "memory_bytes": int(1e9 + 10 * d * d * (8 + 4 * itemsize) + 10 * n_test * d * itemsize),
    }


def _layer_seconds(k: int, d: int, n_test: int, device: str, dtype: str) -> float:
    """Seconds to build one layer of k classes in d dimensions and to move test samples by it."""
    draw = np.random.RandomState(0)
    per_class = d + d // 8  # enough for moments of full rank
    model = ReduNetClassifier(n_layers=1, dtype=dtype, device=device, memory=0)
    model.fit(draw.standard_normal((k * per_class, d)), np.repeat(np.arange(k), per_class))
    samples = draw.standard_normal((k * n_test, d))
    taken = []
    for n_layers in (1, 1, 3):  # the first one warms up
        start = time.perf_counter()
        model.set_params(n_layers=n_layers).transform(samples)
        taken.append(time.perf_counter() - start)
    return max(taken[2] - taken[1], 1e-6) / 2
