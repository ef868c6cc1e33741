"""What a report is made of, before it has a format: plain text, tables, pictures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


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


Block = Words | Code | Grid | Picture


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]
