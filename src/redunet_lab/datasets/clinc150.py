"""CLINC150: short questions to an assistant, of 150 intents or of none, as vectors of MiniLM.

Larson et al., "An Evaluation Dataset for Intent Classification and Out-of-Scope
Prediction", EMNLP 2019; data_full.json of the repository clinc/oos-eval, CC BY 3.0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, FileAccessError
from redunet_lab.datasets.dataset import Samples, UnavailableError
from redunet_lab.datasets.encoded import encoded, kept_in, read_kept
from redunet_lab.datasets.files import read_file
from redunet_lab.datasets.places import named_folder, write_cache

if TYPE_CHECKING:
    from redunet.encoders import Encoder

NAME, TITLE = "clinc150", "CLINC150"
FILE = "data_full.json"
SHA256 = "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0"
"""Of the file of texts."""

PARTS = {
    "train": 15_000,
    "val": 3_000,
    "test": 4_500,
    "oos_train": 100,
    "oos_val": 100,
    "oos_test": 1_000,
}
"""Parts of the file, and how many questions each has; "oos" is out of scope, of no intent."""

ENCODER = "minilm"
_LONGEST_FILE = 2**22
_ADVICE = (
    f"Put {FILE} of the repository clinc/oos-eval into a folder, and name that with data_dir or "
    f"REDUNET_DATA."
)

Texts = dict[str, tuple[list[str], list[str]]]
"""Texts and labels of each part."""


@dataclass(frozen=True, eq=False)
class Clinc150(Samples):
    """Vectors of questions, unit vectors of float32, and their intents."""

    x_val: NDArray[np.float32] = field(kw_only=True)
    y_val: NDArray[np.str_] = field(kw_only=True)
    x_oos_train: NDArray[np.float32] = field(kw_only=True)
    x_oos_val: NDArray[np.float32] = field(kw_only=True)
    x_oos_test: NDArray[np.float32] = field(kw_only=True)


ARRAYS = tuple(
    array
    for part in PARTS
    for array in ([f"x_{part}"] if part.startswith("oos") else [f"x_{part}", f"y_{part}"])
)


def load(data_dir: Path | None) -> Clinc150:
    """Read the vectors, or make them from the texts in a folder once, and keep them in the cache.

    ``data_dir`` is the folder that the user named, if any; else ``REDUNET_DATA`` counts.
    """
    from redunet.encoders import open_encoder  # takes a while to load

    folder = named_folder(data_dir)
    encoder = open_encoder(ENCODER)
    kept = kept_in(f"{NAME}-{SHA256[:8]}", encoder)
    arrays, source, tried = read_kept(kept, ARRAYS, data_dir)
    if arrays is not None:
        return _checked(arrays, source, encoder)
    if folder is None:
        tried.append("no data folder is named (data_dir or REDUNET_DATA)")
    else:
        for path in (folder / FILE, folder / NAME / FILE):
            if path.is_file():
                arrays = vectors(read_texts(path), encoder)
                write_cache(kept, NAME, arrays)
                return _checked(arrays, "folder", encoder)
        tried.append(f"the data folder {folder} has no {FILE}")
    raise FileAccessError(f"{NAME} was not found: {'; '.join(tried)}. {_ADVICE}")


def read_texts(path: Path) -> Texts:
    """The texts and labels of each part of the published file; `DataError` if it is another."""
    raw = read_file(path, _LONGEST_FILE)
    digest = hashlib.sha256(raw).hexdigest()
    if digest != SHA256:
        raise DataError(
            f"{path} should have the sha256 {SHA256}, not {digest}: it is not what was published; "
            f"download it again."
        )
    found = json.loads(raw)
    return {part: tuple(map(list, zip(*found[part], strict=True))) for part in PARTS}  # type: ignore[misc]


def vectors(texts: Texts, encoder: Callable[[list[str]], Any]) -> dict[str, Any]:
    """Arrays of vectors and labels, by their names, with a progress bar on a terminal."""
    arrays = encoded({f"x_{part}": of_part for part, (of_part, _) in texts.items()}, encoder, NAME)
    labels = {part: labels for part, (_, labels) in texts.items() if not part.startswith("oos")}
    return arrays | {f"y_{part}": np.array(of_part) for part, of_part in labels.items()}


def _checked(arrays: dict[str, Any], source: str, encoder: Encoder) -> Clinc150:
    """The data set, with as many vectors and labels as were published."""
    for name, array in arrays.items():
        n = PARTS[name[2:]]
        shape, kind = ((n, encoder.n_features), "f") if name[0] == "x" else ((n,), "U")
        if array.shape != shape or array.dtype.kind != kind:
            raise UnavailableError(
                f"{name} of {NAME} should be of shape {shape}, not {array.shape}: remove the file "
                f"of vectors"
            )
    return Clinc150(**arrays, name=NAME, source=source)
