"""Figures as PNG files, by Matplotlib, without touching its global state."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from redunet.report.blocks import INK, STRONG, Curve, Figure, HeatMap, Images, Lines
from redunet.report.canvas import DPI, MUTED, RULE, TEXT, WIDTH, heading, plain, saved
from redunet.report.numbers import Record
from redunet.report.png_grids import all_images, heat_maps
from redunet.report.record_figures import accuracy_lines

DASHES: dict[str, Any] = {"--": (0, (5, 2)), "": "none"}


def png(figure: Figure, most: int = 1) -> bytes:
    """A figure as a PNG file: its views of lines or of pictures, one above the other, or heat maps.

    Parameters
    ----------
    figure : Figure
    most : int, default=1
        So many of its heat maps are drawn side by side, if they have the same rows and columns;
        the first one on the right, since a page opens on what a network ends with.
    """
    views = figure.views
    charts = [(view.name, view.drawing) for view in views if isinstance(view.drawing, HeatMap)]
    if charts:
        first = charts[0][1]
        alike = [
            one for one in charts if (one[1].rows, one[1].columns) == (first.rows, first.columns)
        ]
        return heat_maps(figure, alike[:most][::-1])
    tiles = [(view.name, view.drawing) for view in views if isinstance(view.drawing, Images)]
    if tiles:
        return all_images(figure, tiles)
    lines = [(view.name, view.drawing) for view in views if isinstance(view.drawing, Lines)]
    heights = [_height(drawing) for _, drawing in lines]
    notes = textwrap.wrap(figure.caption, 118)
    head = 0.62 + 0.17 * len(notes)
    total = head + sum(heights)
    canvas = Canvas(figsize=(WIDTH, total), dpi=DPI)
    heading(canvas, figure.title, notes, total)
    top = total - head
    for (name, drawing), height in zip(lines, heights, strict=True):
        place = (0.085, (top - height + 0.55) / total, 0.565, (height - 0.8) / total)
        axes = canvas.add_axes(place)
        draw_lines(axes, drawing)
        if len(lines) > 1:
            axes.set_title(name, fontsize=9, color=MUTED, loc="left", pad=8)
        top -= height
    return saved(canvas)


def _height(lines: Lines) -> float:
    return max(3.4, 1.0 + 0.3 * len(lines.curves))


def draw_lines(axes: Axes, lines: Lines) -> None:
    """Lines in a plain frame, each named at its end."""
    plain(axes, lines.x, lines.y)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    most = max(len(curve.values) for curve in lines.curves)
    high = max(max(curve.values) for curve in lines.curves)
    axes.set_ylim(*(lines.bounds or (0.0, 1.08 * high or 1.0)))
    if most <= 15:
        axes.set_xlim(lines.first - 0.15, lines.first + most - 0.85)
        axes.set_xticks(range(lines.first, lines.first + most))
    for curve in sorted(lines.curves, key=lambda curve: curve.width):
        x = range(lines.first, lines.first + len(curve.values))
        bars = curve.deviations if curve.marker else None
        # Within bounds that are given, a part of a line may lie outside.
        axes.errorbar(
            x, curve.values, bars, capsize=4, clip_on=lines.named is False, **_style(curve)
        )
    if lines.logarithmic:
        axes.set_yscale("log")
    if lines.level is not None:
        axes.axhline(lines.level, color=MUTED, linewidth=1, zorder=1)
    if lines.named:
        _name_lines(axes, lines)
        return
    handles = [Line2D([], [], **_style(curve)) for curve in lines.curves]
    legend = axes.legend(
        handles,
        [textwrap.fill(curve.name, 37) for curve in lines.curves],
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        frameon=False,
        fontsize=8.5,
        labelcolor=TEXT,
    )
    for words in legend.get_texts():
        words.set_parse_math(False)


def _style(curve: Curve) -> dict[str, Any]:
    color = TEXT if curve.color == INK else curve.color
    hollow = not curve.dash or curve.color == INK
    return {
        "color": color,
        "marker": curve.marker,
        "markersize": 9 if hollow else 5,
        "markerfacecolor": "none" if hollow else color,
        "linewidth": curve.width,
        "linestyle": DASHES.get(curve.dash, curve.dash),
    }


def _name_lines(axes: Axes, lines: Lines) -> None:
    """Write each line's last value and name beside its end, no two on one spot."""
    low, high = axes.get_ylim()
    order = sorted(lines.curves, key=lambda curve: curve.values[-1])
    texts = [textwrap.wrap(lines.end(curve), 37) for curve in order]
    inches = axes.get_window_extent().height / DPI
    heights = [(0.16 * len(words) + 0.05) / inches for words in texts]
    wanted = [(curve.values[-1] - low) / (high - low) for curve in order]
    for curve, words, y in zip(order, texts, apart(wanted, heights), strict=True):
        style = _style(curve)
        axes.annotate(
            "\n".join(words),
            (lines.first + len(curve.values) - 1, curve.values[-1]),
            (1.045, y),
            textcoords="axes fraction",
            va="center",
            fontsize=8.5,
            fontweight="bold" if curve.width > STRONG else "normal",
            color=TEXT,
            parse_math=False,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": style["color"],
                "linestyle": style["linestyle"] if curve.dash else "-",
                "linewidth": 1.0,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 5,
            },
        )


def apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Places nearest to those wanted, in ascending order, for labels that must not overlap.

    Less the room that the labels below take up, the places are an isotonic
    regression of those wanted: the largest over j of the smallest over k of
    the means from j to k.
    """
    room = np.cumsum([0.0] + [(a + b) / 2 for a, b in pairwise(heights)])
    v = np.asarray(wanted) - room
    places = [
        max(min(v[j:k].mean() for k in range(i + 1, len(v) + 1)) for j in range(i + 1))
        for i in range(len(v))
    ]
    return list(np.clip(places, 0.0, max(0.0, 1.0 - room[-1])) + room)


def overview(comparison: Record, demonstration: Record) -> bytes:
    """The picture of the README: accuracy beside other methods, and the hashes after forgetting.

    Parameters
    ----------
    comparison, demonstration : mapping
        Records of `redunet compare` and of `redunet demo`.
    """
    canvas = Canvas(figsize=(9.6, 5.6), dpi=DPI)
    title = f"{comparison['title']}, two classes at a time: accuracy on all classes seen"
    canvas.text(0.012, 0.975, title, fontsize=11.5, fontweight="bold", color=TEXT, va="top")
    draw_lines(canvas.add_axes((0.06, 0.33, 0.64, 0.57)), accuracy_lines(comparison))
    forget = demonstration["forget"]
    same = "identical" if forget["after"] == forget["never_seen"] else "different"
    title = f"{demonstration['title'].capitalize()}: class {forget['class']} is forgotten, and the "
    title += f"two model files are {same}, to the byte"
    canvas.text(0.012, 0.195, title, fontsize=11.5, fontweight="bold", color=TEXT, va="top")
    rows = {
        f"learnt, then forgot class {forget['class']}": forget["after"],
        f"never saw class {forget['class']}": forget["never_seen"],
    }
    for (words, digest), y in zip(rows.items(), (0.105, 0.045), strict=True):
        canvas.text(0.03, y, words, fontsize=9.5, color=TEXT, va="center")
        canvas.text(
            0.27,
            y,
            f"sha256 {digest}",
            fontsize=8.5,
            family="monospace",
            color="#0a5c2b" if same == "identical" else "#b42318",
            va="center",
            bbox={"facecolor": "#f0f7f2", "edgecolor": "none", "boxstyle": "round,pad=0.35"},
        )
    return saved(canvas)
