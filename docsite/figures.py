"""The pictures of docs/idea.md, computed by the package.

``python -m docsite.figures`` writes them to docs/figures.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from docsite.source import ROOT
from redunet import ClassMoments, ReduNetClassifier, Schedule, build_network, rate_reduction
from redunet.core.grid import unit_rows
from redunet.core.layer import Sharpness
from redunet.core.second_moments import SecondMoments
from redunet.core.subspaces import Subspaces

FOLDER = ROOT / "docs" / "figures"
BLUE, ORANGE, GREEN = "#3b6fd4", "#e07b1a", "#2f9e6e"
COLOURS = (BLUE, ORANGE, GREEN)
TEXT, MUTED, RULE = "#1b1f24", "#57606a", "#dfe3e8"
LEARNT = 1200
"""Digits that are learnt; the others are new to the model."""
SHARP = Sharpness(60.0, "relative")


def canvas(width: float, height: float) -> Figure:
    """A white sheet, in inches."""
    return Figure(figsize=(width, height), dpi=110, facecolor="white", layout="constrained")


def plain(axes: Axes, title: str) -> Axes:
    """Axes for a drawing: a title, equal scales, no numbers."""
    axes.set_title(title, fontsize=14, color=TEXT, pad=8)
    axes.set_aspect("equal")
    axes.set(xticks=[], yticks=[], xlim=(-1.35, 1.35), ylim=(-1.35, 1.35))
    for side in axes.spines.values():
        side.set_color(RULE)
    return axes


def cloud(angle: float, n: int, width: float, seed: int) -> NDArray[np.float64]:
    """Samples around a line through 0, (n, 2)."""
    draw = np.random.RandomState(seed)
    along = draw.uniform(-1, 1, n)
    along = np.sign(along) * (0.35 + 0.65 * abs(along))
    across = width * draw.standard_normal(n)
    a = np.deg2rad(angle)
    turned = np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
    rows: NDArray[np.float64] = np.stack([along, across], axis=1) @ turned
    return rows


def ellipse(
    axes: Axes, second_moment: NDArray[Any], colour: str, scale: float = 1.4, **style: Any
) -> None:
    """The ellipse of a mean second moment, (2, 2): as long in each direction as samples are."""
    values, vectors = np.linalg.eigh(second_moment)
    size = 2 * scale * np.sqrt(np.maximum(values, 1e-4))
    angle = np.rad2deg(np.arctan2(vectors[1, 1], vectors[0, 1]))
    shape = Ellipse((0, 0), size[1], size[0], angle=float(angle), color=colour, **style)
    axes.add_patch(shape)


def moments() -> Figure:
    """Samples of two classes, and all that is remembered of them."""
    figure = canvas(9, 3.7)
    left, middle, right = figure.subplots(1, 3)
    plain(left, "1. samples\narrive")
    plain(middle, "2. each class\nbecomes moments")
    plain(right, "3. samples are\nthrown away")
    for colour, angle, seed in ((BLUE, 20, 0), (ORANGE, 75, 1)):
        X = cloud(angle, 60, 0.09, seed)
        second = X.T @ X / len(X)
        for axes, alpha in ((left, 0.9), (middle, 0.25)):
            axes.scatter(*X.T, s=14, color=colour, alpha=alpha, linewidths=0)
        for axes in (middle, right):
            ellipse(axes, second, colour, alpha=0.25)
            ellipse(axes, second, colour, fill=False, lw=2)
    right.text(0, -1.2, "count, sum, second moment", ha="center", fontsize=11, color=MUTED)
    return figure


def sums() -> Figure:
    """The integers of two batches add up to those of all samples."""
    figure = canvas(9, 2.7)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(-0.5, 2.6))
    X = cloud(30, 40, 0.2, 2)
    shuffled = X[np.random.RandomState(0).permutation(40)]
    rows = (("Monday", X[:14]), ("+ Tuesday", X[14:]), ("= both, any order", shuffled))
    for height, (name, samples) in zip((2, 1, 0), rows, strict=True):
        moment = ClassMoments(2).update(samples, ["a"] * len(samples))["a"]
        (a, b), (c, d) = moment.second_moment.tolist()
        style: dict[str, Any] = {"va": "center", "fontsize": 12.5, "color": TEXT}
        axes.text(0.02, height, name, **style)
        axes.text(0.31, height, f"n = {moment.count}", family="monospace", **style)
        matrix = f"⎡ {a:>18,} {b:>18,} ⎤\n⎣ {c:>18,} {d:>18,} ⎦"
        axes.text(0.43, height, matrix, family="monospace", **style)
    axes.axhline(0.5, color=MUTED, linewidth=1)
    return figure


def rate() -> Figure:
    """ΔR is small where classes overlap, large where they are orthogonal."""
    figure = canvas(9, 4.1)
    for axes, angles in zip(figure.subplots(1, 3), ((40, 55), (25, 70), (0, 90)), strict=True):
        clouds = [cloud(angle, 60, 0.07, seed) for seed, angle in enumerate(angles)]
        X, y = np.concatenate(clouds), np.repeat([0, 1], 60)
        known = ClassMoments(2).update(X, y)
        value = rate_reduction(known.Sigma(), known.counts, 0.5)
        plain(axes, f"ΔR = {value.delta_R:.2f}")
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        ellipse(axes, unit.T @ unit / len(unit), MUTED, 1.05, fill=False, lw=1.5, ls="--")
        for colour, label in ((BLUE, 0), (ORANGE, 1)):
            mine = unit[y == label]
            ellipse(axes, mine.T @ mine / len(mine), colour, 1.05, alpha=0.3)
            axes.scatter(*mine.T, s=8, color=colour, alpha=0.6, linewidths=0)
        said = f"all together R = {value.R:.2f}\nby class $R_c$ = {value.R_c:.2f}"
        axes.set_xlabel(said, fontsize=13, color=MUTED)
    return figure


def layer() -> Figure:
    """What one layer adds to samples: E pushes apart what all share, C_j keeps a class together."""
    figure = canvas(9, 3.8)
    clouds = [cloud(angle, 24, 0.12, seed) for seed, angle in enumerate((25, 65))]
    X, y = np.concatenate(clouds), np.repeat([0, 1], 24)
    network = build_network(ClassMoments(2).update(X, y), 0.5, Schedule(1, 0.6, 1.0, "relative"))
    one = network.layers[0]
    Z = unit_rows(X)
    weights = one.memberships(Z, SHARP)
    expand = one.step * Z @ one.E
    pulled = one.step * torch.einsum("nj,jde,ne->nd", weights * one.gamma, one.C, Z)
    panels = (
        ("expand\n" r"$+\eta\,E\,z$", expand),
        ("compress\n" r"$-\eta\,\Sigma_j\,\gamma_j \pi_j C_j\,z$", -pulled),
        ("both: what\none layer does", expand - pulled),
    )
    for axes, (title, arrows) in zip(figure.subplots(1, 3), panels, strict=True):
        plain(axes, title).set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
        axes.add_patch(Ellipse((0, 0), 2, 2, fill=False, color=RULE))
        axes.quiver(
            *Z.T.numpy(), *arrows.T.numpy(), angles="xy", scale_units="xy", scale=0.5,
            color=[COLOURS[label] for label in y], width=0.008, alpha=0.9,
        )  # fmt: skip
        axes.scatter(*Z.T.numpy(), s=10, color=[COLOURS[label] for label in y], linewidths=0)
    return figure


def turning() -> tuple[Figure, dict[int, float]]:
    """Three classes in space, before, between and after layers; the least angle by depth."""
    draw = np.random.RandomState(3)
    directions = np.array([[1.0, 0.25, 0.25], [0.35, 1.0, 0.3], [0.3, 0.35, 1.0]])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    along = draw.uniform(0.5, 1, (3, 50, 1)) * draw.choice([-1, 1], (3, 50, 1))
    X = (along * directions[:, None] + 0.07 * draw.standard_normal((3, 50, 3))).reshape(-1, 3)
    y = np.repeat([0, 1, 2], 50)
    known = ClassMoments(3).update(X, y)
    least: dict[int, float] = {}
    figure = canvas(9, 3.6)
    for column, depth in enumerate((0, 4, 20), 1):
        network = build_network(known, 0.5, Schedule(depth, 0.3, 1.0, "relative"))
        Z = network.transform(unit_rows(X), SHARP).numpy()
        axes: Any = figure.add_subplot(1, 3, column, projection="3d", computed_zorder=False)
        angles = Subspaces.of(network.layers.last, 1, 1).closeness()
        least[depth] = float(angles[angles > 0].min())
        title = f"after {depth} layers" if depth else "before"
        axes.set_title(f"{title}\nleast angle {least[depth]:.0f}°", fontsize=14, color=TEXT)
        u, v = np.mgrid[0 : 2 * np.pi : 40j, 0 : np.pi : 20j]
        ball = np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
        axes.plot_wireframe(*ball, color=RULE, linewidth=0.4)
        for j, colour in enumerate(COLOURS):
            axes.scatter(*Z[y == j].T, s=10, color=colour, depthshade=False)
            end = Z[y == j] * np.sign(Z[y == j] @ Z[y == j][0])[:, None]
            middle = end.mean(0) / np.linalg.norm(end.mean(0))
            axes.plot(*np.stack([-middle, middle]).T, color=colour, linewidth=1.5)
        axes.view_init(22, 38)
        axes.set_axis_off()
        axes.set_box_aspect((1, 1, 1), zoom=1.75)
    return figure, least


@cache
def of_digits() -> ReduNetClassifier:
    """A model of handwritten digits, with larger steps than the paper's."""
    X, y = load_digits(return_X_y=True)
    return ReduNetClassifier(
        n_layers=30, step=0.3, step_decay=0.95, step_kind="relative", n_components=8
    ).fit(X[:LEARNT], y[:LEARNT])


def mean_angle(moments: SecondMoments) -> float:
    """The mean angle between the subspaces of ten classes, in degrees."""
    angles = Subspaces.of(moments, 8, 8).closeness()
    return float(angles.sum() / 90)


def digits() -> Figure:
    """The same on handwritten digits: ΔR by layer, angles between classes before and after."""
    layers = of_digits().network_.layers
    figure = canvas(9, 3.3)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1, 1))
    left.plot([rate.delta_R for rate in layers.rates], color=BLUE, linewidth=2)
    left.set_title("ΔR by layer", fontsize=14, color=TEXT)
    left.set_xlabel("layer", color=MUTED)
    left.spines[["top", "right"]].set_visible(False)
    for axes, title, moments in (
        (middle, "before", layers.first),
        (right, "after", layers.last),
    ):
        angles = Subspaces.of(moments, 8, 8).closeness().numpy()
        angles[np.eye(10, dtype=bool)] = np.nan
        shown = axes.imshow(angles, "Blues", vmin=40, vmax=90)
        axes.set_title(f"{title}: {mean_angle(moments):.0f}°", fontsize=14, color=TEXT)
        axes.set(xticks=range(10), yticks=range(10))
    figure.colorbar(shown, ax=(middle, right), label="angle, degrees", shrink=0.8)
    return figure


def answer() -> Figure:
    """How sure the network is of a digit's class, layer by layer."""
    X, y = (rows[LEARNT:] for rows in load_digits(return_X_y=True))
    lambdas = Sharpness(20.0, "relative")
    shares = of_digits().network_.memberships(unit_rows(X), lambdas).numpy()
    top = np.sort(shares[0], axis=1)
    row = int(np.argmin(top[:, -1] - top[:, -2] + 10 * (shares[-1].argmax(axis=1) != y)))
    figure = canvas(9, 3.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 2.4))
    left.imshow(X[row].reshape(8, 8), "Greys")
    left.set(xticks=[], yticks=[])
    left.set_title(f"a new {y[row]}", fontsize=14, color=TEXT)
    for j in range(10):
        mine = j == y[row]
        curve = shares[:, row, j]
        right.plot(curve, color=BLUE if mine else "#b8c0cc", linewidth=2.2 if mine else 1.2)
        if curve.max() > 0.15:
            at = int(curve.argmax())
            right.annotate(
                str(j), (at, curve[at]), (0, 4), textcoords="offset points", ha="center",
                color=BLUE if mine else MUTED,
            )  # fmt: skip
    right.set_title("estimated membership in each class", fontsize=14, color=TEXT)
    right.set_xlabel("layer", color=MUTED)
    right.set_ylim(0, 1.1)
    right.spines[["top", "right"]].set_visible(False)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "moments": moments,
    "sums": sums,
    "rate": rate,
    "layer": layer,
    "turning": lambda: turning()[0],
    "digits": digits,
    "answer": answer,
}


def write(folder: Path) -> None:
    """Draw all figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        sheet = io.BytesIO()
        draw().savefig(sheet)
        few = Image.open(sheet).convert("RGB").quantize(256)  # a third of the bytes
        few.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
