"""Encoders of texts: transformer networks in Hugging Face layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from redunet.core.grid import unit_rows
from redunet.encoders.base import Network
from redunet.encoders.folder import loading, read_json
from redunet.errors import DataError

_LONGEST = 512
"""Tokens of a text that are read, where the folder does not say."""


def load_text_network(folder: Path, device: str) -> Network:
    """The network of a folder: the mean over tokens, or the first token; then unit length."""
    first_token = _first_token(folder)
    with loading(folder) as transformers:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
    model = model.eval().to(device)
    longest = _longest(folder, tokenizer, model.config)

    def prepare(text: str) -> Tensor:
        if not isinstance(text, str) or not _is_unicode(text):
            raise DataError(
                f"expected texts of Unicode letters, got {text!r:.80}: remove it, or convert it"
            )
        tokens = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
        ids: Tensor = tokens["input_ids"]
        return ids

    def vector(ids: Tensor) -> Tensor:
        # A text alone has no padding, so its attention mask is all ones.
        hidden = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        pooled = hidden[:, 0] if first_token else hidden.mean(dim=1)
        return unit_rows(pooled)[0].to(torch.float32)

    return Network(prepare, vector)


def _is_unicode(text: str) -> bool:
    """Whether a text has no half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _first_token(folder: Path) -> bool:
    """Whether a text's vector is that of its first token rather than the mean of all."""
    pooling = read_json(folder / "1_Pooling" / "config.json", needed=False)
    modes = {name for name, value in pooling.items() if value is True and "pooling_mode" in name}
    if modes <= {"pooling_mode_mean_tokens"}:
        return False
    if modes == {"pooling_mode_cls_token"}:
        return True
    raise DataError(
        f"expected {folder} to pool tokens by their mean or to take the first, got "
        f"{', '.join(sorted(modes))}: take another encoder"
    )


def _longest(folder: Path, tokenizer: Any, config: Any) -> int:
    """The number of tokens after which a text is cut off."""
    said = read_json(folder / "sentence_bert_config.json", needed=False).get("max_seq_length")
    limits = (
        said,
        tokenizer.model_max_length,
        getattr(config, "max_position_embeddings", None),
    )
    return min([one for one in limits if isinstance(one, int) and one > 0], default=_LONGEST)
