"""Model files of every estimator: the same commands do the same with all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import estimators
from redunet.features import Flatten
from tests.own_data import IMAGES, SHAPE, WORDS, done, refused, write_npz

pytestmark = pytest.mark.usefixtures("one_thread")

N = len(IMAGES)
ALL, EVEN, ODD = range(N), range(0, N, 2), range(1, N, 2)
NAMES = ["nearest-mean", "linear-discriminant", "quadratic-discriminant", "ridge", "air", "ranpac"]


def made(name: str, rows: Any, **settings: Any) -> Any:
    """What the library makes of rows."""
    model: Any = estimators.estimator_named(name)(**settings, features=Flatten(SHAPE))
    return model.fit(IMAGES[rows], WORDS[rows])


def saved(model: Any, path: Path) -> bytes:
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_the_files_of_every_estimator(name: str, tmp_path: Path) -> None:
    one, other, whole = tmp_path / "one", tmp_path / "other", tmp_path / "library"
    even, odd = write_npz(tmp_path / "even", EVEN), write_npz(tmp_path / "odd", ODD)
    done("learn", one, even, "--estimator", name)
    done("learn", other, odd, "--estimator", name)
    assert one.read_bytes() == saved(made(name, EVEN), whole)
    done("merge", one, other, "--out", tmp_path / "both")
    model = made(name, ALL)
    assert (tmp_path / "both").read_bytes() == saved(model, whole)
    done("learn", one, odd)
    assert one.read_bytes() == whole.read_bytes()

    found = json.loads(done("evaluate", one, even, odd, "--json").stdout)
    assert found["accuracy"] == np.mean(model.predict(IMAGES) == WORDS)
    done("predict", one, even, "--scores", "--out", tmp_path / "labels.csv")
    rows = (tmp_path / "labels.csv").read_text().splitlines()[1:]
    assert len(rows) == len(EVEN)
    assert [row.split(",")[1] for row in rows] == model.predict(IMAGES[EVEN]).tolist()
    best = [float(row.split(",")[2]) for row in rows]
    np.testing.assert_allclose(best, model.predict_proba(IMAGES[EVEN]).max(axis=1), atol=1e-6)

    assert json.loads(done("verify", one, "--json").stdout)["estimator"] == name
    assert f"Estimator: {name}." in done("verify", one).stdout
    done("unlearn", one, odd)
    assert one.read_bytes() == saved(made(name, EVEN), whole)
    done("forget", one, "cat")
    rest = np.array([row for row in EVEN if WORDS[row] != "cat"])
    assert one.read_bytes() == saved(made(name, rest), whole)


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    data, model = write_npz(tmp_path / "all", ALL), tmp_path / "model"
    assert refused("learn", model, data, "--estimator", "svm") == (
        "expected an estimator among redunet, nearest-mean, linear-discriminant, ridge, "
        "quadratic-discriminant, pairwise-discriminant, air, fecam, klda, ranpac, slda, "
        "shift-invariant, "
        "got 'svm'"
    )
    assert refused("learn", model, data, "--estimator", "ncm", "--set", "n_layers=3") == (
        "expected settings of nearest-mean, its features or its input, got 'n_layers': its own are "
        "none"
    )
    assert not model.exists()
    done("learn", model, data, "--estimator", "ridge")
    assert "exists and keeps the settings that it was made with: leave out estimator" in refused(
        "learn", model, data, "--estimator", "ridge"
    )
    done("learn", tmp_path / "network", data, "--set", "n_layers=1", "--set", "n_components=2")
    said = refused("merge", tmp_path / "network", model, "--out", tmp_path / "both")
    assert said == (
        f"{tmp_path / 'network'} and {model}: expected a ReduNetClassifier to merge, got Ridge"
    )
