"""Where the depth ends by itself on MNIST, and what the layers beyond would have changed."""

from __future__ import annotations

import time
import warnings
from typing import Any

import pytest

from redunet import ReduNetClassifier, StreamingWarning
from redunet.errors import ReduNetError
from redunet_lab.datasets import load

SAMPLES = 1000


def test_depth(report: Any) -> None:
    try:
        data = load("mnist")
    except ReduNetError as error:
        pytest.skip(str(error))
    X = data.x_train.reshape(len(data.x_train), -1)
    model = ReduNetClassifier(n_layers=200, memory="0MB").fit(X, data.y_train)
    # Training samples: nothing is chosen by what is found here, and no test data is needed.
    new = X[:SAMPLES]
    warnings.simplefilter("ignore", StreamingWarning)
    whole: Any = None
    for n_layers, tol in ((200, None), (100, None), (200, 1e-3), (200, 1e-4), (200, 1e-5)):
        model.set_params(n_layers=n_layers, tol=tol)
        start = time.perf_counter()
        labels = model.predict(new)
        seconds = time.perf_counter() - start
        rates = model.network_.rates()
        whole = labels if whole is None else whole
        report(
            f"MNIST, {n_layers} layers, tol {tol}",
            measured=seconds,
            other=f"{len(rates)} layers, ΔR {rates[-1].delta_R:.6f} before the last, "
            f"{int((labels != whole).sum())} of {SAMPLES} labels of training samples differ",
        )
