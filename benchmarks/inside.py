"""What the layers do to classes of images, and the filters: ``python -m benchmarks.inside``.

Two small models: the recipe ``images-cpu`` on CIFAR-10 with 48 filters of each size, and
``directions`` on the pixels of MNIST. Some training images of each class are learnt, and others of
them are the samples; test images are not looked at. The pictures are those that ``redunet report
MODEL --samples DATA --figures FOLDER`` writes. Writes ``results/inside.json`` here, pictures to
``results/figures`` and the table of ``results/images.md``; a minute or two on one core.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.readme import between
from redunet.environment import environment
from redunet.report.blocks import Figure
from redunet.report.figures import png
from redunet.report.look import Look
from redunet.report.model import model_sections
from redunet.report.samples import Samples
from redunet.report.through_layers import cosines, means
from redunet.safety.files import write_bytes
from redunet_lab import datasets
from redunet_lab.recipes import from_recipe

RECORD = Path(__file__).parent / "results" / "inside.json"
FIGURES = Path(__file__).parent.parent / "results" / "figures"
PAGE = FIGURES.parent / "images.md"
MARK = "inside table: ../benchmarks/results/inside.json"
HELD_OUT = 100
"""Samples of each class."""

MODELS: dict[str, dict[str, Any]] = {
    "cifar10": {"recipe": "images-cpu", "per_class": 400, "changes": {"n_filters": 48}},
    "mnist": {"recipe": "directions", "per_class": 500, "changes": {}},
}
DRAWN = {"cifar10": ("filters", "angles", "margins"), "mnist": ("similarity", "margins")}
"""The pictures of each model on the page."""

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def looked_at(data: str, recipe: str, per_class: int, changes: dict[str, Any]) -> Look:
    """A model that has learnt some training images, and others of them as samples."""
    loaded = datasets.load(data)
    rows = [np.flatnonzero(loaded.y_train == label) for label in np.unique(loaded.y_train)]
    learnt, others = (
        np.concatenate([some[part] for some in rows])
        for part in (slice(per_class), slice(per_class, per_class + HELD_OUT))
    )
    x, y = loaded.x_train, loaded.y_train
    names = np.array(NAMES)[y] if data == "cifar10" else y
    if changes.get("n_filters") is None:
        x = x.reshape(len(x), -1)
    model = from_recipe(recipe, x[learnt[y[learnt] < 2]], device="cpu", **changes)
    model.fit(x[learnt], names[learnt])
    samples = Samples("held-out training images", x[others], names[others], ())
    return Look(model, samples, layers=True)


def numbers(look: Look) -> dict[str, Any]:
    """What the pictures show, in numbers, by depth."""
    counts = [len(rows) for _, rows in look.compared]
    k = len(look.chosen)
    found: dict[str, Any] = {"features": look.model.moments_.n_features}
    found["n_layers"] = look.network.n_layers
    found["samples"] = {}
    for depth, passed in reversed(look.depths.items()):
        inside, across = means(cosines(passed.Z.astype(np.float64)), counts)
        found["samples"][depth] = {
            "cosine_within_class": inside,
            "cosine_between_classes": across,
            "margin_above_zero": float((passed.margins > 0).mean()),
            "median_margin": float(np.median(passed.margins)),
        }
    found["classes"] = {
        depth: {
            "mean_angle": float(stage.closeness().sum()) / (k * (k - 1)),
            "energy_in_first_direction": float(stage.spectra[:, 0].mean()),
            "energy_in_first_ten": float(stage.spectra[:, :10].sum(dim=1).mean()),
        }
        for depth, stage in reversed(look.stages.items())
    }
    return found


def pictures(look: Look, names: tuple[str, ...]) -> dict[str, bytes]:
    """Some of the figures of a page of the model, in few colours: a third of the bytes."""
    blocks = [block for section in model_sections(look) for block in section.blocks]
    found = {}
    for figure in [one for one in blocks if isinstance(one, Figure) and one.name in names]:
        sheet, few = Image.open(io.BytesIO(png(figure, 3))), io.BytesIO()
        sheet.convert("RGB").quantize(256).save(few, "PNG", optimize=True)
        found[figure.name] = few.getvalue()
    return found


def filled(page: str, record: dict[str, Any]) -> str:
    """The text of the page with the table of the record in its place."""
    lines = [
        "|  | mean angle of two classes | energy in a class's first ten directions | cosine within "
        "a class | cosine between two | median margin | labels right |",
        "| --- |" + " ---: |" * 6,
    ]
    titles = {"cifar10": "CIFAR-10", "mnist": "MNIST"}
    for data, model in record["models"].items():
        for depth, samples in model["samples"].items():
            of_classes = model["classes"].get(depth)
            cells = ["–", "–"]
            if of_classes:
                cells = [
                    f"{of_classes['mean_angle']:.1f}°",
                    f"{of_classes['energy_in_first_ten']:.1%}",
                ]
            cells += [
                f"{samples['cosine_within_class']:.3f}",
                f"{samples['cosine_between_classes']:.3f}",
                f"{samples['median_margin']:.3g}",
                f"{samples['margin_above_zero']:.1%}",
            ]
            name = f"{titles[data]}, {model['features']:,} features, {depth}"
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return between(page, MARK, "\n".join(lines))


def main() -> None:
    """Learn, write the record, and draw."""
    record: dict[str, Any] = {
        "what": "What the layers of two small models of images do to classes",
        "command": "python -m benchmarks.inside",
        "held_out_per_class": HELD_OUT,
        **environment(),
        "models": {},
    }
    for data, settings in MODELS.items():
        look = looked_at(data, **settings)
        record["models"][data] = {**settings, **numbers(look)}
        for name, picture in pictures(look, DRAWN[data]).items():
            write_bytes(FIGURES / f"{data}-{name}.png", picture)
    write_bytes(RECORD, (json.dumps(record, indent=1) + "\n").encode())
    write_bytes(PAGE, filled(PAGE.read_text(encoding="utf-8"), record).encode())


if __name__ == "__main__":
    main()
