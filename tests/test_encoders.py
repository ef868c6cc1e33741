"""The page about encoders: its code runs, and what it says of it is so."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.usefixtures("one_thread")

PAGE = (Path(__file__).parents[1] / "docs" / "encoders.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python( needs=\w+)?\n(.*?)```", PAGE, re.DOTALL)
RUNNABLE = [code for needs, code in BLOCKS if not needs]


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
        if needs:
            assert needs.removeprefix(" needs=") in imported
        else:
            assert all(find_spec(name) for name in imported)


def test_vectors_of_an_image_encoder_learn_digits(names: dict[str, Any]) -> None:
    assert names["vectors"].shape == (1797, 512)
    assert names["accuracy"] > 0.95
    assert names["model"].readout == "discriminant"


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


def test_texts_are_labelled_and_classes_come_and_go(names: dict[str, Any]) -> None:
    assert names["labels"].tolist() == ["weather", "cooking"]
    assert names["same"] is True
    assert names["equal"] is True
    assert names["by_topic"].classes_.tolist() == ["cooking", "music", "weather"]
    assert names["by_topic"].moments_.counts == (60, 60, 57)


def test_text_vectors_have_the_same_bits_in_any_batch(names: dict[str, Any]) -> None:
    texts, encoder = names["texts"], names["text_encoder"]
    whole = encoder.transform(texts)
    one_by_one = np.concatenate([encoder.transform([text]) for text in texts])
    assert np.array_equal(whole, one_by_one)
