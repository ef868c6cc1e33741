"""Heat maps and small pictures, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure as Canvas
from matplotlib.image import AxesImage
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from redunet.report.blocks import Figure, HeatMap, Images
from redunet.report.drawing import MUTED, RULE, TEXT, WIDTH, canvas_of, plain

BLUES = ("#f4f7fb", "#a6cfee", "#08407a")
SIGNED = LinearSegmentedColormap.from_list("", ("#b2182b", "#ffffff", "#2166ac"))
ENLARGED, GAP = 3, 2
"""Of small pictures: the side of a pixel, and the room between two pictures."""

MOST_LABELS = 30
"""Names of rows or columns that a heat map has room for; of more, every second, third, …"""

MOST_WRITTEN = 12
"""Rows of a heat map whose cells have room for words."""

LETTER = 0.075
"""Inches that a letter of a name takes, on average."""

MOST_LETTERS, FEW_LETTERS = 22, 12
"""Of names beside a heat map, and beside small pictures."""


def draw_heat_map(chart: HeatMap, figure: Figure | None) -> Canvas:
    """A heat map and its scale of colours."""
    canvas, axes = canvas_of(max(3.2, min(6.6, 0.6 + 0.42 * len(chart.rows[1]))), figure)
    image = _heat_map(axes, chart)
    names = [label.get_text() for label in axes.get_xticklabels()]
    if max(map(len, names)) * len(names) * LETTER > 0.75 * WIDTH:
        for label in axes.get_xticklabels():
            label.set(rotation=90, rotation_mode="anchor", fontsize=8, ha="right", va="center")
    percent = PercentFormatter(1) if chart.number_format.endswith("%") else None
    bar = canvas.colorbar(image, ax=axes, format=percent, fraction=0.03, aspect=30)
    bar.set_label(chart.what, fontsize=9, color=TEXT)
    bar.ax.tick_params(labelsize=8, color=MUTED)
    bar.outline.set_visible(False)
    return canvas


def _heat_map(axes: Axes, chart: HeatMap) -> AxesImage:
    values = np.array([[np.nan if v is None else v for v in row] for row in chart.values], float)
    if chart.mask_diagonal:
        np.fill_diagonal(values, np.nan)
    if np.isinf(values).any():
        raise ValueError("expected numbers to draw, got infinite ones")
    colors = LinearSegmentedColormap.from_list("", BLUES[::-1] if chart.falling else BLUES)
    low, high = chart.bounds
    image = axes.imshow(values, colors, aspect="auto", interpolation="none", vmin=low, vmax=high)
    plain(axes, chart.columns[0], chart.rows[0])
    axes.set_xticks(*_shown(chart.columns[1]), parse_math=False)
    axes.set_yticks(*_shown(chart.rows[1]), parse_math=False)
    if chart.cells and len(chart.rows[1]) <= MOST_WRITTEN:
        for i, row in enumerate(chart.cells):
            for j, words in enumerate(row):
                strong = (values[i, j] - low) / ((high - low) or 1.0)
                ink = "white" if (1 - strong if chart.falling else strong) > 0.7 else TEXT
                if words:
                    axes.text(j, i, words, ha="center", va="center", fontsize=7.5, color=ink)
    return image


def _shown(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """As many names of rows or columns as there is room for, and their places."""
    places = list(range(0, len(names), -(-len(names) // MOST_LABELS)))
    return places, [_short(names[place], MOST_LETTERS) for place in places]


def _short(name: str, letters: int = FEW_LETTERS) -> str:
    """A name on one line, cut off where it is longer."""
    name = " ".join(name.split())
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def draw_images(images: Images, figure: Figure | None) -> Canvas:
    """Small pictures in rows, with the names of rows and columns."""
    sheet = _sheet(images)
    canvas, axes = canvas_of(0.4 + 0.93 * WIDTH * sheet.shape[0] / sheet.shape[1], figure)
    axes.imshow(sheet, interpolation="none", aspect="auto")
    axes.spines[:].set_visible(False)
    _name_pictures(axes, images, sheet.shape)
    return canvas


def _name_pictures(axes: Axes, images: Images, shape: tuple[int, ...]) -> None:
    for put, names, size in (
        (axes.set_xticks, images.columns[1], shape[1]),
        (axes.set_yticks, images.rows[1], shape[0]),
    ):
        step = (size + GAP) / len(names)
        middles = [step * (index + 0.5) - GAP / 2 for index in range(len(names))]
        put(middles, list(map(_short, names)), parse_math=False)
    axes.tick_params(length=0, labelsize=8, colors=TEXT, top=True, labeltop=True, labelbottom=False)


def _sheet(images: Images) -> NDArray[np.float64]:
    """All pictures of a view with some room between them: colours of shape (height, width, 4)."""
    shares = (np.array([list(row) for row in images.tiles], dtype=float) + 1) / 2
    tiles = SIGNED(shares)[..., :3] if shares.ndim == 4 else shares.clip(0, 1)
    rows, columns, height, width, _ = tiles.shape
    enlarged = tiles.repeat(ENLARGED, axis=2).repeat(ENLARGED, axis=3)
    h, w = ENLARGED * height + GAP, ENLARGED * width + GAP
    # White is a value of pictures of one channel, so between them it is grey.
    between = to_rgba(RULE if shares.ndim == 4 else "#ffffff00")
    sheet = np.full((rows * h - GAP, columns * w - GAP, 4), between)
    for i in range(rows):
        for j in range(columns):
            sheet[i * h : i * h + h - GAP, j * w : j * w + w - GAP, :3] = enlarged[i, j]
            sheet[i * h : i * h + h - GAP, j * w : j * w + w - GAP, 3] = 1
    return sheet
