"""What a page says of a model, section by section."""

from __future__ import annotations

import math

import torch

from redunet.core.subspaces import Subspaces
from redunet.estimators import metrics
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.inspection import (
    as_learnt,
    before_and_after,
    is_whitened,
    picture_shape,
    rates_by_layer,
)
from redunet.progress import Progress, silent
from redunet.report.blocks import Block, Grid, Plot, Section, View, Words
from redunet.report.palette import CLASSES
from redunet.report.plots import Curve, heat_map, lines, pictures
from redunet.report.record_plots import MOST_CLASSES, confusion_view, rate_view
from redunet.report.samples import Samples
from redunet.report.sections import in_words, plain
from redunet.report.tables import three

MOST_VALUES = 60
"""Eigenvalues that are drawn of each class."""

MOST_DIRECTIONS = 6
MOST_DRAWN = 12
"""Classes whose directions are drawn side by side."""

MOST_PIXELS = 80_000
"""Of all pictures of directions in one view; classes beyond are left out."""

MOST_TABLE_ROWS = 26
MOST_NAMED = 12
MOST_ROWS = 20
"""Classes whose memberships are drawn: those that are highest at some layer."""

DEPTHS = ("after the last layer", "before the first layer")


def model_sections(
    model: ReduNetClassifier, samples: Samples | None = None, progress: Progress = silent
) -> list[Section]:
    """Everything that a page says of a model, in order.

    Parameters
    ----------
    model : ReduNetClassifier
        That has learnt something.
    samples : Samples, default=None
        To show what the model makes of them.
    progress : callable, default=nothing
    """
    progress("the layers", 0.05)
    rates = rates_by_layer(model) if model.n_layers else {}
    progress("the classes' subspaces", 0.4)
    before, after = before_and_after(model, MOST_VALUES)
    progress("the samples", 0.8)
    found = [
        Section("What it is", _what_it_is(model, before, after)),
        Section("The objective, layer by layer", _rates(rates) if rates else []),
        Section("The spectra of the classes", [_spectra(model, after, before)]),
        Section("How close the classes are to each other", _angles(model, after, before)),
        Section("The leading directions of each class", _directions(model, after, before)),
        Section("What is taken for what", _confusion(model, samples) if samples else []),
        Section(
            "Memberships, layer by layer",
            _memberships(model, samples) if samples and model.n_layers else [],
        ),
    ]
    return [section for section in found if section.blocks]


def _names(model: ReduNetClassifier) -> list[str]:
    return [str(label) for label in model.classes_.tolist()]


def _of_all(model: ReduNetClassifier, shown: int) -> str:
    """That not all classes are shown, where that is so."""
    count = len(model.moments_)
    return f" The first {shown} of {count} classes." if shown < count else ""


def _what_it_is(model: ReduNetClassifier, before: Subspaces, after: Subspaces) -> list[Block]:
    moments, features = model.moments_, model.features
    settings = {key: plain(value) for key, value in model._plain_settings().items()}
    facts = {
        "classes": f"{len(moments):,}",
        "samples learnt": f"{sum(moments.counts):,}",
        "features": f"{moments.n_features:,}",
        "feature map": "none: samples as they are" if features is None else features.kind,
        "feature map learnt from data": "yes" if features and features.learnt_from_data else "no",
        "normalize": model.normalize,
        **settings,
    }
    rows = [
        [
            name,
            f"{count:,}",
            str(basis.shape[1]),
            *(f"{float(s.spectra[j, : s.bases[j].shape[1]].sum()):.1%}" for s in (before, after)),
        ]
        for j, (name, count, basis) in enumerate(
            zip(_names(model), moments.counts, after.bases, strict=True)
        )
    ]
    headings = ["class", "samples", "components", "energy in them, before the layers", "after"]
    return [
        Grid("The model and its settings", ["", "value"], list(map(list, facts.items())), 2),
        Grid("Its classes", headings, rows),
    ]


def _rates(rates: dict[str, list[float]]) -> list[Block]:
    first, last = rates["delta_R"][0], rates["delta_R"][-1]
    said = f"From the first to the last of {len(rates['delta_R'])} layers the rate reduction ΔR "
    said += f"goes from {three(first)} to {three(last)} nats."
    alt = in_words("Line chart by layer", {"ΔR": rates["delta_R"], "R": rates["R"]})
    caption = "ΔR = R − R_c before each layer; R of all classes together, R_c class by class."
    return [Words(said), Plot(caption, [rate_view(rates, alt)])]


def _spectra(model: ReduNetClassifier, after: Subspaces, before: Subspaces) -> Plot:
    names = _names(model)[:MOST_CLASSES]

    def view(depth: str, spectra: list[list[float]]) -> View:
        curves = [
            Curve(
                f"class {name}",
                values,
                CLASSES[j % len(CLASSES)],
                dash=("-", "--", ":", "-.")[j // len(CLASSES) % 4],
                width=1.8,
            )
            for j, (name, values) in enumerate(zip(names, spectra, strict=True))
        ]
        rows = [
            [str(number), *(f"{share:.3g}" for share in shares)]
            for number, shares in enumerate(zip(*spectra, strict=True), 1)
        ]
        grid = Grid(
            f"Share of each class's energy along its directions, {depth}", ["", *names], rows
        )
        alt = f"Line chart of the eigenvalues of each class {depth}, as shares of its energy; "
        leading = ", ".join(f"{n} {v[0]:.3f}" for n, v in zip(names[:20], spectra, strict=False))
        top = max(values[0] for values in spectra)
        return lines(
            depth,
            f"{alt}the first: {leading}.",
            grid,
            curves,
            first=1,
            x=("direction", "direction"),
            y="share of the class's energy",
            number_format=".3g",
            y_axis={
                "type": "log",
                "range": [-6, math.log10(1.5 * top)],
                "dtick": 1,
                "exponentformat": "power",
            },
        )

    caption = "Eigenvalues of each class's second moment as shares of their sum, largest first, "
    caption += (
        "on a logarithmic scale: the sooner a line falls, the fewer directions hold the class."
    )
    caption += _of_all(model, len(names))
    views = [
        view(depth, stage.spectra[: len(names)].tolist())
        for depth, stage in zip(DEPTHS, (after, before), strict=True)
    ]
    return Plot(caption, views, choose="spectra")


def _angles(model: ReduNetClassifier, after: Subspaces, before: Subspaces) -> list[Block]:
    every_name = _names(model)
    if len(every_name) < 2:
        return []

    def view(depth: str, stage: Subspaces) -> View:
        angles = stage.closeness()
        nearest = angles.clone().fill_diagonal_(90).amin(dim=1)
        chosen = sorted(nearest.argsort(stable=True)[:MOST_CLASSES].tolist())
        names = [every_name[j] for j in chosen]
        close = angles[chosen][:, chosen].tolist()
        least = [
            [
                "the class itself"
                if i == j
                else f"smallest principal angle {float(stage.angles(i, j)[0]):.1f}°"
                for j in chosen
            ]
            for i in chosen
        ]
        pairs = [(close[i][j], names[j], names[i]) for i in range(len(names)) for j in range(i)]
        angle, one, other = min(pairs)
        rows = [
            [name, *(f"{value:.1f}" for value in row)]
            for name, row in zip(names, close, strict=True)
        ]
        return heat_map(
            depth,
            f"Heat map of the angles between the classes' subspaces {depth}: the closest are "
            f"{one} and {other}, {angle:.1f} degrees; the farthest are {max(pairs)[1]} and "
            f"{max(pairs)[2]}, {max(pairs)[0]:.1f} degrees.",
            Grid(f"Angles between the classes' subspaces in degrees, {depth}", ["", *names], rows),
            close,
            rows=("class", names),
            columns=("class", names),
            what="degrees",
            bounds=(0.0, 90.0),
            number_format=".1f",
            cells=[[f"{value:.0f}°" for value in row] for row in close],
            said=least,
            falling=True,
        )

    caption = "The angle between two classes' subspaces, from the root mean square of the cosines "
    caption += "of all their principal angles: 90° where they are orthogonal, 0° where one lies in "
    caption += "the other."
    if len(every_name) > MOST_CLASSES:
        caption += (
            f" The {MOST_CLASSES} classes that come closest to another, of {len(every_name)}."
        )
    pairs = zip(DEPTHS, (after, before), strict=True)
    return [Plot(caption, [view(depth, stage) for depth, stage in pairs], choose="angles")]


def _directions(model: ReduNetClassifier, after: Subspaces, before: Subspaces) -> list[Block]:
    shape, guessed = picture_shape(model)
    if shape is None:
        return []
    stages = {"before the first layer": before, "after the last layer": after}
    if is_whitened(model):
        stages = {"before the whitening": as_learnt(model, MOST_DIRECTIONS)}
    d = model.moments_.n_features
    ranks = [basis.shape[1] for stage in stages.values() for basis in stage.bases]
    count = min(MOST_DIRECTIONS, *ranks)
    numbers = [str(number) for number in range(1, count + 1)]
    names = _names(model)
    drawn = names[: min(MOST_DRAWN, max(1, MOST_PIXELS // (d * count)))]

    def view(depth: str, stage: Subspaces) -> View:
        tiles = []
        for basis in stage.bases[: len(drawn)]:
            # A direction has no sign of its own: the stronger side is shown as positive.
            signed = basis[:, :count] * torch.where(basis[:, :count].sum(dim=0) < 0, -1.0, 1.0)
            scaled = signed / signed.abs().amax(dim=0)
            tiles.append([direction.reshape(shape).tolist() for direction in scaled.mT])
        rows = [
            [f"direction {number}", *(f"{float(share):.1%}" for share in shares)]
            for number, shares in zip(numbers, stage.spectra[: len(drawn)].mT, strict=False)
        ]
        grid = Grid(
            f"Share of each class's energy along its directions, {depth}", ["", *drawn], rows
        )
        size = " × ".join(map(str, shape[:2]))
        alt = (
            f"Pictures of {size} pixels, {count} for each of {len(drawn)} classes: the directions "
        )
        alt += f"along which a class has most energy, {depth}."
        by_direction = list(zip(*tiles, strict=True))
        axes = {"rows": ("direction", numbers), "columns": ("class", drawn)}
        return pictures(depth, alt, grid, by_direction, **axes)

    caption = "The leading eigenvectors of each class as pictures, each scaled so that its largest "
    caption += "value is 1 in size; "
    caption += "grey is zero." if len(shape) == 3 else "blue and red are opposite signs."
    caption += _of_all(model, len(drawn))
    if guessed:
        caption += f" That the {d} features are pixels is a guess: they would fill a square, and "
        caption += "none of them seems ever to be negative."
    views = [view(depth, stage) for depth, stage in stages.items()]
    return [Plot(caption, views, choose="directions")]


def _confusion(model: ReduNetClassifier, samples: Samples) -> list[Block]:
    if samples.y is None:
        return []
    labels = model.predict(samples.X)
    right = float((labels == samples.y).mean())
    said = f"Of {len(labels):,} samples of {samples.name} the model labels {right:.1%} rightly."
    wrong = (labels != samples.y).nonzero()[0].tolist()
    if wrong:
        more = " and more" if len(wrong) > MOST_NAMED else ""
        said += f" Mistaken: rows {', '.join(map(str, wrong[:MOST_NAMED]))}{more}."
    view = confusion_view("the model", metrics.confusion(samples.y, labels))
    caption = "What the samples of each class are labelled as, as shares of the class."
    return [Words(said), Plot(caption, [view])]


def _memberships(model: ReduNetClassifier, samples: Samples) -> list[Block]:
    every_name = _names(model)
    X = samples.chosen()
    given = model.predict(X).tolist()
    memberships = model.memberships(X)
    layers = [str(number) for number in range(1, len(memberships) + 1)]
    step = -(-len(layers) // MOST_TABLE_ROWS)

    def view(index: int, row: int) -> View:
        name = f"sample {row}: labelled {given[index]}"
        if samples.y is not None:
            name += f", truly {samples.y[row]}"
        every_class = memberships[:, index]
        # Beyond these, a sample belongs to no class at any layer as far as an eye can see.
        highest = every_class.max(axis=0).argsort(kind="stable")[::-1][:MOST_ROWS]
        chosen = sorted(highest.tolist())
        names = [every_name[j] for j in chosen]
        by_layer = every_class[:, chosen].tolist()
        kept = [0, *range(step - 1, len(layers), step)] if step > 1 else range(len(layers))
        rows = [[layers[n], *map(three, by_layer[n])] for n in kept]
        top = max(range(len(names)), key=by_layer[-1].__getitem__)
        return heat_map(
            name,
            f"Heat map of the estimated memberships of sample {row} of {samples.name} in each "
            f"class at each layer: at the last layer most in {names[top]}, "
            f"{by_layer[-1][top]:.3f}; labelled {given[index]}.",
            Grid(f"Memberships by layer, {name}", ["layer", *names], rows),
            list(map(list, zip(*by_layer, strict=True))),
            rows=("class", names),
            columns=("layer", layers),
            what="membership",
        )

    caption = "How far each layer takes the sample for one of each class, before it moves it: the "
    caption += "softmax that stands for the unknown label. The label itself is read off after the "
    caption += "last layer."
    if len(every_name) > MOST_ROWS:
        caption += f" The {MOST_ROWS} classes of highest membership, of {len(every_name)}."
    views = [view(index, row) for index, row in enumerate(samples.rows)]
    return [Plot(caption, views, choose=f"from {samples.name}")]
