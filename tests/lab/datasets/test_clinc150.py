"""CLINC150: texts checked, encoded once, kept; and run through the usual pipeline."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from redunet import DataError, FileAccessError
from redunet.encoders import Encoder, EncoderId
from redunet.encoders.base import Network
from redunet_lab.datasets import clinc150, load
from tests.own_data import done

pytestmark = pytest.mark.usefixtures("one_thread", "no_pictures")

PARTS = {"train": 60, "val": 12, "test": 24, "oos_train": 3, "oos_val": 2, "oos_test": 5}
INTENTS = [f"intent {index}" for index in range(6)]


def texts() -> dict[str, list[list[str]]]:
    return {
        part: [
            [f"{part} {row}", "oos" if part.startswith("oos") else INTENTS[row % 6]]
            for row in range(n)
        ]
        for part, n in PARTS.items()
    }


def vector(code: Tensor) -> Tensor:
    """A vector near that of a text's intent."""
    row, n = int(code[0]), 12
    generator = torch.Generator().manual_seed(row)
    noise = torch.randn(n, generator=generator)
    return torch.eye(n)[row % 6] + 0.1 * noise


class Counting:
    """Encoders that note what they were given."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, name: str) -> Encoder:
        def prepare(text: str) -> Tensor:
            self.seen.append(text)
            return torch.tensor([int(text.split()[-1])])

        own = EncoderId(name, hashlib.sha256(name.encode()).hexdigest())
        return Encoder(own, "texts", 12, lambda: Network(prepare, vector))


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counting:
    """A small file of texts in a folder, an empty cache, and an encoder that counts."""
    raw = json.dumps(texts()).encode()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data_full.json").write_bytes(raw)
    monkeypatch.setattr(clinc150, "SHA256", hashlib.sha256(raw).hexdigest())
    monkeypatch.setattr(clinc150, "PARTS", PARTS)
    monkeypatch.setenv("REDUNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REDUNET_DATA", raising=False)
    encoders = Counting()
    monkeypatch.setattr("redunet.encoders.open_encoder", encoders)
    return encoders


def test_texts_are_encoded_once_and_kept(encoders: Counting, tmp_path: Path) -> None:
    data = clinc150.load(tmp_path / "data")
    assert sorted(encoders.seen) == sorted(text for part in texts().values() for text, _ in part)
    assert (data.name, data.source) == ("clinc150", "folder")
    assert data.x_train.shape == (60, 12)
    assert data.x_train.dtype == np.float32
    assert data.y_val.tolist() == INTENTS * 2
    assert [len(x) for x in (data.x_oos_train, data.x_oos_val, data.x_oos_test)] == [3, 2, 5]
    np.testing.assert_array_equal(data.x_test[7], vector(torch.tensor([7])))
    encoders.seen.clear()
    again = clinc150.load(None)
    assert (again.source, encoders.seen) == ("cache", [])
    for field in clinc150.ARRAYS:
        assert np.array_equal(getattr(again, field), getattr(data, field))
    kept = next((tmp_path / "cache").iterdir())
    assert kept.name.startswith(f"clinc150-{clinc150.SHA256[:8]}-")
    (tmp_path / "vectors").mkdir()
    kept.rename(tmp_path / "vectors" / kept.name)
    assert clinc150.load(tmp_path / "vectors").source == "folder"
    assert encoders.seen == []


def test_vectors_of_other_weights_are_not_taken(
    encoders: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinc150.load(tmp_path / "data")
    encoders.seen.clear()
    monkeypatch.setattr(clinc150, "ENCODER", "another")
    assert clinc150.load(tmp_path / "data").source == "folder"
    assert len(encoders.seen) == sum(PARTS.values())
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_damaged_file_of_vectors_is_made_again(encoders: Counting, tmp_path: Path) -> None:
    data = clinc150.load(tmp_path / "data")
    kept = next((tmp_path / "cache").iterdir())
    raw = bytearray(kept.read_bytes())
    raw[len(raw) // 2] ^= 1
    kept.write_bytes(raw)
    with pytest.raises(
        FileAccessError, match=r"is damaged; no data folder is named .* Put data_fu"
    ):
        clinc150.load(None)
    again = clinc150.load(tmp_path / "data")
    assert np.array_equal(again.x_train, data.x_train)
    assert clinc150.load(None).source == "cache"


def test_other_texts_are_refused(encoders: Counting, tmp_path: Path) -> None:
    file = tmp_path / "data" / "data_full.json"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(DataError, match=r"data_full.json should have the sha256 .*, not "):
        clinc150.load(tmp_path / "data")
    file.unlink()
    with pytest.raises(FileAccessError, match=r"clinc150 was not found: .* has no data_full.json"):
        load("clinc150", tmp_path / "data")
    with pytest.raises(FileAccessError, match="is not a folder"):
        load("clinc150", tmp_path / "nowhere")
    assert encoders.seen == []


def test_it_runs_through_the_usual_pipeline(encoders: Counting, tmp_path: Path) -> None:
    words = ("run", "--data", "clinc150", "--data-dir", tmp_path / "data", "--recipe", "features")
    more = ("--set", "n_tasks=3", "--set", "order_seed=1", "--set", "n_layers=1")
    done(*words, *more, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert [len(row["classes"]) for row in record["stream"]] == [2, 2, 2]
    assert [row["test_samples"] for row in record["stream"]] == [8, 16, 24]
    assert "CLINC150" in record["what"]
