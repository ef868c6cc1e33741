"""Heat maps and small pictures as PNG files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure as Canvas
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from redunet.report.blocks import Figure, HeatMap, Images
from redunet.report.canvas import DPI, MUTED, RULE, TEXT, WIDTH, heading, plain, saved

BLUES = ("#f4f7fb", "#a6cfee", "#08407a")
SIGNED = LinearSegmentedColormap.from_list("", ("#b2182b", "#ffffff", "#2166ac"))
ENLARGED, GAP = 6, 4
"""Of small pictures: the side of a pixel, and the room between two pictures."""

MOST_LABELS = 30
"""Names of rows and columns that a heat map has room for; of more, every second, third, …"""


def heat_maps(figure: Figure, charts: Sequence[tuple[str, HeatMap]]) -> bytes:
    """Heat maps side by side, all with one scale of colours."""
    several, first = len(charts) > 1, charts[0][1]
    left, room, gap, below = (0.12, 0.74, 0.03, 0.0) if several else (0.13, 0.68, 0.0, 0.6)
    width = (room + gap) / len(charts) - gap
    side = width * WIDTH if several else max(2.6, min(6.0, 0.42 * len(first.rows[1])))
    notes = textwrap.wrap(figure.caption, 118)
    head = 0.62 + 0.17 * len(notes) + 0.15
    titles = [textwrap.wrap(name, int(14 * width * WIDTH)) for name, _ in charts]
    if several:  # names of columns stand upright
        longest = max(len(name) for name in _shown(first, first.columns[1])[1])
        below = 0.4 + 0.075 * longest
        head += 0.15 * (max(map(len, titles)) - 1)
    total = head + side + below
    canvas = Canvas(figsize=(WIDTH, total), dpi=DPI)
    heading(canvas, figure.title, notes, total)
    lows, highs = zip(*(chart.bounds for _, chart in charts), strict=True)
    for index, (_, chart) in enumerate(charts):
        at = left + index * (width + gap)
        axes = canvas.add_axes((at, below / total, width, side / total))
        alike = replace(chart, bounds=(min(lows), max(highs)))
        image = _heat_map(axes, alike, several=several, first=index == 0)
        if several:
            style: dict[str, Any] = {"fontsize": 9, "color": MUTED, "loc": "left", "pad": 6}
            axes.set_title("\n".join(titles[index]), parse_math=False, **style)
    place = (left + room + (0.02 if several else 0.04), below / total, 0.018, side / total)
    bar = canvas.colorbar(image, cax=canvas.add_axes(place))
    bar.set_label(first.what, fontsize=9, color=TEXT)
    bar.ax.tick_params(labelsize=8, color=MUTED)
    bar.outline.set_visible(False)
    return saved(canvas)


def _heat_map(axes: Axes, chart: HeatMap, several: bool, first: bool) -> AxesImage:
    """A heat map in its axes; of several, names of rows stand beside the first alone."""
    count = len(chart.rows[1])
    values = np.array([[np.nan if v is None else v for v in row] for row in chart.values])
    if chart.mask_diagonal:
        np.fill_diagonal(values, np.nan)
    colors = LinearSegmentedColormap.from_list("", BLUES[::-1] if chart.falling else BLUES)
    low, high = chart.bounds
    image = axes.imshow(values, colors, vmin=low, vmax=high, aspect="auto")
    plain(axes, chart.columns[0], "" if several else chart.rows[0])
    for put, names in ((axes.set_xticks, chart.columns[1]), (axes.set_yticks, chart.rows[1])):
        put(*_shown(chart, names), parse_math=False)
    if chart.groups:
        axes.tick_params(length=0)
        for (middle, _), (_, number) in zip(chart.middles(), chart.groups, strict=True):
            end = middle + number / 2
            axes.axhline(end, color="white", linewidth=0.5)
            axes.axvline(end, color="white", linewidth=0.5)
    if several:
        axes.tick_params(axis="x", labelrotation=90, labelsize=8)
        axes.tick_params(axis="y", labelleft=first, labelsize=8)
    if chart.cells and count <= 12:
        for i, row in enumerate(chart.cells):
            for j, words in enumerate(row):
                strong = (values[i, j] - low) / ((high - low) or 1.0)
                ink = "white" if (1 - strong if chart.falling else strong) > 0.6 else TEXT
                size = 6 if several else 7.5
                axes.text(j, i, words, ha="center", va="center", fontsize=size, color=ink)
    return image


def _shown(chart: HeatMap, names: Sequence[str]) -> tuple[list[float], list[str]]:
    """The names of groups, or of as many rows or columns as there is room for, and their places."""
    step = -(-len(chart.rows[1]) // MOST_LABELS)
    named = [(float(place), names[place]) for place in range(0, len(names), step)]
    places, shown = zip(*(chart.middles() if chart.groups else named), strict=True)
    return list(places), [textwrap.shorten(name, 12, placeholder="…") for name in shown]


def all_images(figure: Figure, views: Sequence[tuple[str, Images]]) -> bytes:
    """Small pictures in rows, view below view."""
    notes = textwrap.wrap(figure.caption, 118)
    sheets = [_sheet(images) for _, images in views]
    left, above = (0.05, 0.42) if views[0][1].named else (0.012, 0.24)
    width = 0.988 - left
    heights = [width * WIDTH * sheet.shape[0] / sheet.shape[1] for sheet in sheets]
    head = 0.55 + 0.17 * len(notes)
    total = head + sum(height + above + 0.12 for height in heights)
    canvas = Canvas(figsize=(WIDTH, total), dpi=DPI)
    heading(canvas, figure.title, notes, total)
    top = total - head
    for (name, images), sheet, height in zip(views, sheets, heights, strict=True):
        style: dict[str, Any] = {"fontsize": 9, "color": MUTED, "va": "bottom"}
        canvas.text(0.012, (top - 0.18) / total, name, parse_math=False, **style)
        axes = canvas.add_axes((left, (top - above - height) / total, width, height / total))
        axes.imshow(sheet, interpolation="nearest", aspect="auto")
        axes.spines[:].set_visible(False)
        axes.set(xticks=[], yticks=[])
        if images.named:
            _name_pictures(axes, images, sheet.shape)
        top -= height + above + 0.12
    return saved(canvas)


def _name_pictures(axes: Axes, images: Images, shape: tuple[int, ...]) -> None:
    for put, names, size in (
        (axes.set_xticks, images.columns[1], shape[1]),
        (axes.set_yticks, images.rows[1], shape[0]),
    ):
        step = (size + GAP) / len(names)
        middles = [step * (index + 0.5) - GAP / 2 for index in range(len(names))]
        put(
            middles,
            [textwrap.shorten(name, 12, placeholder="…") for name in names],
            parse_math=False,
        )
    axes.tick_params(length=0, labelsize=8, colors=TEXT, top=True, labeltop=True, labelbottom=False)


def _sheet(images: Images) -> NDArray[np.float64]:
    """All pictures of a view with some room between them: colours of shape (height, width, 3)."""
    shares = (np.array([list(row) for row in images.tiles], dtype=float) + 1) / 2
    tiles = SIGNED(shares)[..., :3] if shares.ndim == 4 else shares.clip(0, 1)
    rows, columns, height, width, _ = tiles.shape
    enlarged = tiles.repeat(ENLARGED, axis=2).repeat(ENLARGED, axis=3)
    h, w = ENLARGED * height + GAP, ENLARGED * width + GAP
    # White is a value of pictures of one channel, so between them it is grey, as on the page.
    between = to_rgb(RULE if shares.ndim == 4 else "white")
    sheet = np.full((rows * h - GAP, columns * w - GAP, 3), between)
    for i in range(rows):
        for j in range(columns):
            sheet[i * h : i * h + h - GAP, j * w : j * w + w - GAP] = enlarged[i, j]
    return sheet
