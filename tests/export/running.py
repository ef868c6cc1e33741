"""Digits with names that are words, and exported files of them, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from redunet.estimators import Estimator

X, Y = load_digits(return_X_y=True)
NAMES = np.array(["zéro", "one", "two", "3", "four", "five", "six", "seven", "=8", "n i n e"])[Y]


def opened(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def outputs(path: Path, samples: NDArray[Any]) -> list[NDArray[Any]]:
    """Label, scores and probabilities by ONNX Runtime."""
    found: list[NDArray[Any]] = opened(path).run(None, {"samples": samples.astype(np.float64)})
    return found


def same_labels(model: Estimator, path: Path, samples: NDArray[Any]) -> NDArray[Any]:
    """The probabilities by a file, once its labels are known to be the model's, row by row too."""
    label, scores, probabilities = outputs(path, samples)
    assert label.tolist() == model.predict(samples).tolist()
    assert scores.shape == probabilities.shape == (len(samples), len(model.classes_))
    session = opened(path)
    for row in range(0, len(samples), max(1, len(samples) // 7)):
        alone = session.run(None, {"samples": samples[row : row + 1].astype(np.float64)})
        assert alone[0].tolist() == [label[row]]
        np.testing.assert_allclose(alone[2], probabilities[row : row + 1], atol=1e-4)
    return probabilities
