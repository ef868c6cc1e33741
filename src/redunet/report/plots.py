"""Views of plots in Plotly's terms: lines, heat maps, rows of pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from redunet.report.blocks import Grid, View

MARKERS = {
    "o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "D": "diamond",
    "x": "x-thin-open", "P": "cross", "X": "x", "<": "triangle-left", ">": "triangle-right",
    "h": "hexagon", "p": "pentagon",
}  # fmt: skip
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
RISING = ((0.0, "var(--low)"), (0.5, "var(--middle)"), (1.0, "var(--high)"))
SIGNED = ((0.0, "var(--under)"), (0.5, "var(--none)"), (1.0, "var(--over)"))
MOST_LABELLED = 12
"""Heat maps of more columns than this have no figures written into their cells."""


@dataclass(frozen=True)
class Curve:
    """A line of a plot: its name, its values, how it is drawn."""

    name: str
    values: Sequence[float]
    color: str
    marker: str | None = None
    dash: str = "-"
    width: float = 2.0
    deviations: Sequence[float] | None = None

    def trace(self, first: int, x_name: str, number_format: str) -> dict[str, Any]:
        """The line for Plotly, its points numbered from ``first``."""
        spread = " ± %{error_y.array:.3f}" if self.deviations else ""
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines+markers" if self.marker else "lines",
            "name": text(self.name),
            "x": list(range(first, first + len(self.values))),
            "y": [significant(value) for value in self.values],
            "line": {"color": self.color, "dash": DASHES[self.dash], "width": self.width},
            "hovertemplate": f"%{{fullData.name}}<br>{x_name} %{{x}}: "
            f"%{{y:{number_format}}}{spread}<extra></extra>",
        }
        if self.marker:
            marker = {"symbol": MARKERS[self.marker], "size": 8, "color": self.color}
            trace["marker"] = marker | {"line": {"color": self.color, "width": 1.5}}
        if self.deviations:
            bars = [significant(value) for value in self.deviations]
            trace["error_y"] = {"type": "data", "array": bars, "color": self.color, "width": 4}
        return trace


def lines(
    name: str,
    alt: str,
    table: Grid,
    curves: Sequence[Curve],
    *,
    first: int,
    x: tuple[str, str],
    y: str,
    number_format: str = ".3f",
    y_axis: Mapping[str, Any] | None = None,
) -> View:
    """Lines over whole numbers.

    Parameters
    ----------
    name, alt, table
        As for `View`.
    curves : sequence of Curve
    first : int
        The number of the first point of each.
    x : (str, str)
        What the axis is called, and what one of its numbers is.
    y : str
        What the axis is called.
    number_format : str, default=".3f"
        Of a value that the pointer asks for.
    y_axis : mapping, default=None
        More about the axis, for Plotly.
    """
    most = max(len(curve.values) for curve in curves)
    ticks: dict[str, Any] = {"dtick": 1} if most <= 15 else {}
    layout = {
        "hovermode": "closest",
        "xaxis": {"title": {"text": x[0]}, "showgrid": False, "zeroline": False, **ticks},
        "yaxis": {"title": {"text": y}, "zeroline": False, **(y_axis or {})},
    }
    traces = [
        curve.trace(first, x[1], number_format) | {"legendrank": rank}
        for rank, curve in enumerate(curves, 1)
    ]
    # What comes later is drawn over what came before: the boldest lines last.
    order = sorted(range(len(curves)), key=lambda index: curves[index].width)
    return View(name, alt, table, [traces[index] for index in order], layout)


def heat_map(
    name: str,
    alt: str,
    table: Grid,
    values: Sequence[Sequence[float | None]],
    *,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    what: str,
    bounds: tuple[float, float] = (0.0, 1.0),
    number_format: str = ".3f",
    cells: Sequence[Sequence[str]] | None = None,
    said: Sequence[Sequence[str]] | None = None,
    falling: bool = False,
) -> View:
    """A heat map, its first row at the top.

    Parameters
    ----------
    name, alt, table
        As for `View`.
    values : rows of numbers
        None leaves a cell empty.
    rows, columns : (str, sequence of str)
        What the axis is called, and what each row or column is.
    what : str
        What a value is.
    bounds : (float, float), default=(0, 1)
        The values of the first and the last colour.
    number_format : str, default=".3f"
        Of a value.
    cells : rows of str, default=None
        What is written into the cells, where there is room.
    said : rows of str, default=None
        More that the pointer brings out about each cell.
    falling : bool, default=False
        Whether small values have the strong colours.
    """
    scale = [(1 - at, color) for at, color in reversed(RISING)] if falling else [*RISING]
    more = "<br>%{customdata}" if said else ""
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": [[None if v is None else significant(v) for v in row] for row in values],
        "x": [text(column) for column in columns[1]],
        "y": [text(row) for row in rows[1]],
        "zmin": bounds[0],
        "zmax": bounds[1],
        "colorscale": scale,
        "showlegend": False,
        "hoverongaps": False,
        "xgap": 1 if len(columns[1]) <= MOST_LABELLED else 0,
        "ygap": 1 if len(rows[1]) <= MOST_LABELLED else 0,
        "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {"text": what, "side": "right"}},
        "hovertemplate": f"{rows[0]} %{{y}}<br>{columns[0]} %{{x}}<br>"
        f"{what} %{{z:{number_format}}}{more}<extra></extra>",
    }
    if said:
        trace["customdata"] = [[text(one) for one in row] for row in said]
    if cells and len(columns[1]) <= MOST_LABELLED:
        trace |= {"text": [list(row) for row in cells], "texttemplate": "%{text}"}
    axis = {"type": "category", "showgrid": False, "ticks": "", "zeroline": False}
    layout = {
        "xaxis": {**axis, "title": {"text": columns[0]}, "tickangle": 0},
        "yaxis": {**axis, "title": {"text": rows[0]}, "autorange": "reversed"},
    }
    return View(name, alt, table, [trace], layout, rows=len(rows[1]))


def pictures(
    name: str,
    alt: str,
    table: Grid,
    tiles: Sequence[Sequence[Sequence[Sequence[Any]]]],
    *,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
) -> View:
    """Pictures side by side, a row of them for each name; values are between −1 and 1.

    Parameters
    ----------
    name, alt, table
        As for `View`.
    tiles : rows of pictures of shape (h, w) or (h, w, 3)
        All of one shape; a row may have fewer than there are columns.
    rows, columns : (str, sequence of str)
        What the axis is called, and what each row or column is.
    """
    height, width = len(tiles[0][0]), len(tiles[0][0][0])
    traces = []
    for row, (row_name, line) in enumerate(zip(rows[1], tiles, strict=True)):
        for column, (column_name, tile) in enumerate(zip(columns[1], line, strict=False)):
            where = f"{rows[0]} {row_name}, {columns[0]} {column_name}"
            at = {"x0": column * (width + 1), "y0": row * (height + 1), "dx": 1, "dy": 1}
            traces.append(_tile(tile, where) | at)
    last_x, last_y = (width + 1) * len(columns[1]) - 1, (height + 1) * len(rows[1]) - 1
    axis = {"showgrid": False, "zeroline": False, "ticks": ""}

    def ticks(title: str, names: Sequence[str], size: int) -> dict[str, Any]:
        middles = [i * (size + 1) + (size - 1) / 2 for i in range(len(names))]
        named = {"tickvals": middles, "ticktext": [text(one) for one in names]}
        return axis | named | {"title": {"text": title}}

    layout = {
        "plot_bgcolor": "var(--rule)",
        "xaxis": ticks(columns[0], columns[1], width)
        | {"range": [-0.5, last_x - 0.5], "side": "top", "constrain": "domain"},
        "yaxis": ticks(rows[0], rows[1], height)
        | {"range": [last_y - 0.5, -0.5], "scaleanchor": "x", "constrain": "domain"},
    }
    return View(name, alt, table, traces, layout, height_per_width=last_y / last_x)


def _tile(tile: Sequence[Sequence[Any]], where: str) -> dict[str, Any]:
    """One picture for Plotly: its own colours where it has three channels."""
    if isinstance(tile[0][0], Sequence):
        colors = [[[round(127.5 * (1 + value)) for value in p] for p in row] for row in tile]
        return {
            "type": "image",
            "z": colors,
            "name": text(where),
            "hovertemplate": "%{fullData.name}<br>red, green, blue %{z}<extra></extra>",
        }
    return {
        "type": "heatmap",
        "z": [[round(value, 2) for value in row] for row in tile],
        "zmin": -1,
        "zmax": 1,
        "colorscale": SIGNED,
        "showscale": False,
        "showlegend": False,
        "name": text(where),
        "hovertemplate": "%{fullData.name}<br>%{z:.2f}<extra></extra>",
    }


def text(words: str) -> str:
    """Words as Plotly shows them: no tag in them is taken for one."""
    return escape(words, quote=False)


def significant(value: float) -> float:
    """A number to five significant figures, which is what a plot can use.

    Examples
    --------
    >>> significant(0.123456789), significant(12345.678)
    (0.12346, 12346.0)
    """
    if not math.isfinite(value):
        raise ValueError(f"expected a number to draw, got {value}")
    return float(f"{value:.5g}")
