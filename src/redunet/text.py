"""Text from outside (labels, file names, messages) made safe to print and to put into CSV."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters, among them the escape that begins a sequence
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of what follows
    "\u2028\u2029"  # end a line
    "\ud800-\udfff"  # halves of characters, and bytes of file names that are no text
    "]"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def shown(text: object) -> str:
    r"""Text with everything that a terminal would act on written out.

    Parameters
    ----------
    text : object
        Anything; it is printed as `str` would.

    Returns
    -------
    str
        One line of printable characters.

    Examples
    --------
    >>> print(shown("red\x1b[31m\n"))
    red\x1b[31m\n
    >>> print(shown("bird \u202egnp.exe"))
    bird \u202egnp.exe
    """
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], str(text))


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe before what would begin one.

    Examples
    --------
    >>> csv_cell("=1+1"), csv_cell("-0.5"), csv_cell("bee")
    ("'=1+1", '-0.5', 'bee')
    """
    formula = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text
