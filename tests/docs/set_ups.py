"""What the code of a page finds when it begins: files in the folder, and names."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from redunet import ReduNetClassifier, from_recipe
from tests.own_data import done

NAMES = ("magpie", "robin", "wren", "rook", "swift")
DIGITS, LABELS = load_digits(return_X_y=True)


def write_photos(folder: str, classes: Iterable[int], rows: slice, mode: str = "L") -> None:
    """Images of digits that are called birds, one folder a class."""
    for digit in classes:
        place = Path(folder) / NAMES[digit]
        place.mkdir(parents=True)
        for index, image in enumerate(DIGITS[digit == LABELS][rows]):
            pixels = (image.reshape(8, 8) * 15).astype(np.uint8)
            large = Image.fromarray(pixels).resize((16, 16)).convert(mode)
            large.save(place / f"{index}.png")


def write_table(path: str, X: Any, y: Any = None, label: str = "label") -> None:
    """A CSV file with a column for each feature, and one of labels."""
    names = [f"v{index}" for index in range(X.shape[1])]
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, label] if y is not None else names)
        rows = X.tolist() if y is None else [[*x, t] for x, t in zip(X.tolist(), y, strict=True)]
        writer.writerows(rows)


def write_wine() -> None:
    """Wine, in the files that pages name."""
    X, y = load_wine(return_X_y=True)
    names = np.array(["barbera", "barolo", "grignolino"])[y]
    write_table("wine.csv", X[::2], names[::2], "cultivar")
    write_table("wine-test.csv", X[1::2], names[1::2], "cultivar")
    write_table("new-wine.csv", X[:5])


def birds() -> None:
    """Folders of images."""
    write_photos("photos", range(4), slice(0, 12))
    write_photos("test-photos", range(4), slice(12, 20))
    write_photos("more-photos", range(5), slice(20, 26))
    write_photos("withdrawn-photos", [1], slice(20, 23))
    shutil.copytree("test-photos/wren", "unknown")


def images() -> dict[str, Any]:
    birds()
    return {}


def tables() -> dict[str, Any]:
    write_wine()
    return {}


def add_and_withdraw() -> dict[str, Any]:
    for name, of in (("first", LABELS < 6), ("second", LABELS == 6)):
        np.savez(f"{name}.npz", X=DIGITS[of], y=LABELS[of])
    np.savez("withdrawn.npz", X=DIGITS[[0, 10, 20]], y=LABELS[[0, 10, 20]])
    return {}


def compare() -> dict[str, Any]:
    write_wine()
    return {}


def export() -> dict[str, Any]:
    write_photos("photos", range(2), slice(0, 12), "RGB")
    write_photos("test-photos", range(2), slice(12, 20), "RGB")
    done("learn", "birds.safetensors", "photos", "--resize", 32, "--set", "n_layers=1")
    return {}


def receipts() -> dict[str, Any]:
    write_photos("photos", [1, 2], slice(0, 12))
    write_photos("withdrawn-photos", [1], slice(12, 14))
    write_photos("magpies", [0], slice(0, 5))
    done("learn", "birds.safetensors", "photos", "withdrawn-photos", "magpies")
    model = ReduNetClassifier(n_layers=1).fit(DIGITS, LABELS)
    return {"model": model, "X": DIGITS[:3], "y": LABELS[:3]}


def vectors() -> dict[str, Any]:
    """A model of vectors, in a file and by name, and data to ask it."""
    X, y = DIGITS, LABELS
    known = y < 5
    model = from_recipe("vectors").fit(X[known][:300], y[known][:300])
    write_table("first.csv", X[known][:300], y[known][:300])
    done("learn", "intents.safetensors", "first.csv", "--recipe", "vectors")
    write_table("validation.csv", X[known][300:400], y[known][300:400])
    for name in ("new", "log"):
        write_table(f"{name}.csv", X[400:450])
    return {
        "model": model,
        "X": X[400:450],
        "y": np.where(np.arange(50) < 10, np.where(known[400:450], y[400:450], 0), -1),
        "x_val": X[known][300:400],
        "X_validation": X[known][300:400],
        "y_validation": y[known][300:400],
    }


SET_UPS: dict[str, Callable[[], dict[str, Any]]] = {
    "docs/add-withdraw-merge.md": add_and_withdraw,
    "docs/export.md": export,
    "docs/compare.md": compare,
    "docs/images.md": images,
    "docs/tables.md": tables,
    "docs/receipts.md": receipts,
    "docs/tuning.md": vectors,
    "docs/unknown.md": vectors,
    "docs/unlabelled.md": vectors,
}
