"""The model of `redunet serve --demo`: scikit-learn's digits, ready to be drawn and taught."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_digits

from redunet.estimators import ReduNetClassifier

NAME = "digits.safetensors"


def demo_model() -> ReduNetClassifier:
    """A model of all digits, with classes named "0" to "9" so that words fit beside them.

    The read-out by coding length weighs classes of few samples well: a class of one drawing, with
    its variants, is recognised beside classes of 180 samples.
    """
    X, y = load_digits(return_X_y=True)
    return ReduNetClassifier(n_layers=10, readout="coding").fit(X, y.astype(str))


def write_demo(path: Path) -> None:
    """Write that model to a file."""
    demo_model().save(path)
