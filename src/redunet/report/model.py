"""Sections of the page of a model; of many classes it shows a part, which it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.core.subspaces import Subspaces
from redunet.estimators import EnsembleClassifier
from redunet.estimators.inspection import (
    as_learnt,
    is_whitened,
    picture_shape,
    rates_by_layer,
)
from redunet.progress import Progress, silent
from redunet.report.blocks import (
    Block,
    Curve,
    Figure,
    HeatMap,
    Images,
    Lines,
    Section,
    Table,
    Text,
    View,
)
from redunet.report.model_view import AFTER, BEFORE, ModelView
from redunet.report.samples import Samples
from redunet.report.shared_figures import (
    MOST_CLASSES,
    confusion_figure,
    confusion_view,
    rate_figure,
    rate_words,
)
from redunet.report.words import plain, readout_name

MOST_LINES = 12
"""Classes whose spectra are drawn."""

MOST_DIRECTIONS = 6
MOST_SIDE_BY_SIDE = 10
"""Classes whose directions are drawn in one view."""

MOST_PIXELS = 300_000
"""Of all pictures of directions on a page; classes beyond are left out."""

MOST_NAMED = 12
MOST_ROWS = 20
"""Classes whose memberships are drawn: those that are highest at some layer."""

MOST_SHARES = 3
"""Memberships of a sample that are told where there is one layer."""

COLORS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
    "#8a6d3b", "#8a8f98", "#117a8b", "#a89c00", "#8250df", "#a01c4b",
)  # fmt: skip


def model_sections(view: ModelView, progress: Progress = silent) -> list[Section]:
    """Everything that a page says of a model, in order: the answer first, settings last."""
    parts: dict[str, Callable[[ModelView], Sequence[Block]]] = {
        "Summary": _summary,
        "Confusion matrix": _confusion,
        "Memberships by layer": _memberships,
        "Angles between the classes": _angles,
        "Spectra of the classes": _spectra,
        "Leading directions of the classes": _directions,
        "The objective by layer": _objective,
        "Classes": _classes,
        "Settings": _settings,
    }
    found = []
    for number, (title, part) in enumerate(parts.items()):
        progress(title.lower(), number / len(parts))
        found.append(Section(title, part(view)))
    return [section for section in found if section.blocks]


def _summary(view: ModelView) -> list[Block]:
    network, moments = view.network, view.model.moments_
    layers = {0: "no layers", 1: "one layer"}.get(network.n_layers, f"{network.n_layers} layers")
    how = f"{layers}, labels by {readout_name(network._settings().readout)}"
    if view.drawn is not network:
        how = f"labels by {view.drawn.name().replace('-', ' ')}"
    if isinstance(view.model, EnsembleClassifier):
        n = len(view.model.moments_.sizes)
        how = f"{n} models whose scores are averaged, each of a map of its own ({how}). What "
        how += "follows, but for labels, is of the first one"
    classes = f"{len(moments):,} classes" if len(moments) > 1 else "one class"
    said = f"A model of {classes}, learnt from {sum(moments.counts):,} samples of "
    said += f"{moments.n_features:,} features: {how}."
    if view.samples is not None and view.samples.y is not None:
        right = len(view.labels) - len(view.wrong)
        said += f" It labels {right:,} of {len(view.labels):,} samples of {view.samples.name} "
        said += f"correctly ({right / len(view.labels):.1%})."
    if len(view.chosen) > 1:
        depth, stage = next(iter(view.stages.items()))
        angle, one, other = min(_pairs(stage, [view.names[j] for j in view.chosen]))
        said += (
            f" The most similar classes shown are {one} and {other}, {angle:.0f}° apart {depth}."
        )
    blocks: list[Block] = [Text(said)]
    if network.n_layers and not view.with_layers:
        said = f"What the layers do is left out: a pass over {network.n_layers} layers of "
        said += f"{len(moments):,} classes takes long, as they do not fit into {network.memory} of "
        blocks.append(Text(f"{said}memory. Show it with --layers."))
    return blocks


def _pairs(stage: Subspaces, names: Sequence[str]) -> list[tuple[float, str, str]]:
    close = stage.closeness().tolist()
    return [(close[i][j], names[j], names[i]) for i in range(len(names)) for j in range(i)]


def _confusion(view: ModelView) -> list[Block]:
    samples = view.samples
    if samples is None or samples.y is None:
        return []
    said = "All labels are correct."
    if view.wrong:
        more = " and more" if len(view.wrong) > MOST_NAMED else ""
        said = f"Wrongly labelled: rows {', '.join(map(str, view.wrong[:MOST_NAMED]))}{more}."
    known = np.union1d(samples.y, view.labels)
    counts = np.zeros((len(known), len(known)), dtype=np.int64)
    where = np.searchsorted(known, samples.y), np.searchsorted(known, view.labels)
    np.add.at(counts, where, 1)
    confusion = {"labels": known.tolist(), "counts": counts.tolist()}
    every, more = len(confusion["labels"]), ""
    if every > MOST_CLASSES:
        more = f"{MOST_CLASSES} of {every} classes: those with most mistakes."
    return [confusion_figure([confusion_view("the model", confusion)], more), Text(said)]


def _memberships(view: ModelView) -> list[Block]:
    samples = view.samples
    if samples is None or not view.with_layers:
        return []
    rows = list(samples.rows)
    if view.add_mistake and not set(rows) & set(view.wrong):
        rows += view.wrong[:1]
    rows.sort(key=lambda row: row not in view.wrong)
    memberships = view.network.memberships(samples.X[rows])
    if len(memberships) == 1:
        return [_membership_table(view, samples, rows, memberships[0])]
    views = [
        _membership_view(view, samples, row, memberships[:, index])
        for index, row in enumerate(rows)
    ]
    caption = (
        "The membership of the sample in each class that each layer estimates before it moves "
    )
    caption += "the sample: a softmax. The label itself is read off after the last layer."
    if len(view.names) > MOST_ROWS:
        caption += f" The {MOST_ROWS} classes of highest membership, of {len(view.names)}."
    title = "Memberships by layer"
    return [Figure("memberships", title, caption, views, choose=f"from {samples.name}")]


def _membership_table(
    view: ModelView, samples: Samples, rows: Sequence[int], memberships: NDArray[Any]
) -> Table:
    """The highest memberships of samples, (n, k), at the only layer."""
    lines = []
    for row, shares in zip(rows, memberships, strict=True):
        highest = shares.argsort(kind="stable")[::-1][:MOST_SHARES]
        shown = ", ".join(f"{view.names[j]} {shares[j]:.3f}" for j in highest)
        true = [] if samples.y is None else [str(samples.y[row])]
        lines.append([str(row), *true, str(view.labels[row]), shown])
    headings = ["sample", *([] if samples.y is None else ["true class"]), "label", "memberships"]
    caption = "The highest memberships that the only layer estimates before it moves the sample: "
    caption += "a softmax. The label itself is read off after the layer"
    return Table(caption, headings, lines, text_columns=len(headings))


def _membership_view(
    view: ModelView, samples: Samples, row: int, memberships: NDArray[Any]
) -> View:
    """Memberships of one sample, (layers, k)."""
    given = view.labels[row]
    name = f"sample {row}: labelled {given}"
    if samples.y is not None:
        name += f", true class {samples.y[row]}"
    # Beyond these, a sample belongs to no class at any layer as far as an eye can see.
    highest = memberships.max(axis=0).argsort(kind="stable")[::-1][:MOST_ROWS]
    chosen = sorted(highest.tolist())
    names = [view.names[j] for j in chosen]
    by_layer = memberships[:, chosen].tolist()
    layers = [str(number) for number in range(1, len(by_layer) + 1)]
    top = max(range(len(names)), key=by_layer[-1].__getitem__)
    return View(
        name,
        f"Heat map of the estimated memberships of sample {row} of {samples.name} in each class "
        f"at each layer: at the last layer most in {names[top]}, {by_layer[-1][top]:.3f}; "
        f"labelled {given}.",
        HeatMap(
            list(map(list, zip(*by_layer, strict=True))),
            rows=("class", names),
            columns=("layer", layers),
            what="membership",
        ),
    )


def _angles(view: ModelView) -> list[Block]:
    if len(view.chosen) < 2:
        return []
    names = [view.names[j] for j in view.chosen]

    def at_depth(depth: str, stage: Subspaces) -> View:
        close = stage.closeness().tolist()
        pairs = _pairs(stage, names)
        (low, one, other), (high, first, second) = min(pairs), max(pairs)
        alt = f"Heat map of the angles between the classes' subspaces {depth}: the closest are "
        alt += f"{one} and {other}, {low:.1f} degrees; the farthest are {first} and {second}, "
        chart = HeatMap(
            close,
            rows=("class", names),
            columns=("class", names),
            what="degrees",
            bounds=(low, high if high > low else low + 1.0),
            number_format=".1f",
            cells=[
                [f"{v:.0f}°" if i != j else "" for j, v in enumerate(row)]
                for i, row in enumerate(close)
            ],
            falling=True,
            mask_diagonal=True,
        )
        return View(depth, f"{alt}{high:.1f} degrees.", chart)

    caption = "The angle between two classes' subspaces, from the root mean square of the cosines "
    caption += "of all their principal angles: 90° where they are orthogonal, 0° where one lies in "
    caption += f"the other.{view.rule(len(names))}"
    views = [at_depth(depth, stage) for depth, stage in view.stages.items()]
    return [Figure("angles", "Angles between the classes", caption, views, choose="angles")]


def _spectra(view: ModelView) -> list[Block]:
    places = sorted(view.chosen.index(j) for j in view.ranked[:MOST_LINES])
    names = [view.names[view.chosen[place]] for place in places]

    def at_depth(depth: str, stage: Subspaces) -> View:
        spectra = stage.spectra[places].tolist()
        curves = [
            Curve(f"class {name}", values, color, width=1.8)
            for name, values, color in zip(names, spectra, COLORS, strict=False)
        ]
        alt = f"Line chart of the eigenvalues of each class {depth}, as shares of its energy; "
        leading = ", ".join(f"{n} {v[0]:.3f}" for n, v in zip(names, spectra, strict=True))
        lines = Lines(
            curves,
            x="direction",
            y="share of the class's energy",
            point="direction",
            number_format=".3g",
            bounds=(1e-6, 1.5 * max(values[0] for values in spectra)),
            logarithmic=True,
            named=False,
        )
        return View(depth, f"{alt}the first: {leading}.", lines)

    caption = "Eigenvalues of each class's second moment as shares of their sum, largest first, on "
    caption += "a logarithmic scale: the sooner a line falls, the fewer directions hold the class."
    caption += view.rule(len(names))
    views = [at_depth(depth, stage) for depth, stage in view.stages.items()]
    return [Figure("spectra", "Spectra of the classes", caption, views, choose="spectra")]


def _directions(view: ModelView) -> list[Block]:
    shape, guessed = picture_shape(view.drawn)
    if shape is None:
        return []
    stages = {depth: view.stages[depth] for depth in (BEFORE, AFTER) if depth in view.stages}
    if is_whitened(view.network):
        stages = {"before the whitening": as_learnt(view.network, MOST_DIRECTIONS, view.chosen)}
    d = view.drawn.moments_.n_features
    count = min(MOST_DIRECTIONS, *(b.shape[1] for stage in stages.values() for b in stage.bases))
    most = max(1, MOST_PIXELS // (d * count * len(stages)))
    drawn = sorted(view.chosen.index(j) for j in view.ranked[:most])
    caption = "The leading eigenvectors of each class as pictures, each scaled so that its largest "
    caption += "value is 1 in size; "
    caption += "grey is zero." if len(shape) == 3 else "blue and red are opposite signs."
    caption += view.rule(len(drawn))
    if guessed:
        caption += f" That the {d} features are pixels is a guess: they would fill a square, and "
        caption += "none of them seems ever to be negative."
    views = list(_direction_views(view, stages, drawn, shape, count))
    title = "Leading directions of the classes"
    return [Figure("directions", title, caption, views, choose="directions")]


def _direction_views(
    view: ModelView,
    stages: dict[str, Subspaces],
    drawn: Sequence[int],
    shape: tuple[int, ...],
    count: int,
) -> Iterator[View]:
    """A view for each depth and for each few classes."""
    numbers = [str(number) for number in range(1, count + 1)]
    for depth, stage in stages.items():
        for start in range(0, len(drawn), MOST_SIDE_BY_SIDE):
            places = drawn[start : start + MOST_SIDE_BY_SIDE]
            names = [view.names[view.chosen[place]] for place in places]
            tiles = []
            for place in places:
                basis = stage.bases[place][:, :count]
                # A direction has no sign of its own: the stronger side is shown as positive.
                signed = basis * torch.where(basis.sum(dim=0) < 0, -1.0, 1.0)
                scaled = signed / signed.abs().amax(dim=0)
                tiles.append([direction.reshape(shape).tolist() for direction in scaled.mT])
            shares = stage.spectra[places][:, :count].mT.tolist()
            size = " × ".join(map(str, shape[:2]))
            alt = f"Pictures of {size} pixels, {count} for each of {len(names)} classes: the "
            alt += f"directions along which a class has most energy, {depth}."
            which = f", {names[0]} to {names[-1]}" if len(drawn) > MOST_SIDE_BY_SIDE else ""
            images = Images(
                list(zip(*tiles, strict=True)),
                rows=("direction", numbers),
                columns=("class", names),
                what="share of the class's energy",
                figures=[[f"{share:.1%}" for share in line] for line in shares],
            )
            yield View(depth + which, alt, images)


def _objective(view: ModelView) -> list[Block]:
    if not view.with_layers:
        return []
    rates = rates_by_layer(view.network)
    words = Text(rate_words(rates))
    return (
        [words, rate_figure(rates, "The objective by layer")]
        if view.network.n_layers > 1
        else [words]
    )


def _classes(view: ModelView) -> list[Block]:
    counts = view.model.moments_.counts
    rows = []
    for place, j in enumerate(view.chosen):
        ranks = [stage.bases[place].shape[1] for stage in view.stages.values()]
        energies = [
            f"{float(stage.spectra[place, :rank].sum()):.1%}"
            for stage, rank in zip(view.stages.values(), ranks, strict=True)
        ]
        rows.append([view.names[j], f"{counts[j]:,}", str(ranks[0]), *energies])
    headings = ["class", "samples", "components"]
    headings += [f"energy in them {depth}" for depth in view.stages]
    caption = f"Samples and subspaces.{view.rule(len(rows))}".removesuffix(".")
    return [Table(caption, headings, rows)]


def _settings(view: ModelView) -> list[Block]:
    model, features = view.model, view.model.features
    own = {"estimator": model.name(), **model.own_settings()}
    if model is view.network:
        own = model._plain_settings()
    facts = {
        "feature map": "none: samples as they are" if features is None else features.kind,
        "feature map learnt from data": "yes" if features and features.learnt_from_data else "no",
        "normalize": model.normalize,
        **{key: plain(value) for key, value in own.items()},
    }
    rows = list(map(list, facts.items()))
    return [Table("Of the model", ["setting", "value"], rows, text_columns=2)]
