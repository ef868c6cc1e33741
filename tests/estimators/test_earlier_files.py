"""Model files that earlier versions wrote: they load, label the same, and save as if learnt now.

`tests/fixtures/models` holds one small file for each feature map, each kind of setting and each
closed-form estimator, all of format version 1 and learnt from a corner of scikit-learn's digits,
and in `labels.json` the labels that the version which wrote them gave to those samples. The folder
`version-2` has those of them that have classes held by columns, as they are saved since.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier
from redunet.estimators import storage
from redunet_lab.closed_forms import CLOSED_FORMS

FOLDER = Path(__file__).parents[1] / "fixtures" / "models"
FILES = sorted(FOLDER.glob("*.safetensors"))
BY_COLUMNS = sorted(FOLDER.glob("version-2/*.safetensors"))
LABELS = json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))


def samples(name: str) -> Any:
    digits = load_digits()
    rows = np.flatnonzero(digits.target < 3)[:60]
    images = digits.images[rows].astype("uint8")[:, 1:7, 1:7]
    if name == "gaussian-lift-mean":
        return np.stack([images, images[:, ::-1], images[:, :, ::-1]], -1)
    if name == "named-columns":
        return pd.DataFrame(images.reshape(60, 36) * 1.0, columns=[f"p{i}" for i in range(36)])
    return images.reshape(60, -1)


def test_there_is_a_file_for_every_label_list() -> None:
    assert sorted(path.stem for path in FILES) == sorted(LABELS)


def targets(name: str) -> Any:
    digits = load_digits().target
    names = ["zero", "one", "two"] if name == "default-words" else [0, 1, 2]
    return np.array(names)[digits[digits < 3][:60]]


def loaded(path: Path) -> Any:
    kind: Any = ReduNetClassifier
    if path.stem.startswith("estimator-"):
        kind = CLOSED_FORMS[path.stem.removeprefix("estimator-")]
    model = kind.load(path)
    model.device = "cpu"
    return model


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_earlier_files_load_label_as_before_and_save_as_if_learnt_now(
    path: Path, tmp_path: Path
) -> None:
    assert storage.version(path) == 1
    model = loaded(path)
    assert model.predict(samples(path.stem)).tolist() == LABELS[path.stem]
    model.save(tmp_path / "again")
    clone(model).fit(samples(path.stem), targets(path.stem)).save(tmp_path / "now")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "now").read_bytes()
    now = FOLDER / "version-2" / path.name
    # Where no class has a low rank, the file is the same as ever.
    assert (tmp_path / "now").read_bytes() == (now if now in BY_COLUMNS else path).read_bytes()


@pytest.mark.parametrize("path", BY_COLUMNS, ids=lambda path: path.stem)
def test_files_with_columns_load_label_and_save_as_before(path: Path, tmp_path: Path) -> None:
    assert storage.version(path) == 2
    model = loaded(path)
    assert model.moments_ == loaded(FOLDER / path.name).moments_
    assert model.predict(samples(path.stem)).tolist() == LABELS[path.stem]
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_classes_of_both_forms_are_among_them() -> None:
    held = {path.stem: storage.load(path)[0]["n_columns"].tolist() for path in BY_COLUMNS}
    assert held == {
        "gaussian-lift": [21, 19, 20],
        "patch-filters": [40, 19, 40],
        "patch-filters-kmeans": [40, 19, 40],
        "scattering": [21, 19, 20],
        "together": [21, 19, 20],
    }
