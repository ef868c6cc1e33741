"""Heat maps and small pictures, drawn by Matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure as Canvas
from matplotlib.image import AxesImage
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from redunet.report.blocks import Figure, HeatMap, Images
from redunet.report.drawing import MUTED, RULE, TEXT, WIDTH, axes_in, blank, plain

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
"""Of names beside one heat map, and where several or many pictures share the width."""


def draw_heat_maps(charts: Sequence[tuple[str, HeatMap]], figure: Figure | None) -> Canvas:
    """Heat maps side by side, all with one scale of colours; of several, each under its name."""
    several, first = len(charts) > 1, charts[0][1]
    most = FEW_LETTERS if several else MOST_LETTERS
    names, beside = (_shown(first, axis[1], most)[1] for axis in (first.columns, first.rows))
    longest, widest = (LETTER * max(map(len, some)) for some in (names, beside))
    left, end, gap = (0.12, 0.86, 0.03) if several else (max(1.04, 0.5 + widest) / WIDTH, 0.81, 0.0)
    width = (end - left + gap) / len(charts) - gap
    side = width * WIDTH if several else max(2.6, min(6.0, 0.42 * len(first.rows[1])))
    upright = several or longest > width * WIDTH / len(names)
    below = 0.4 + longest if upright else 0.6
    titles = [textwrap.wrap(name, int(14 * width * WIDTH)) for name, _ in charts]
    above = 0.15 * max(map(len, titles)) if several else 0.15
    canvas = blank(above + side + below, figure)
    lows, highs = zip(*(chart.bounds for _, chart in charts), strict=True)
    for index, (_, chart) in enumerate(charts):
        axes = axes_in(canvas, left + index * (width + gap), below, width, side)
        alike = replace(chart, bounds=(min(lows), max(highs)))
        image = _heat_map(axes, alike, most)
        if upright:
            style: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "fontsize": 8}
            for label in axes.get_xticklabels():
                label.set(ha="right", va="center", **style)
        if several:
            axes.set_ylabel("")
            axes.tick_params(axis="y", labelleft=index == 0, labelsize=8)
            style = {"fontsize": 9, "color": MUTED, "loc": "left", "pad": 6}
            axes.set_title("\n".join(titles[index]), parse_math=False, **style)
    scale = axes_in(canvas, end + (0.02 if several else 0.04), below, 0.018, side)
    percent = PercentFormatter(1) if first.number_format.endswith("%") else None
    bar = canvas.colorbar(image, cax=scale, format=percent)
    bar.set_label(first.what, fontsize=9, color=TEXT)
    bar.ax.tick_params(labelsize=8, color=MUTED)
    bar.outline.set_visible(False)
    return canvas


def _heat_map(axes: Axes, chart: HeatMap, letters: int) -> AxesImage:
    """A heat map in its axes, with names of at most so many letters."""
    values = np.array([[np.nan if v is None else v for v in row] for row in chart.values], float)
    if chart.mask_diagonal:
        np.fill_diagonal(values, np.nan)
    if np.isinf(values).any():
        raise ValueError("expected numbers to draw, got infinite ones")
    colors = LinearSegmentedColormap.from_list("", BLUES[::-1] if chart.falling else BLUES)
    low, high = chart.bounds
    image = axes.imshow(values, colors, aspect="auto", interpolation="none", vmin=low, vmax=high)
    plain(axes, chart.columns[0], chart.rows[0])
    for put, names in ((axes.set_xticks, chart.columns[1]), (axes.set_yticks, chart.rows[1])):
        put(*_shown(chart, names, letters), parse_math=False)
    if chart.groups:
        axes.tick_params(length=0)
        for (middle, _), (_, number) in zip(chart.middles(), chart.groups, strict=True):
            end = middle + number / 2
            axes.axhline(end, color="white", linewidth=0.5)
            axes.axvline(end, color="white", linewidth=0.5)
    if chart.cells and len(chart.rows[1]) <= MOST_WRITTEN:
        size = 6 if letters == FEW_LETTERS else 7.5
        for i, row in enumerate(chart.cells):
            for j, words in enumerate(row):
                strong = (values[i, j] - low) / ((high - low) or 1.0)
                ink = "white" if (1 - strong if chart.falling else strong) > 0.7 else TEXT
                if words:
                    axes.text(j, i, words, ha="center", va="center", fontsize=size, color=ink)
    return image


def _shown(chart: HeatMap, names: Sequence[str], letters: int) -> tuple[list[float], list[str]]:
    """The names of groups, or of as many rows or columns as there is room for, and their places."""
    step = -(-len(names) // MOST_LABELS)
    named = [(float(place), names[place]) for place in range(0, len(names), step)]
    places, shown = zip(*(chart.middles() if chart.groups else named), strict=True)
    return list(places), [_short(name, letters) for name in shown]


def _short(name: str, letters: int = FEW_LETTERS) -> str:
    """A name on one line, cut off where it is longer."""
    name = " ".join(name.split())
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def draw_images(views: Sequence[tuple[str, Images]], figure: Figure | None) -> Canvas:
    """Small pictures in rows, view below view, each under its name."""
    sheets = [_sheet(images) for _, images in views]
    left, above = (0.05, 0.42) if views[0][1].named else (0.012, 0.24)
    width = 0.988 - left
    heights = [width * WIDTH * sheet.shape[0] / sheet.shape[1] for sheet in sheets]
    top = sum(height + above + 0.12 for height in heights)
    canvas = blank(top, figure)
    for (name, images), sheet, height in zip(views, sheets, heights, strict=True):
        style: dict[str, Any] = {"fontsize": 9, "color": MUTED, "va": "bottom"}
        y = (top - 0.18) / canvas.get_figheight()
        canvas.text(0.012, y, name, parse_math=False, **style)
        axes = axes_in(canvas, left, top - above - height, width, height)
        axes.imshow(sheet, interpolation="none", aspect="auto")
        axes.spines[:].set_visible(False)
        axes.set(xticks=[], yticks=[])
        if images.named:
            _name_pictures(axes, images, sheet.shape)
        top -= height + above + 0.12
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
