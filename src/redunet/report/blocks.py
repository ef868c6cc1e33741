"""What a report is made of, before it has a format: plain text, tables, pictures, plots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Code:
    """Something to type."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A table; so many columns from the left are text, and some rows matter most."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1
    strong: Collection[int] = ()


@dataclass(frozen=True)
class Picture:
    """A picture by name, and what it shows in words."""

    name: str
    alt: str
    caption: str


@dataclass(frozen=True)
class View:
    """One thing that a plot can show.

    Parameters
    ----------
    name : str
        What a reader chooses it by.
    alt : str
        What it shows, in words.
    table : Grid
        The figures behind it.
    traces, layout
        The same for Plotly. A colour may be one of the page's, as ``var(--ink)``.
    height_per_width : float, default=None
        The form of what is drawn, where it matters.
    rows : int, default=None
        How many rows there are to make room for.
    """

    name: str
    alt: str
    table: Grid
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    height_per_width: float | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Plot:
    """A plot that answers to the pointer, of the one of its views that a reader chooses.

    Parameters
    ----------
    caption : str
    views : sequence of View
        At least one.
    choose : str, default="show"
        What the choice is called.
    instead : sequence of blocks, default=()
        What stands for it in a form that cannot draw it.
    """

    caption: str
    views: Sequence[View]
    choose: str = "show"
    instead: Sequence[Words | Code | Grid | Picture] = ()


Block = Words | Code | Grid | Picture | Plot


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
