"""Model cards: what they say, that YAML and Hugging Face's reader agree, and the command."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCard
from sklearn.datasets import load_digits

from redunet import DataError, ReduNetClassifier
from redunet.encoders import EncoderId
from redunet.estimators import NearestMean
from redunet.features import Standardize
from redunet.report.card import card
from tests.own_data import done, refused
from tests.records import ROOT, record

pytestmark = pytest.mark.usefixtures("one_thread")


def data_of(read: ModelCard) -> Any:
    """The YAML of a card, as Hugging Face's own reader understands it."""
    return read.data


def test_a_card_says_what_the_model_is(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    model = ReduNetClassifier(n_layers=3, n_components=7).fit(X[:500], y[:500])
    path = tmp_path / "digits.safetensors"
    model.save(path)
    text = card(path, [record("digits-demo")])
    read = data_of(ModelCard(text))
    assert read.library_name == "redunet"
    assert read.pipeline_tag == "tabular-classification"
    assert read.model_name == "digits"
    [result] = read.eval_results
    last = record("digits-demo")["methods"][0]["runs"][0]["summary"]["last"]
    assert result.metric_value == last
    assert result.dataset_name == "digits"
    assert f"| digits | ReduNet, all classes after 5 tasks | {last:.4f} | 599 |" in text
    for label, count in model.class_counts_.items():
        assert f"| {label} | {count} |" in text
    assert "A classifier of 10 classes, learnt from 500 samples" in text
    assert "| `n_layers` | 3 |" in text
    assert "10 of 10 classes have fewer samples than features" in text
    assert hashlib.sha256(path.read_bytes()).hexdigest() in text


def test_names_are_quoted_and_change_nothing(tmp_path: Path) -> None:
    hostile = 'a|b\n---\n<script>"x": [1](y)'
    model = NearestMean().fit([[1.0, 0.0], [0.0, 1.0]], [hostile, "plain"])
    model.set_encoder(EncoderId("unknown: [x]", "0" * 64))
    path = tmp_path / "m"
    model.save(path)
    text = card(path, name='x": {')
    front = text.split("---\n")[1]
    found = yaml.safe_load(front)
    assert found["tags"][1] == "nearest-mean"
    assert "pipeline_tag" not in found
    assert '\n# x": {\n' in text
    assert '| a\\|b\\\\n---\\\\n&lt;script&gt;"x": \\[1\\](y) | 1 |' in text
    assert "<script>" not in text


def test_of_many_classes_the_largest_are_listed(tmp_path: Path) -> None:
    y = [*range(120), *range(120), *range(20)]
    X = np.eye(120)[y]
    path = tmp_path / "m"
    NearestMean(features=Standardize.learn(X)).fit(X, y).save(path)
    text = card(path)
    assert text.count(" | 3 |\n") == 20
    assert text.count(" | 2 |\n") == 80
    assert "and 20 classes more, of fewer samples." in text
    assert "The feature map was learnt from data" in text
    assert "None were given." in text


def test_the_command_writes_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    NearestMean().fit([[1.0, 0.0], [0.0, 1.0]], ["a", "b"]).save("m.safetensors")
    Path("test.csv").write_text("u,v,label\n1,0,a\n0,1,b\n1,2,a\n")
    Path("evaluation.json").write_text(
        done("evaluate", "m.safetensors", "test.csv", "--json").stdout
    )
    said = done("card", "m.safetensors", "--record", "evaluation.json").stdout
    assert said == "Wrote README.md\n"
    found = data_of(ModelCard.load("README.md"))
    assert found.eval_results[0].metric_value == pytest.approx(2 / 3)
    assert refused("card", "m.safetensors").startswith("expected README.md not to be there yet")
    done("card", "m.safetensors", "--force", "--quiet")
    assert "None were given" in Path("README.md").read_text()
    Path("other.json").write_text(json.dumps({"kind": "tuning"}))
    assert "`redunet evaluate --json` prints, got something else" in refused(
        "card", "m.safetensors", "--record", "other.json", "-o", "c.md"
    )
    assert not Path("c.md").exists()


def test_a_record_of_many_methods_gives_a_row_each(tmp_path: Path) -> None:
    NearestMean().fit([[1.0]], [0]).save(tmp_path / "m")
    text = card(tmp_path / "m", [ROOT / "results" / "compare-digits.json"])
    assert len(data_of(ModelCard(text)).eval_results) == len(record("compare-digits")["methods"])
    with pytest.raises(DataError, match="but it is not JSON"):
        card(tmp_path / "m", [tmp_path / "m"])
