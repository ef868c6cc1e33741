"""Settings that cannot work are named; those that can are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from redunet import ReduNetClassifier, from_recipe
from redunet.estimators import LinearDiscriminant
from redunet.estimators.inspection import diagnostics
from tests.own_data import done


@pytest.mark.parametrize(
    ("load", "words"),
    [(load_wine, "12 dim.* 13"), (load_breast_cancer, "28 dim.* 30"), (load_iris, "3 dim.* 4")],
)
def test_subspaces_that_cover_nearly_all_features(load: Any, words: str) -> None:
    X, y = load(return_X_y=True)
    (line,) = diagnostics(ReduNetClassifier().fit(X, y))
    pattern = words.replace("dim.*", "dimensions cover nearly all of")
    assert line.startswith(f"subspaces of {pattern} features")
    assert line.endswith("take the recipe tables, for those of an encoder vectors")
    assert diagnostics(from_recipe("tables", X).fit(X, y)) == []
    assert diagnostics(LinearDiscriminant().fit(X, y)) == []


def test_classes_of_the_same_samples_cannot_be_told_apart() -> None:
    X, y = load_digits(return_X_y=True)
    assert diagnostics(ReduNetClassifier().fit(X, y)) == []
    copies = np.concatenate([X, X[y == 3]]), np.concatenate([y, np.full((y == 3).sum(), 10)])
    (line,) = diagnostics(ReduNetClassifier().fit(*copies))
    assert line.startswith("samples of class 3 lie as near to the subspace of 10 ")
    assert diagnostics(ReduNetClassifier().fit(X[y == 3], y[y == 3])) == []


def test_learn_says_so(tmp_path: Path) -> None:
    frame = load_wine(as_frame=True).frame
    frame.to_csv(tmp_path / "wine.csv", index=False)
    words = ("learn", tmp_path / "w", tmp_path / "wine.csv", "--label", "target")
    assert "subspaces of 12 dimensions cover nearly all of 13" in done(*words).stderr
    other = ("learn", tmp_path / "t", tmp_path / "wine.csv", "--label", "target")
    assert "subspaces" not in done(*other, "--recipe", "tables").stderr
