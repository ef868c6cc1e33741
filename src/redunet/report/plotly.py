"""Figures in Plotly's terms, for the page; a colour such as ``var(--ink)`` is the page's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from redunet.report.blocks import INK, STRONG, Curve, HeatMap, Images, Lines, View

MARKERS = {
    "o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "D": "diamond",
    "x": "x-thin-open", "P": "cross", "X": "x", "<": "triangle-left", ">": "triangle-right",
    "h": "hexagon", "p": "pentagon", "*": "star", "8": "octagon", "H": "hexagon2",
    "d": "diamond-tall",
}  # fmt: skip
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot", "": "solid"}
RISING = ((0.0, "var(--low)"), (0.5, "var(--middle)"), (1.0, "var(--high)"))
SIGNED = ((0.0, "var(--under)"), (0.5, "var(--none)"), (1.0, "var(--over)"))
MOST_LABELLED = 12
"""Heat maps of more columns than this have no figures written into their cells."""

Parts = dict[str, Any]


def drawn(view: View) -> Parts:
    """A view as the page's script draws it."""
    match view.drawing:
        case Lines():
            parts = _lines(view.drawing)
        case HeatMap():
            parts = _heat_map(view.drawing)
        case Images():
            parts = _images(view.drawing)
    return {"alt": view.alt, **parts}


def _lines(lines: Lines) -> Parts:
    most = max(len(curve.values) for curve in lines.curves)
    room = 0.02 * most + 0.04
    x_axis: Parts = {"range": [lines.first - room, lines.first + most - 1 + room]}
    x_axis |= {"dtick": 1} if most <= 15 else {}
    y_axis: Parts = {"rangemode": "tozero"}
    if lines.bounds:
        bounds = [math.log10(b) for b in lines.bounds] if lines.logarithmic else [*lines.bounds]
        y_axis = {"range": bounds}
    if lines.logarithmic:
        y_axis |= {"type": "log", "dtick": 1, "exponentformat": "power"}
    layout: Parts = {
        "hovermode": "closest",
        "xaxis": {"title": {"text": lines.x}, "showgrid": False, "zeroline": False, **x_axis},
        "yaxis": {"title": {"text": lines.y}, "zeroline": False, **y_axis},
    }
    if lines.level is not None:
        across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
        ends_at = {"y0": lines.level, "y1": lines.level}
        layout["shapes"] = [across | ends_at | {"line": {"color": "var(--muted)", "width": 1}}]
    traces = [_trace(lines, curve, rank) for rank, curve in enumerate(lines.curves, 1)]
    # What comes later is drawn over what came before: the boldest lines last.
    order = sorted(range(len(traces)), key=lambda index: lines.curves[index].width)
    ends = [
        {
            "x": lines.first + len(curve.values) - 1,
            "y": significant(curve.values[-1]),
            "text": _strong(text(lines.end(curve)), curve),
            "color": _color(curve.color),
        }
        for curve in lines.curves
        if lines.named
    ]
    return {"traces": [traces[index] for index in order], "layout": layout, "ends": ends}


def _trace(lines: Lines, curve: Curve, rank: int) -> Parts:
    bars = [significant(value) for value in curve.deviations or ()] if curve.marker else []
    spread = f" ± %{{error_y.array:{lines.number_format}}}" if bars else ""
    color = _color(curve.color)
    mode = ("lines" if curve.dash else "") + ("+markers" if curve.marker else "")
    trace: Parts = {
        "type": "scatter",
        "mode": mode.strip("+"),
        "name": text(curve.name),
        "legendrank": rank,
        "x": list(range(lines.first, lines.first + len(curve.values))),
        "y": [significant(value) for value in curve.values],
        "line": {"color": color, "dash": DASHES[curve.dash], "width": curve.width},
        "hovertemplate": f"%{{fullData.name}}<br>{lines.point} %{{x}}: "
        f"%{{y:{lines.number_format}}}{spread}<extra></extra>",
    }
    if curve.marker:
        hollow = "" if curve.dash else "-open"
        marker = {"symbol": MARKERS[curve.marker] + hollow, "size": 8 if curve.dash else 13}
        trace["marker"] = marker | {"color": color, "line": {"color": color, "width": 1.5}}
    if bars:
        trace["error_y"] = {"type": "data", "array": bars, "color": color, "width": 4}
    return trace


def _heat_map(chart: HeatMap) -> Parts:
    scale = [(1 - at, color) for at, color in reversed(RISING)] if chart.falling else [*RISING]
    values = [[None if v is None else significant(v) for v in row] for row in chart.values]
    bar = {"thickness": 12, "outlinewidth": 0, "title": {"text": chart.what, "side": "right"}}
    bar |= {"tickformat": chart.number_format} if chart.number_format.endswith("%") else {}
    common = {
        "type": "heatmap",
        "x": [text(column) for column in chart.columns[1]],
        "y": [text(row) for row in chart.rows[1]],
        "showlegend": False,
        "hoverongaps": False,
        "xgap": 1 if len(chart.columns[1]) <= MOST_LABELLED else 0,
        "ygap": 1 if len(chart.rows[1]) <= MOST_LABELLED else 0,
        "hovertemplate": f"{chart.rows[0]} %{{y}}<br>{chart.columns[0]} %{{x}}<br>"
        f"{chart.what} %{{z:{chart.number_format}}}"
        + ("<br>%{customdata}" if chart.notes else "")
        + "<extra></extra>",
    }
    if chart.notes:
        common["customdata"] = [[text(one) for one in row] for row in chart.notes]
    if chart.cells and len(chart.columns[1]) <= MOST_LABELLED:
        common |= {"text": [list(row) for row in chart.cells], "texttemplate": "%{text}"}
    bounds = {"zmin": significant(chart.bounds[0]), "zmax": significant(chart.bounds[1])}
    colored = common | bounds | {"z": values, "colorscale": scale, "colorbar": bar}
    traces = [colored]
    if chart.mask_diagonal:
        plain = {"colorscale": [[0, "var(--shade)"], [1, "var(--shade)"]], "showscale": False}
        traces = [
            _part(colored, diagonal=False),
            _part(common | {"z": values}, diagonal=True) | plain,
        ]
    if chart.groups:
        return _grouped(chart, colored)
    axis = {"type": "category", "showgrid": False, "ticks": "", "zeroline": False}
    layout = {
        "xaxis": {**axis, "title": {"text": chart.columns[0]}, "tickangle": 0},
        "yaxis": {**axis, "title": {"text": chart.rows[0]}, "autorange": "reversed"},
    }
    return {"traces": traces, "layout": layout, "rows": len(chart.rows[1])}


def _grouped(chart: HeatMap, colored: Parts) -> Parts:
    """A heat map of so many rows that only groups of them have names: a square."""
    places = {"x": list(range(len(chart.columns[1]))), "y": list(range(len(chart.rows[1])))}
    hover = {"hovertemplate": f"{chart.what} %{{z:{chart.number_format}}}<extra></extra>"}
    middles, names = zip(*chart.middles(), strict=True)
    ticks = {"tickvals": middles, "ticktext": [text(name) for name in names]}
    axis = {"showgrid": False, "ticks": "", "zeroline": False, "constrain": "domain", **ticks}
    layout = {
        "xaxis": {**axis, "title": {"text": chart.columns[0]}},
        "yaxis": {
            **axis,
            "title": {"text": chart.rows[0]},
            "autorange": "reversed",
            "scaleanchor": "x",
        },
    }
    # So many values take room in a page: as many places as the pointer shows.
    shown = [[None if v is None else round(v, 3) for v in row] for row in chart.values]
    traces = [colored | places | hover | {"z": shown}]
    return {"traces": traces, "layout": layout, "height_per_width": 0.9}


def _part(trace: Parts, *, diagonal: bool) -> Parts:
    """A heat map of which only the diagonal is left, or all but it."""

    def kept(rows: Sequence[Sequence[Any]], blank: Any) -> list[list[Any]]:
        return [
            [one if (i == j) is diagonal else blank for j, one in enumerate(row)]
            for i, row in enumerate(rows)
        ]

    found = trace | {"z": kept(trace["z"], None)}
    return found | {"text": kept(trace["text"], "")} if "text" in trace else found


def _images(images: Images) -> Parts:
    (rows, row_names), (columns, column_names) = images.rows, images.columns
    height, width = len(images.tiles[0][0]), len(images.tiles[0][0][0])
    traces = []
    for i, line in enumerate(images.tiles):
        for j, tile in enumerate(line):
            where = text(f"{rows} {row_names[i]}, {columns} {column_names[j]}")
            at = {"x0": j * (width + 1), "y0": i * (height + 1), "dx": 1, "dy": 1}
            traces.append(_tile(tile) | {"name": where} | at)
    last_x = (width + 1) * len(column_names) - 1
    last_y = (height + 1) * len(row_names) - 1

    def ticks(title: str, names: Sequence[str], size: int) -> Parts:
        middles = [i * (size + 1) + (size - 1) / 2 for i in range(len(names))]
        named = {"tickvals": middles, "ticktext": [text(one) for one in names]}
        plain = {"showgrid": False, "zeroline": False, "ticks": "", "constrain": "domain"}
        if not images.named:
            return plain | {"showticklabels": False}
        return plain | named | {"title": {"text": title}}

    layout = {
        "plot_bgcolor": "var(--rule)",
        "xaxis": ticks(columns, column_names, width)
        | {"range": [-0.5, last_x - 0.5], "side": "top"},
        "yaxis": ticks(rows, row_names, height)
        | {"range": [last_y - 0.5, -0.5], "scaleanchor": "x"},
    }
    return {"traces": traces, "layout": layout, "height_per_width": last_y / last_x}


def _tile(tile: Sequence[Sequence[Any]]) -> Parts:
    """One picture: its own colours where it has three channels."""
    if isinstance(tile[0][0], Sequence):
        colors = [[[round(127.5 * (1 + value)) for value in p] for p in row] for row in tile]
        hover = "%{fullData.name}<br>red, green, blue %{z}<extra></extra>"
        return {"type": "image", "z": colors, "hovertemplate": hover}
    return {
        "type": "heatmap",
        "z": [[round(value, 2) for value in row] for row in tile],
        "zmin": -1,
        "zmax": 1,
        "colorscale": SIGNED,
        "showscale": False,
        "showlegend": False,
        "hovertemplate": "%{fullData.name}<br>%{z:.2f}<extra></extra>",
    }


def _strong(words: str, curve: Curve) -> str:
    return f"<b>{words}</b>" if curve.width > STRONG else words


def _color(color: str) -> str:
    return "var(--ink)" if color == INK else color


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
