"""A report as one HTML page, in two themes, that needs nothing else and runs no scripts."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from redunet.report.blocks import Chapter, View

_TEMPLATES = Environment(
    loader=PackageLoader("redunet.report", "assets"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def to_html(chapters: Sequence[Chapter]) -> str:
    """The page of one chapter or several.

    Nothing is loaded from anywhere and nothing runs: the page's policy forbids both.

    Parameters
    ----------
    chapters : sequence of Chapter
        At least one.
    """
    several = len(chapters) > 1
    return around(chapters, [article(one, i, several) for i, one in enumerate(chapters)])


def article(chapter: Chapter, number: int, several: bool) -> str:
    """A chapter of a page, its figures drawn; below its title where there are several."""
    template = _TEMPLATES.get_template("article.html")
    return template.render(chapter=chapter, number=number, several=several, picture=_picture)


def around(chapters: Sequence[Chapter], articles: Sequence[str]) -> str:
    """The page around chapters that are drawn."""
    title = " · ".join(chapter.title for chapter in chapters)
    template = _TEMPLATES.get_template("page.html")
    return template.render(chapters=chapters, articles=articles, title=title)


def _picture(view: View, name: str) -> str:
    from redunet.report.figures import svg  # Matplotlib takes long to load

    return svg(view, name)
