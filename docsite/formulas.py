"""Formulas as MathML, which browsers show without a script."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def with_formulas(page: str) -> str:
    """A page of HTML with the formulas that arithmatex left in it."""

    def formula(match: re.Match[str]) -> str:
        block = match["tag"] == "div"
        made: str = convert(
            html.unescape(match["tex"]).strip(), display="block" if block else "inline"
        )
        return f'<div class="formula">{made}</div>' if block else made

    return _FORMULA.sub(formula, page)
