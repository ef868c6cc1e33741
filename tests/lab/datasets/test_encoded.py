"""Data sets of images as vectors of an encoder: made once, kept, and those of its weights only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from redunet.encoders import open_encoder
from redunet.encoders.fitting import fitted_arrays
from redunet.errors import DataError, SettingsError
from redunet_lab import datasets
from redunet_lab.datasets.dataset import Samples
from redunet_lab.experiment import Experiment
from tests.own_data import done
from tests.tiny_encoders import image_folder, text_folder

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small encoder of images, few digits, and an empty cache."""
    data = datasets.load("digits")
    rows = np.concatenate([np.flatnonzero(data.y_train == label)[:6] for label in range(4)])
    test = data.x_test[:9], data.y_test[:9] % 4
    few = Samples(data.x_train[rows], data.y_train[rows], *test, source="scikit-learn")
    monkeypatch.setitem(datasets.LOADERS, "digits", lambda folder: few)
    monkeypatch.setenv("REDUNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REDUNET_DATA", raising=False)
    return image_folder(tmp_path / "vit")


def test_images_are_encoded_once_and_kept(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = datasets.LOADERS["digits"](None)
    found = datasets.load(f"digits+{encoder}")
    assert (found.name, found.source) == ("digits+vit", "scikit-learn")
    assert found.x_train.shape == (24, 16)
    assert np.array_equal(found.y_test, images.y_test)
    vit = open_encoder(encoder)
    assert vit.image_shape == (20, 20, 3)
    direct = vit(fitted_arrays(images.x_train[:3], vit.image_shape))
    np.testing.assert_array_equal(found.x_train[:3], direct)
    (kept,) = (tmp_path / "cache").iterdir()
    assert kept.name == f"digits-vit-{vit.id.sha256[:8]}.npz"
    monkeypatch.setitem(datasets.LOADERS, "digits", None)  # not asked again
    again = datasets.load(f"digits+{encoder}")
    assert again.source == "cache"
    np.testing.assert_array_equal(again.x_test, found.x_test)


def test_vectors_of_other_weights_are_made_anew(encoder: Path, tmp_path: Path) -> None:
    first = datasets.load(f"digits+{encoder}")
    other = datasets.load(f"digits+{image_folder(tmp_path / 'other' / 'vit', seed=1)}")
    assert not np.array_equal(first.x_train, other.x_train)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_commands_take_the_name(encoder: Path, tmp_path: Path) -> None:
    assert (
        Experiment.of("cifar10+efficientnet-lite2").title == "CIFAR-10 through efficientnet-lite2"
    )
    words = ("--data", f"digits+{encoder}", "--set", "n_tasks=2", "--methods", "ncm,lda")
    said = done("compare", *words, "--out", tmp_path / "out").stdout
    assert "nearest mean" in said
    assert (tmp_path / "out" / "lda" / "seed-0" / "record.json").exists()


def test_what_cannot_be_encoded_is_refused(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="There is no data set 'digit'"):
        datasets.load("digit+efficientnet-lite2")
    with pytest.raises(DataError, match="expected an encoder among minilm, efficientnet-lite0"):
        datasets.load("digits+nothing")
    texts = text_folder(tmp_path / "bert")
    with pytest.raises(SettingsError, match="expected an encoder of images for digits, got bert"):
        datasets.load(f"digits+{texts}")
