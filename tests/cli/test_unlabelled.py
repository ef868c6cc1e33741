"""Samples without labels on the command line: rejected, or labelled by the model itself."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier
from redunet.estimators import load
from tests.own_data import done, refused

pytestmark = pytest.mark.usefixtures("one_thread")

X, Y = load_digits(return_X_y=True)
X, Y = X[Y < 6], Y[Y < 6]
HALF = np.arange(len(Y)) % 2 == 0
SET = ("--set", "n_layers=1")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of the digits 0 to 3."""
    known = HALF & (Y < 4)
    np.savez(tmp_path / "learn.npz", X=X[known], y=Y[known])
    np.savez(tmp_path / "known.npz", X=X[~HALF & (Y < 4)])
    np.savez(tmp_path / "unknown.npz", X=X[Y > 3])
    done("learn", tmp_path / "model", tmp_path / "learn.npz", *SET)
    return tmp_path / "model"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_say_what_is_rejected(model: Path, tmp_path: Path) -> None:
    plain = done("predict", model, tmp_path / "unknown.npz")
    assert plain.stdout.splitlines()[0] == "sample,label,score"
    result = done("predict", model, tmp_path / "unknown.npz", "--reject", "0.05")
    assert "was estimated from the model alone" in result.stderr
    rows = table(result.stdout)
    assert [*rows[0]] == ["sample", "label", "score", "rejected", "novelty"]
    rejected = [row for row in rows if row["rejected"] == "yes"]
    assert len(rejected) > 0.8 * len(rows)
    assert {row["label"] for row in rejected} == {""}
    assert {row["label"] for row in rows if row["rejected"] == "no"} <= {"0", "1", "2", "3"}
    network = ReduNetClassifier.load(model)
    answers = network.predict(X[Y > 3], reject=0.05)
    assert [row["rejected"] == "yes" for row in rows] == [label is None for label in answers]
    threshold = network.rejection_threshold(0.05)
    assert all((float(row["novelty"]) > threshold) == (row["rejected"] == "yes") for row in rows)


def test_validation_data_sets_the_share(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    said = done("calibrate", model, tmp_path / "known.npz").stdout
    assert "What `predict --reject` rejects, by 350 samples" in said
    result = done("predict", model, tmp_path / "known.npz", "--reject", "0.1")
    assert "estimated" not in result.stderr
    rows = table(result.stdout)
    assert np.mean([row["rejected"] == "yes" for row in rows]) == pytest.approx(0.1, abs=0.01)
    found = json.loads(done("calibrate", model, tmp_path / "known.npz", "--json").stdout)
    assert [row["reject"] for row in found["thresholds"]] == [0.01, 0.05, 0.1]
    assert done("verify", model).stdout.count("format 3") == 1
    np.savez(tmp_path / "more.npz", X=X[:9], y=Y[:9] % 4)
    done("learn", model, tmp_path / "more.npz")
    done("unlearn", model, tmp_path / "more.npz")
    assert model.read_bytes() == before


def test_a_model_labels_samples_itself_and_takes_it_back(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    said = done("learn", model, tmp_path / "known.npz", "--unlabelled").stdout
    own = load(model).self_labelled_
    assert own is not None
    n = sum(own.counts)
    assert n > 250
    assert f"Labelled and learnt {n} of 350 samples without labels, of 4 classes." in said
    assert f"370 samples, {n} more that it labelled itself" in said
    found = json.loads(done("inspect", model, "--json").stdout)
    assert found["samples"] == 370
    assert found["self_labelled"] == sum(row["self_labelled"] for row in found["classes"]) == n
    assert f"{n} samples more were labelled by the model itself" in done("inspect", model).stderr
    assert f"{n} labelled by itself, 64 features, format 3" in done("verify", model).stdout
    said = done("forget", model, "--unlabelled").stdout
    assert f"Unlearnt {n} samples that the model had labelled itself." in said
    assert model.read_bytes() == before


def test_columns_have_to_be_those_of_the_model(tmp_path: Path) -> None:
    names = [f"p{index}" for index in range(64)]

    def write(name: str, rows: np.ndarray, labels: bool, columns: list[str] = names) -> Path:
        lines = [",".join([*columns, *(["label"] if labels else [])])]
        for row in rows:
            cells = [f"{value:g}" for value in X[row]] + ([str(Y[row])] if labels else [])
            lines.append(",".join(cells))
        (tmp_path / name).write_text("\n".join(lines))
        return tmp_path / name

    rows = np.flatnonzero(Y < 2)
    done("learn", tmp_path / "model", write("some.csv", rows[:40], True), *SET)
    done("learn", tmp_path / "model", write("rest.csv", rows[40:140], False), "--unlabelled")
    done("calibrate", tmp_path / "model", write("val.csv", rows[140:], False))
    assert load(tmp_path / "model").self_labelled_ is not None
    turned = write("turned.csv", rows[40:50], False, names[::-1])
    done("learn", tmp_path / "model", turned, "--unlabelled")  # put in order by name
    other = write("other.csv", rows[40:50], False, ["q", *names[1:]])
    assert "lacks 'p0'" in refused("learn", tmp_path / "model", other, "--unlabelled")


def test_what_cannot_be_is_refused_in_one_line(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "known.npz"
    assert "there is no" in refused("learn", tmp_path / "none", data, "--unlabelled")
    said = refused("learn", model, data, "--unlabelled", "--set", "eps=1")
    assert said == "expected no settings with --unlabelled, which is for a model that exists"
    assert "between 0 and 1" in refused("predict", model, data, "--reject", "5")
    assert "classes to remove, or --unlabelled, got neither" in refused("forget", model)
    assert "got both" in refused("forget", model, "1", "--unlabelled")
    done("learn", tmp_path / "lda", tmp_path / "learn.npz", "--estimator", "linear-discriminant")
    for words in (
        ("predict", tmp_path / "lda", data, "--reject", "0.05"),
        ("calibrate", tmp_path / "lda", data),
        ("learn", tmp_path / "lda", data, "--unlabelled"),
    ):
        assert "expected a model of the estimator redunet" in refused(*words)
    bad = X[:3].copy()
    bad[1, 2] = np.nan
    np.savez(tmp_path / "bad.npz", X=bad)
    assert "bad.npz, row 2" in refused("learn", model, tmp_path / "bad.npz", "--unlabelled")
