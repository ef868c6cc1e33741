"""What the layers of a model do to samples of its classes: cosines between them, and margins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from redunet.report.blocks import Block, Curve, Figure, HeatMap, Lines, Text, View
from redunet.report.look import AFTER, BEFORE, Look

HIGHEST = 99.0
"""Percent of the cosines between two samples that have a colour of their own."""

PERCENTILES = range(1, 100)
STYLES = {BEFORE: ("#D55E00", "-.", 2.0), AFTER: ("#0072B2", "-", 2.8)}
HALF_WAY = ("#56B4E9", "--", 2.0)


def cosines(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """The size of the cosine between samples, (n, n), less their mean; of samples, (n, d)."""
    centred = Z - Z.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    found: NDArray[np.float64] = np.abs(centred @ centred.T).clip(max=1.0)
    return found


def means(found: NDArray[np.float64], counts: list[int]) -> tuple[float, float]:
    """The mean cosine of two samples of one class, and of two classes.

    Parameters
    ----------
    found : ndarray of shape (n, n)
    counts : list of int
        Samples of each class, one class after another.
    """
    classes = np.repeat(np.arange(len(counts)), counts)
    others = classes[:, None] != classes
    same = ~others & ~np.eye(len(classes), dtype=bool)
    return float(found[same].mean()) if same.any() else 1.0, float(found[others].mean())


def similarity_blocks(look: Look) -> list[Block]:
    """The cosines between samples of each class, before the layers and after them."""
    if len(look.compared) < 2 or not look.depths:
        return []
    counts = [len(rows) for _, rows in look.compared]
    names = [f"{name} {row}" for name, rows in look.compared for row in rows]
    by_depth = {name: cosines(one.Z.astype(np.float64)) for name, one in look.depths.items()}
    apart = ~np.eye(len(names), dtype=bool)
    most = max(float(np.percentile(found[apart], HIGHEST)) for found in by_depth.values())
    most = min(1.0, np.ceil(20 * most) / 20)
    views, said = [], []
    for depth, found in by_depth.items():
        inside, across = means(found, counts)
        said.append(f"{inside:.3f} and {across:.3f} {depth}")
        alt = f"Heat map of the cosines between samples {depth}, class after class: on average "
        alt += f"{inside:.3f} within a class and {across:.3f} between two."
        chart = HeatMap(
            found.tolist(),
            rows=("samples, class after class", names),
            columns=("samples, class after class", names),
            what="size of the cosine",
            bounds=(0.0, most),
            groups=[(name, len(rows)) for name, rows in look.compared],
        )
        views.append(View(depth, alt, chart))
    caption = "The size of the cosine between samples, less the mean of all that are shown: 1 "
    caption += "where two are on one line, 0 where they are orthogonal; "
    caption += f"from {most:.2g} on there is one colour.{look.rule(len(look.compared))}"
    words = f"The mean cosine within a class and between two: {', '.join(said[::-1])}."
    figure = Figure("similarity", "Cosines between samples", caption, views, choose="samples")
    return [figure, Text(words)]


def margin_blocks(look: Look) -> list[Block]:
    """The distribution of the margins of samples, before the layers and after them."""
    if not look.depths:
        return []
    curves, said = [], []
    for depth, passed in look.depths.items():
        values = np.percentile(passed.margins, PERCENTILES).tolist()
        color, dash, width = STYLES.get(depth, HALF_WAY)
        curves.append(Curve(depth, values, color, dash=dash, width=width))
        right = float((passed.margins > 0).mean())
        said.append(f"{depth} {right:.1%} of them are above zero, half above {values[49]:.3g}")
    lows, highs = ([curve.values[at] for curve in curves] for at in (0, -1))
    room = 0.05 * (max(highs) - min(lows)) or 1.0  # where all are equal
    lines = Lines(
        curves[::-1],
        x="percent of the samples, those of smallest margin first",
        y="margin",
        point="percent",
        number_format=".3g",
        bounds=(min(lows) - room, max(highs) + room),
        named=False,
        level=0.0,
    )
    n = f"{len(look.followed):,} samples"
    caption = f"The margins of {n}, sorted: the score of the true class less the highest of the "
    caption += "others. Below zero a label is wrong. Before the layers the same read-out has the "
    caption += "same moments, and no layers."
    alt = f"Line chart of the sorted margins of {n}: {'; '.join(said[::-1])}."
    words = f"Of {n} with their margins: {'; '.join(said[::-1])}."
    return [
        Figure("margins", "Margins of samples", caption, [View("margins", alt, lines)]),
        Text(words),
    ]
