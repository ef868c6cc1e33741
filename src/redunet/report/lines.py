"""Lines over whole numbers, drawn by Matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from redunet.report.blocks import INK, STRONG, Curve, Figure, Lines
from redunet.report.drawing import DPI, RULE, TEXT, axes_in, blank, plain

DASHES: dict[str, Any] = {"--": (0, (5, 2)), "": "none"}


def draw_chart(lines: Lines, figure: Figure | None) -> Canvas:
    """A chart of lines, with room for their names on the right."""
    height = max(3.4, 1.0 + 0.3 * len(lines.curves))
    canvas = blank(height, figure)
    left = 0.1 if lines.logarithmic else 0.085
    draw_lines(axes_in(canvas, left, 0.55, 0.65 - left, height - 0.8), lines)
    return canvas


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
        if not np.isfinite(curve.values).all():
            raise ValueError(f"expected numbers to draw, got {curve.values}")
        x = range(lines.first, lines.first + len(curve.values))
        bars = curve.deviations if curve.marker else None
        # Within bounds that are given, a part of a line may lie outside.
        axes.errorbar(
            x, curve.values, bars, capsize=4, clip_on=lines.named is False, **_style(curve)
        )
    if lines.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
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
