"""One's own data in every format, for the tests of the tool."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from PIL import Image
from typer.testing import CliRunner

from redunet.cli.app import main
from tests.conftest import classes_on_subspaces

NAMES = ("ant", "bee", "cat", "dog")
SHAPE = (3, 4)
COLUMNS = tuple(f"v{index}" for index in range(12))

_raw, NUMBERS = classes_on_subspaces(k=4, d=12, per_class=15, rank=2)
IMAGES = np.clip(np.round(_raw * 40 + 128), 0, 255).astype(np.uint8).reshape(-1, *SHAPE)
WORDS = np.array(NAMES)[NUMBERS]


def redunet(*words: object) -> Any:
    """Run a command in this process."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*words: object) -> Any:
    """Run a command that is expected to do what it is asked."""
    result = redunet(*words)
    assert result.exit_code == 0, result.stderr
    return result


def refused(*words: object) -> str:
    """The one line with which a command refuses."""
    result = redunet(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("redunet: ")
    assert result.stderr.count("\n") == 1, result.stderr
    said: str = result.stderr[len("redunet: ") : -1]
    return said


def png(image: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()


def write_images(folder: Path, rows: Sequence[int]) -> Path:
    """A folder with a sub-folder for each class among the rows."""
    for row in rows:
        file = folder / str(WORDS[row]) / f"{row:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(IMAGES[row]))
    return folder


def table(rows: Sequence[int], labels: NDArray[Any] = WORDS) -> Any:
    values = IMAGES.reshape(-1, 12)[rows]
    columns = {name: values[:, index] for index, name in enumerate(COLUMNS)}
    return pa.table({**columns, "label": labels[rows]})


def write_csv(path: Path, rows: Sequence[int]) -> Path:
    path = path.with_suffix(".csv")
    pyarrow.csv.write_csv(table(rows), path)
    return path


def write_parquet(path: Path, rows: Sequence[int]) -> Path:
    path = path.with_suffix(".parquet")
    pyarrow.parquet.write_table(table(rows), path, row_group_size=7)
    return path


def write_npz(path: Path, rows: Sequence[int]) -> Path:
    path = path.with_suffix(".npz")
    np.savez_compressed(path, X=IMAGES[rows], y=WORDS[rows])
    return path


Writer = Callable[[Path, Sequence[int]], Path]
WRITERS: dict[str, Writer] = {
    "images": write_images,
    "csv": write_csv,
    "parquet": write_parquet,
    "npz": write_npz,
}
