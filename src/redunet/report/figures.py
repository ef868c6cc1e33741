"""Figures as PNG files, and their views as SVG for a page."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure as Canvas

from redunet.report.blocks import Figure, HeatMap, Images, Lines, View
from redunet.report.drawing import as_png, as_svg
from redunet.report.grids import draw_heat_maps, draw_images
from redunet.report.lines import draw_charts


def png(figure: Figure, most: int = 1) -> bytes:
    """A figure as a PNG file: its views of lines or of pictures, one above the other, or heat maps.

    Parameters
    ----------
    figure : Figure
    most : int, default=1
        So many of its heat maps are drawn side by side, if they have the same rows and columns;
        the first one on the right, since a page opens on what a network ends with.
    """
    views, first = figure.views, figure.views[0].drawing
    if isinstance(first, HeatMap):
        axes = first.rows, first.columns
        alike = [
            one
            for one in views
            if isinstance(one.drawing, HeatMap) and (one.drawing.rows, one.drawing.columns) == axes
        ]
        views = alike[:most][::-1]
    return as_png(_drawn(views, figure))


def svg(view: View, name: str) -> str:
    """A view as an element of a page on which no other picture has its name."""
    return as_svg(_drawn([view]), name)


def _drawn(views: Sequence[View], figure: Figure | None = None) -> Canvas:
    """Views of one kind together."""
    drawings = [(view.name, view.drawing) for view in views]
    if charts := [(name, one) for name, one in drawings if isinstance(one, Lines)]:
        return draw_charts(charts, figure)
    if heat_maps := [(name, one) for name, one in drawings if isinstance(one, HeatMap)]:
        return draw_heat_maps(heat_maps, figure)
    return draw_images([(name, one) for name, one in drawings if isinstance(one, Images)], figure)
