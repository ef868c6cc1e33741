"""What all figures of Matplotlib share: colours, headings, plain axes, and how they are saved."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

TEXT, MUTED, RULE = "#1b1f24", "#57606a", "#e6e8eb"
DPI, WIDTH = 200, 8.0


def heading(canvas: Canvas, title: str, notes: Sequence[str], height: float) -> None:
    """Title and notes at the top of a canvas that is so many inches high."""
    title = textwrap.shorten(title, 90, placeholder=" …")
    style: dict[str, Any] = {"va": "top", "parse_math": False}
    at = 0.012, 1 - 0.14 / height
    canvas.text(*at, title, fontsize=11.5, fontweight="bold", color=TEXT, **style)
    at = 0.012, 1 - 0.4 / height
    canvas.text(*at, "\n".join(notes), fontsize=8.5, color=MUTED, linespacing=1.3, **style)


def plain(axes: Axes, x: str, y: str) -> None:
    """Take away what is not needed, name the axes."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=TEXT, labelsize=9)
    axes.set_xlabel(x, fontsize=9, color=TEXT)
    axes.set_ylabel(y, fontsize=9, color=TEXT)


def saved(canvas: Canvas) -> bytes:
    """A canvas as a PNG file."""
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", facecolor="white")
    return buffer.getvalue()
