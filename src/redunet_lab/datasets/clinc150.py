"""CLINC150: short questions to an assistant, of 150 intents or of none, as vectors of MiniLM.

Larson et al., "An Evaluation Dataset for Intent Classification and Out-of-Scope
Prediction", EMNLP 2019; data_full.json of the repository clinc/oos-eval, CC BY 3.0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError, FileAccessError
from redunet_lab.datasets import bounded, cache, search
from redunet_lab.datasets.dataset import UnavailableError
from redunet_lab.datasets.encoded import encoded

if TYPE_CHECKING:
    from redunet.encoders import Encoder

NAME = "clinc150"
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
class Clinc150:
    """Vectors of questions, and their intents.

    Attributes
    ----------
    x_train, x_val, x_test : ndarray of float32, shape (n, 384)
        Unit vectors of 100, 20 and 30 questions an intent.
    y_train, y_val, y_test : ndarray of str, shape (n,)
        Intents.
    x_oos_train, x_oos_val, x_oos_test : ndarray of float32, shape (n, 384)
        Of questions out of scope, which no intent fits.
    source : str
        Where it came from: ``folder`` or ``cache``.
    """

    x_train: NDArray[np.float32]
    y_train: NDArray[np.str_]
    x_val: NDArray[np.float32]
    y_val: NDArray[np.str_]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.str_]
    x_oos_train: NDArray[np.float32]
    x_oos_val: NDArray[np.float32]
    x_oos_test: NDArray[np.float32]
    source: str
    name: str = NAME


ARRAYS = tuple(
    field
    for part in PARTS
    for field in ([f"x_{part}"] if part.startswith("oos") else [f"x_{part}", f"y_{part}"])
)


def load(data_dir: Path | None) -> Clinc150:
    """Read the vectors, or make them from the texts in a folder once, and keep them in the cache.

    Parameters
    ----------
    data_dir : Path or None
        The folder that the user named, if any; else ``REDUNET_DATA`` counts.

    Returns
    -------
    Clinc150
    """
    from redunet.encoders import open_encoder  # takes a while to load

    folder = search.named_folder(data_dir)
    encoder = open_encoder(ENCODER)
    # A file for each pair of texts and weights: others are never mistaken for these.
    kept = f"{NAME}-{SHA256[:8]}-{encoder.id.sha256[:8]}.npz"
    tried: list[str] = []
    for source, place in (("folder", folder), ("cache", cache.folder())):
        if place is None:
            continue
        try:
            return _checked(cache.read_arrays(place / kept, ARRAYS), source, encoder)
        except UnavailableError as reason:
            tried.append(str(reason))
    if folder is None:
        tried.append("no data folder is named (data_dir or REDUNET_DATA)")
    else:
        for path in (folder / FILE, folder / NAME / FILE):
            if path.is_file():
                arrays = vectors(read_texts(path), encoder)
                cache.write_arrays(cache.folder() / kept, NAME, arrays)
                return _checked(arrays, "folder", encoder)
        tried.append(f"the data folder {folder} has no {FILE}")
    raise FileAccessError(f"{NAME} was not found: {'; '.join(tried)}. {_ADVICE}")


def read_texts(path: Path) -> Texts:
    """The texts and labels of each part of the published file; `DataError` if it is another."""
    raw = bounded.read_file(path, _LONGEST_FILE)
    digest = hashlib.sha256(raw).hexdigest()
    if digest != SHA256:
        raise DataError(
            f"{path} should have the sha256 {SHA256}, not {digest}: it is not what was published; "
            f"download it again."
        )
    found = json.loads(raw)
    return {part: tuple(map(list, zip(*found[part], strict=True))) for part in PARTS}  # type: ignore[misc]


def vectors(texts: Texts, encoder: Callable[[list[str]], Any]) -> dict[str, NDArray[Any]]:
    """Arrays of vectors and labels, by their names, with a progress bar on a terminal."""
    arrays = encoded({f"x_{part}": of_part for part, (of_part, _) in texts.items()}, encoder, NAME)
    labels = {part: labels for part, (_, labels) in texts.items() if not part.startswith("oos")}
    return arrays | {f"y_{part}": np.array(of_part) for part, of_part in labels.items()}


def _checked(arrays: dict[str, NDArray[Any]], source: str, encoder: Encoder) -> Clinc150:
    """The data set, with as many vectors and labels as were published."""
    for field, array in arrays.items():
        n = PARTS[field[2:]]
        shape, kind = ((n, encoder.n_features), "f") if field[0] == "x" else ((n,), "U")
        if array.shape != shape or array.dtype.kind != kind:
            raise UnavailableError(
                f"{field} of {NAME} should be of shape {shape}, not {array.shape}: remove the file "
                f"of vectors"
            )
    values: dict[str, Any] = {**arrays, "source": source}
    return Clinc150(**values)
