"""Lines over whole numbers, drawn by Matplotlib."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from redunet.report.blocks import INK, MOST_POINTS, STRONG, Curve, Figure, Lines
from redunet.report.drawing import RULE, TEXT, canvas_of, plain

DASHES: dict[str, Any] = {"--": (0, (5, 2)), "": "none"}


def draw_chart(lines: Lines, figure: Figure | None) -> Canvas:
    """A chart of lines, with a legend on its right."""
    canvas, axes = canvas_of(max(3.4, 1.0 + 0.24 * len(lines.curves)), figure)
    draw_lines(axes, lines)
    return canvas


def draw_lines(axes: Axes, lines: Lines) -> None:
    """Lines in a plain frame, and beside it what they are called."""
    plain(axes, lines.x, lines.y)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    most = max(len(curve.values) for curve in lines.curves)
    high = max(max(curve.values) for curve in lines.curves)
    axes.set_ylim(*(lines.bounds or (0.0, 1.08 * high or 1.0)))
    if most <= MOST_POINTS:
        axes.set_xlim(lines.first - 0.15, lines.first + most - 0.85)
        axes.set_xticks(range(lines.first, lines.first + most))
    for curve in sorted(lines.curves, key=lambda curve: curve.width):
        if not np.isfinite(curve.values).all():
            raise ValueError(f"expected numbers to draw, got {curve.values}")
        x = range(lines.first, lines.first + len(curve.values))
        bars = curve.deviations if curve.marker else None
        # Within bounds that are given, a part of a line may lie outside.
        axes.errorbar(x, curve.values, bars, capsize=4, clip_on=not lines.named, **_style(curve))
    if lines.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    _legend(axes, lines)


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


def _legend(axes: Axes, lines: Lines) -> None:
    """The names of the lines; where their ends matter, those with the highest ends first."""
    curves = list(lines.curves)
    if lines.named:
        curves.sort(key=lambda curve: -curve.values[-1])
    names = [lines.end(curve) if lines.named else curve.name for curve in curves]
    legend = axes.legend(
        [Line2D([], [], **_style(curve)) for curve in curves],
        [textwrap.fill(name, 37) for name in names],
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        frameon=False,
        fontsize=8.5,
        labelcolor=TEXT,
        handlelength=3,
    )
    for curve, words in zip(curves, legend.get_texts(), strict=True):
        strong = lines.named and curve.width > STRONG
        words.set(parse_math=False, fontweight="bold" if strong else "normal")
