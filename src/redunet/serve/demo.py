"""The model of `redunet serve --demo`: scikit-learn's digits, ready to be drawn and taught."""

from __future__ import annotations

from pathlib import Path

from redunet.datasets import load
from redunet.estimators import ReduNetClassifier

NAME = "digits.safetensors"


def demo_model() -> ReduNetClassifier:
    """A model of the training digits, with classes named "0" to "9" so that words fit beside them.

    The read-out by coding length weighs classes of few samples well: a class of one drawing, with
    its variants, is recognised beside classes of 120 samples.
    """
    digits = load("digits")
    X = digits.x_train.reshape(len(digits.x_train), -1)
    return ReduNetClassifier(n_layers=10, readout="coding").fit(X, digits.y_train.astype(str))


def write_demo(path: Path) -> None:
    """Write that model to a file."""
    demo_model().save(path)
