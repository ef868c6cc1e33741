"""Model files that earlier versions wrote: they load, label the same, and save to the same bytes.

`tests/fixtures/models` holds one small file for each feature map, each kind of setting and each
closed-form estimator, all learnt from a corner of scikit-learn's digits, and in `labels.json` the
labels that the version which wrote them gave to those samples.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier
from redunet.estimators import CLOSED_FORM

FOLDER = Path(__file__).parents[1] / "fixtures" / "models"
FILES = sorted(FOLDER.glob("*.safetensors"))
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_earlier_files_load_label_and_save_as_before(path: Path, tmp_path: Path) -> None:
    kind: Any = ReduNetClassifier
    if path.stem.startswith("estimator-"):
        kind = CLOSED_FORM[path.stem.removeprefix("estimator-")]
    model = kind.load(path)
    model.device = "cpu"
    assert model.predict(samples(path.stem)).tolist() == LABELS[path.stem]
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
