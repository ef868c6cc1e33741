"""Figures as PNG files, and their views as SVG for a page."""

from __future__ import annotations

from matplotlib.figure import Figure as Canvas

from redunet.report.blocks import Figure, HeatMap, Lines, View
from redunet.report.drawing import as_png, as_svg
from redunet.report.grids import draw_heat_map, draw_images
from redunet.report.lines import draw_chart


def png(figure: Figure) -> bytes:
    """The first view of a figure as a PNG file, with the figure's title and caption."""
    return as_png(_drawn(figure.views[0], figure))


def svg(view: View, name: str) -> str:
    """A view as an element of a page on which no other picture has its name."""
    return as_svg(_drawn(view), name)


def _drawn(view: View, figure: Figure | None = None) -> Canvas:
    match view.drawing:
        case Lines() as lines:
            return draw_chart(lines, figure)
        case HeatMap() as chart:
            return draw_heat_map(chart, figure)
        case images:
            return draw_images(images, figure)
