"""Models of texts, of resized images and of named columns behind the server."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from redunet import ReduNetClassifier
from redunet.encoders import open_encoder
from redunet.features import Flatten
from tests.serve.running import Client, serving
from tests.tiny_encoders import text_folder

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # The command ignores these for its process; the class, which may run in others, does not.
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore:the feature map was learnt from data"),
]
TEXTS = ["rain and wind", "snow storm", "play the piano", "a song of the choir"]
LABELS = ["weather", "weather", "music", "music"]


def png(colour: tuple[int, int, int], size: tuple[int, int] = (40, 30)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, "png")
    return out.getvalue()


def test_texts(tmp_path: Path) -> None:
    encoder = open_encoder(text_folder(tmp_path / "encoder"))
    model = ReduNetClassifier(n_layers=1, n_components=2).fit(encoder(TEXTS), LABELS)
    model.set_encoder(encoder.id).save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    with serving(tmp_path / "m", encoder=encoder) as client:
        found = client.send("GET", "/v1/model")[1]
        assert (found["input"]["kind"], found["input"]["encoder"]) == ("texts", "encoder")
        found = client.send("POST", "/v1/predict", {"texts": TEXTS})[1]
        assert [one["label"] for one in found["answers"]] == LABELS
        new = {"texts": ["what is the sun", "the sun"], "label": "stars"}
        assert client.send("POST", "/v1/learn?wait=true", new)[1]["samples"] == 6
        found = client.send("POST", "/v1/predict", {"text": "the sun"})[1]
        assert found["answers"][0]["label"] == "stars"
        table = b"text,label\nthe sun,stars\n"
        status, found = client.files("/v1/unlearn/files", [("gone.csv", table)])
        assert (status, found["samples"]) == (200, 5), found
        assert client.send("POST", "/v1/forget", {"classes": ["stars"]})[0] == 200
    assert (tmp_path / "m").read_bytes() == before
    with serving(tmp_path / "m") as client:  # whose folder nobody named
        status, found = client.send("POST", "/v1/predict", {"text": "the sun"})
        assert status == 422
        assert found["error"] == "expected samples, as the model has no encoder of texts, got texts"
        vectors = encoder(TEXTS[:1]).tolist()
        assert client.send("POST", "/v1/predict", {"samples": vectors})[0] == 200


def _resized(client: Client, path: Path) -> None:
    before = path.read_bytes()
    red, blue = png((250, 10, 10)), png((10, 10, 250), (17, 90))
    status, found = client.files("/v1/predict/files", [("1.png", red), ("2.png", blue)])
    assert status == 200, found
    assert [one["label"] for one in found["answers"]] == ["red", "blue"]
    green = [("1.png", png((5, 240, 9))), ("2.jpg", png((9, 255, 5)))]
    status, found = client.files("/v1/learn/files?wait=true", green, {"labels": "green"})
    assert (status, found["samples"]) == (200, 6), found
    status, found = client.files("/v1/predict/files", green)
    assert [one["label"] for one in found["answers"]] == ["green", "green"]
    assert client.files("/v1/unlearn/files", green, {"labels": "green"})[0] == 200
    assert path.read_bytes() == before


def test_images_of_any_size(tmp_path: Path) -> None:
    shades = np.array([[250, 10, 10], [240, 0, 20], [10, 10, 250], [0, 20, 240]], dtype=np.uint8)
    images = np.broadcast_to(shades[:, None, None], (4, 6, 6, 3)).copy()
    model = ReduNetClassifier(n_layers=1, n_components=1, features=Flatten((6, 6, 3)))
    model.fit(images, ["red", "red", "blue", "blue"]).resize_images().save(tmp_path / "m")
    with serving(tmp_path / "m") as client:
        assert client.send("GET", "/v1/model")[1]["input"]["resized"]
        _resized(client, tmp_path / "m")


def test_named_columns(tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(0).uniform(1, 9, (20, 3)), columns=["a", "b", "c"])
    model = ReduNetClassifier(n_layers=1, n_components=1).fit(X, ["x", "y"] * 10)
    model.save(tmp_path / "m")
    with serving(tmp_path / "m") as client:
        assert client.send("GET", "/v1/model")[1]["input"]["columns"] == ["a", "b", "c"]
        status, found = client.send("POST", "/v1/learn", {"sample": [1, 2, 3], "label": "z"})
        assert (status, found["samples"]) == (200, 21)
        table = b"c,a,b,label\n3,1,2,z\n"
        status, found = client.files("/v1/unlearn/files", [("rows.csv", table)])
        assert (status, found["samples"]) == (200, 20), found
    assert (tmp_path / "m").read_bytes() == model.to_bytes()
