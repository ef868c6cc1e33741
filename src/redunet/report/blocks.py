"""The parts of a report, before they have a format: text, tables, figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

INK = "ink"
"""The colour of text, whatever the theme makes of it; all others are hexadecimal."""

STRONG = 2.5
"""Lines wider than this matter most; their names are set in bold."""

MOST_POINTS, MOST_COLUMNS = 15, 40
"""A table of lines has a row for each point where there are more; heat maps are thinned."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str


@dataclass(frozen=True)
class Code:
    """A command to type."""

    kind: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class Table:
    """A table; so many columns from the left are text, and some rows are set in bold."""

    kind: ClassVar = "table"
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1
    strong: Collection[int] = ()


@dataclass(frozen=True)
class Curve:
    """A line of a plot: its name, its values, how it is drawn.

    ``marker`` and ``dash`` are Matplotlib's letters; ``dash`` "" draws markers alone.
    """

    name: str
    values: Sequence[float]
    color: str
    marker: str | None = None
    dash: str = "-"
    width: float = 2.0
    deviations: Sequence[float] | None = None


@dataclass(frozen=True)
class Lines:
    """Lines over whole numbers.

    Parameters
    ----------
    curves : sequence of Curve
    x, y : str
        What the axes are called.
    point : str
        A number on the x axis, as the table names it: "task" 3.
    first : int, default=1
        The number of the first point of each curve.
    number_format : str, default=".3f"
        Of values.
    bounds : (float, float), default=None
        Of the y axis; None leaves them to the values, from zero on.
    logarithmic : bool, default=False
        Whether the y axis is.
    named : bool, default=True
        Whether each line has its last value and name at its end, or in a legend.
    """

    curves: Sequence[Curve]
    x: str
    y: str
    point: str
    first: int = 1
    number_format: str = ".3f"
    bounds: tuple[float, float] | None = None
    logarithmic: bool = False
    named: bool = True

    def end(self, curve: Curve) -> str:
        """A curve's last value and its name."""
        deviation = f" ± {curve.deviations[-1]:{self.number_format}}" if curve.deviations else ""
        return f"{curve.values[-1]:{self.number_format}}{deviation}  {curve.name}"

    def table(self, name: str) -> Table:
        """The numbers behind the lines: a row for each, or of many points a row for each point."""
        most = max(len(curve.values) for curve in self.curves)
        cells = [[*self._cells(c), *["–"] * (most - len(c.values))] for c in self.curves]
        points = [str(self.first + index) for index in range(most)]
        names = [curve.name for curve in self.curves]
        if most > MOST_POINTS:
            rows = [[point, *line] for point, *line in zip(points, *cells, strict=True)]
            return Table(f"{self.y}: {name}", [self.x, *names], rows)
        rows = [[name, *line] for name, line in zip(names, cells, strict=True)]
        return Table(f"{self.y}: {name}", ["", *(f"{self.point} {n}" for n in points)], rows)

    def _cells(self, curve: Curve) -> list[str]:
        means = [f"{value:{self.number_format}}" for value in curve.values]
        bars = [f" ± {value:{self.number_format}}" for value in curve.deviations or ()]
        return [mean + bar for mean, bar in zip_longest(means, bars, fillvalue="")]


@dataclass(frozen=True)
class HeatMap:
    """A heat map, its first row at the top.

    Parameters
    ----------
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
        What is written into the cells where there is room.
    figures : rows of str, default=the values
        What the table behind the heat map says.
    falling : bool, default=False
        Whether small values have the strong colours.
    mask_diagonal : bool, default=False
        Whether the diagonal has no colour, so that all are spent on the rest.
    """

    values: Sequence[Sequence[float | None]]
    rows: tuple[str, Sequence[str]]
    columns: tuple[str, Sequence[str]]
    what: str
    bounds: tuple[float, float] = (0.0, 1.0)
    number_format: str = ".3f"
    cells: Sequence[Sequence[str]] | None = None
    figures: Sequence[Sequence[str]] | None = None
    falling: bool = False
    mask_diagonal: bool = False

    def table(self, name: str) -> Table:
        """The numbers behind the colours; of many columns only some."""
        figures = self.figures or [
            ["" if value is None else f"{value:{self.number_format}}" for value in row]
            for row in self.values
        ]
        step = -(-len(self.columns[1]) // MOST_COLUMNS)
        rows = [[row, *line[::step]] for row, line in zip(self.rows[1], figures, strict=True)]
        corner = f"{self.rows[0]} / {self.columns[0]}"
        return Table(f"{self.what}: {name}", [corner, *self.columns[1][::step]], rows)


@dataclass(frozen=True)
class Images:
    """Pictures side by side, of values between −1 and 1.

    Parameters
    ----------
    tiles : rows of pictures of shape (h, w) or (h, w, 3)
        All of one shape.
    rows, columns : (str, sequence of str)
        What the axis is called, and what each row or column is.
    what : str
        What the number is that belongs to each picture.
    figures : rows of str
        Those numbers.
    """

    tiles: Sequence[Sequence[Sequence[Sequence[Any]]]]
    rows: tuple[str, Sequence[str]]
    columns: tuple[str, Sequence[str]]
    what: str
    figures: Sequence[Sequence[str]]

    def table(self, name: str) -> Table:
        """A number for each picture."""
        rows = [[row, *line] for row, line in zip(self.rows[1], self.figures, strict=True)]
        corner = f"{self.rows[0]} / {self.columns[0]}"
        return Table(f"{self.what}: {name}", [corner, *self.columns[1]], rows)


@dataclass(frozen=True)
class View:
    """One thing that a figure can show: its name, what it shows in words, how it is drawn."""

    name: str
    alt: str
    drawing: Lines | HeatMap | Images

    @property
    def table(self) -> Table:
        """The numbers behind it."""
        return self.drawing.table(self.name)

    @property
    def in_colour(self) -> bool:
        """Whether it shows pictures that have colours of their own."""
        one = self.drawing
        return isinstance(one, Images) and isinstance(one.tiles[0][0][0][0], Sequence)


@dataclass(frozen=True)
class Figure:
    """A figure of one view or several, of which a reader chooses.

    Parameters
    ----------
    name : str
        Of its file, without the ending.
    title, caption : str
    views : sequence of View
        At least one.
    choose : str, default="show"
        What the choice is called.
    """

    kind: ClassVar = "figure"
    name: str
    title: str
    caption: str
    views: Sequence[View]
    choose: str = "show"


Block = Text | Code | Table | Figure


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Chapter:
    """All that is said of one record or model."""

    title: str
    sections: Sequence[Section]
