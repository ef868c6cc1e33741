"""Encoders small enough to make in a test: folders in Hugging Face layout, random weights."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = "rain cloud wind sun storm snow song piano choir melody guitar drum the a of is what play"


def text_folder(folder: Path, seed: int = 0, **pooling: bool) -> Path:
    """A BERT of 16 features, which reads up to 24 tokens of a text."""
    transformers = pytest.importorskip("transformers", reason="redunet[text] is not installed")
    letters = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split(), *letters]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 24}))
    if pooling:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    return _saved(transformers.BertModel(_seeded(config, seed)), folder)


def image_folder(folder: Path, seed: int = 0) -> Path:
    """A vision transformer of 16 features, of images scaled to 20 and cropped to 16 pixels."""
    transformers = pytest.importorskip("transformers", reason="redunet[text] is not installed")
    folder.mkdir(parents=True)
    preprocessing = {
        "size": {"shortest_edge": 20},
        "crop_size": {"height": 16, "width": 16},
        "do_center_crop": True,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.25, 0.25, 0.5],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing))
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=8,
    )
    return _saved(transformers.ViTModel(_seeded(config, seed)), folder)


def _seeded(config: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    config.initializer_range = 0.5  # so that samples differ by more than rounding
    return config


def _saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder
