"""Figures by Matplotlib, without touching its global state: as PNG files, and as SVG for a page."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from redunet.report.blocks import Figure

TEXT, MUTED, RULE = "#1b1f24", "#57606a", "#e6e8eb"
DPI, WIDTH = 200, 8.0

THEMED = {TEXT: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)", "#ffffff": "var(--page)"}
"""Colours that a page has of its own, in each of its themes."""


def canvas_of(height: float, figure: Figure | None = None) -> tuple[Canvas, Axes]:
    """A canvas of some inches with axes; above them a figure's title and caption, where given.

    A page has title and caption outside the picture.
    """
    notes = textwrap.wrap(figure.caption, 118) if figure else []
    above = 0.45 + 0.17 * len(notes) if figure else 0.0
    canvas = Canvas(figsize=(WIDTH, height + above), dpi=DPI, layout="constrained")
    axes = canvas.add_subplot()
    if figure:
        total = height + above
        canvas.set_layout_engine("constrained", rect=(0, 0, 1, 1 - above / total))
        title = textwrap.shorten(figure.title, 90, placeholder=" …")
        left: dict[str, Any] = {"x": 0.012, "va": "top", "parse_math": False}
        heading: dict[str, Any] = {"fontsize": 11.5, "fontweight": "bold", "color": TEXT}
        canvas.text(y=1 - 0.12 / total, s=title, **heading, **left)
        canvas.text(y=1 - 0.38 / total, s="\n".join(notes), fontsize=8.5, color=MUTED, **left)
    return canvas, axes


def plain(axes: Axes, x: str, y: str) -> None:
    """Take away what is not needed, name the axes."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=TEXT, labelsize=9)
    axes.set_xlabel(x, fontsize=9, color=TEXT)
    axes.set_ylabel(y, fontsize=9, color=TEXT)


def as_png(canvas: Canvas) -> bytes:
    """A canvas as a PNG file."""
    return _saved(canvas, format="png", facecolor="white")


def as_svg(canvas: Canvas, name: str) -> str:
    """A canvas as an element of a page, in the colours of the page's theme.

    Text stays text, in a font of the reader's own.

    Parameters
    ----------
    canvas : Canvas
    name : str
        No other picture on the page has it, so that no two elements have one id.
    """
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        text = _saved(canvas, format="svg", transparent=True, metadata={"Date": None}).decode()
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    inside = re.sub(r"<[^>]+>", _of_the_page, text[text.index("<svg") :])
    return re.sub(r"\s*\n\s*(?=<)", "\n", inside)


def _saved(canvas: Canvas, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Names of classes may be in any script; a page has them as text.
        warnings.filterwarnings("ignore", message=".*missing from font")
        canvas.savefig(buffer, **options)
    return buffer.getvalue()


def _of_the_page(tag: re.Match[str]) -> str:
    """A tag without ids that nothing refers to, size or font, and in the page's colours."""
    text = re.sub(r' (id="[\w.]+_\d+"|(width|height)="[\d.]+pt")', "", tag[0])
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    return re.sub(r"#[0-9a-f]{6}\b", _color, text)


def _color(color: re.Match[str]) -> str:
    """A colour of the page; any other is nearer to white by a third on a dark ground."""
    parts = [int(color[0][at : at + 2], 16) for at in (1, 3, 5)]
    lighter = "#" + "".join(f"{part + (255 - part) // 3:02x}" for part in parts)
    return THEMED.get(color[0], f"light-dark({color[0]}, {lighter})")
