"""Lines in a plain frame, each named at its end instead of in a legend."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED = "#1b1f24", "#6e7781"
DPI = 200


class Line(NamedTuple):
    """A line of a figure: its last value and name, where it goes, how it is drawn."""

    label: str
    values: Sequence[float]
    style: dict[str, Any]
    deviations: Sequence[float] | None = None


def framed(title: str, notes: str, height: float) -> tuple[Figure, Axes]:
    """A figure 8 inches wide, with a title and room for the names of lines on the right."""
    figure = Figure(figsize=(8.0, height), dpi=DPI)
    said = textwrap.wrap(notes, 118)
    top = height - 0.62 - 0.17 * len(said)
    axes = figure.add_axes((0.07, 0.55 / height, 0.58, (top - 0.55) / height))
    plain(axes, "", "")
    title = textwrap.shorten(title, 90, placeholder=" …")
    style: dict[str, Any] = {"va": "top", "parse_math": False}
    where = 0.012, 1 - 0.14 / height
    figure.text(*where, title, fontsize=11.5, fontweight="bold", color=INK, **style)
    where = 0.012, 1 - 0.4 / height
    figure.text(*where, "\n".join(said), fontsize=8.5, color="#57606a", linespacing=1.3, **style)
    return figure, axes


def name_lines(axes: Axes, lines: Sequence[Line], first: int, *, parse_math: bool = False) -> None:
    """Write each line's label beside its end, no two on one spot."""
    low, high = axes.get_ylim()
    order = sorted(lines, key=lambda line: line.values[-1])
    texts = [textwrap.wrap(line.label, 50 if parse_math else 37) for line in order]
    inches = axes.get_window_extent().height / DPI
    heights = [(0.16 * len(text) + 0.07) / inches for text in texts]
    wanted = [(line.values[-1] - low) / (high - low) for line in order]
    for line, text, y in zip(order, texts, _apart(wanted, heights), strict=True):
        axes.annotate(
            "\n".join(text),
            (first + len(line.values) - 1, line.values[-1]),
            (1.045, y),
            textcoords="axes fraction",
            va="center",
            fontsize=8.5,
            color=INK,
            parse_math=parse_math,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.style["color"],
                "linestyle": line.style.get("linestyle", "-"),
                "linewidth": 1.0,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 5,
            },
        )


def _apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
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


def plain(axes: Axes, x: str, y: str) -> None:
    """Take away what is not needed, name the axes."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=INK, labelsize=9)
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.grid(axis="y", color="#e6e8eb", linewidth=0.8)
    axes.set_axisbelow(True)


def png(figure: Figure) -> bytes:
    """The bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white")
    return buffer.getvalue()
