"""What a reproduction would cost here, from the rate of matrix products, measured for a moment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from redunet.estimators.settings import resolve_device
from redunet.experiments.experiment import Experiment

_SIZES = {"mnist": (784, 1000), "cifar10": (5120, 1000)}
"""Features, and test samples of a class."""

MEASURED = {"cpu": 1024, "cuda": 4096}
"""Rows and columns of the matrices that are multiplied to measure the rate, by device."""

_MEASURING_S = 1.0

_OVER_PRODUCTS = 1.7
"""How much longer layers take than their operations would at the rate of products."""

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
        ``layers``, ``features``, ``measured``, the size of the matrices that were multiplied,
        ``seconds``, if each test sample goes through each layer, ``memory_bytes``.
    """
    n_layers, dtype = (experiment.model_settings[key] for key in ("n_layers", "dtype"))
    d, n_test = _SIZES[experiment.data]
    kind = "cpu" if resolve_device(device) == "cpu" else "cuda"
    rate = _operations_a_second(MEASURED[kind], resolve_device(device), dtype)
    a_task = [
        _OVER_PRODUCTS * n_layers * _operations(k, d, k * n_test) / rate for k in (2, 4, 6, 8, 10)
    ]
    more = (_JOINT_PASSES * joint + _RATES_PASSES * len(seeds)) * a_task[-1]
    itemsize = 8 if dtype == "float64" else 4
    return {
        "layers": n_layers,
        "features": d,
        "measured": MEASURED[kind],
        "seconds": len(seeds) * sum(a_task) + more,
        "memory_bytes": int(1e9 + 10 * d * d * (8 + 4 * itemsize) + 10 * n_test * d * itemsize),
    }


def _operations(k: int, d: int, n: int) -> float:
    """Operations that build one layer of k classes in d dimensions, and move n samples by it."""
    return float((4 * k + 1) * d**3 + 2 * (k + 1) * n * d**2)


def _operations_a_second(size: int, device: str, dtype: str) -> float:
    """The best rate of matrix products within a second: other programs may take the rest."""
    A = torch.full((size, size), 0.5, dtype=getattr(torch, dtype), device=device)
    out, fastest, until = torch.empty_like(A), float("inf"), time.perf_counter() + _MEASURING_S
    torch.mm(A, A, out=out)  # warms up
    while fastest == float("inf") or time.perf_counter() < until:
        if A.is_cuda:
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        torch.mm(A, A, out=out)
        if A.is_cuda:
            torch.cuda.synchronize(device)
        fastest = min(fastest, time.perf_counter() - start)
    return 2 * size**3 / fastest
