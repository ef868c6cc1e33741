"""Words of the command line as values."""

from __future__ import annotations

import json
import re
from typing import Any

from redunet.errors import SettingsError


def parsed(words: list[str] | None) -> dict[str, Any]:
    """KEY=VALUE words as a dictionary.

    Examples
    --------
    >>> parsed(["eps=0.5", "n_layers=3", "search=[[0, 1], [2]]"])
    {'eps': 0.5, 'n_layers': 3, 'search': [[0, 1], [2]]}
    """
    values = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"expected KEY=VALUE, got {word!r}")
        values[key.strip()] = _value(value)
    return values


def size_of(word: str | None) -> tuple[int, int] | None:
    """The height and width that a word such as 32 or 48x32, width first, asks for.

    Examples
    --------
    >>> size_of("32"), size_of("48x32")
    ((32, 32), (32, 48))
    """
    if word is None:
        return None
    found = re.fullmatch(r"([1-9]\d{0,3})(?:x([1-9]\d{0,3}))?", word)
    if found is None:
        raise SettingsError(f"expected --resize 32 or --resize 48x32 (pixels), got {word!r}")
    width = int(found[1])
    return int(found[2] or width), width


def whole_numbers(name: str, text: str, least: int) -> list[int]:
    """Numbers between commas, each from ``least`` on."""
    from redunet.validation import whole_number

    return [whole_number(name, value, least=least) for value in as_tuple(_value(text))]


def words_of(text: str) -> list[str]:
    """Words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A value that may be one or several, as several."""
    return value if isinstance(value, tuple) else (value,)


def _value(text: str) -> Any:
    """A number, a word, true, false, none, a list, or a tuple of these between commas."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError as error:
            raise SettingsError(f"expected a list such as [[0, 1], [2]], got {text!r}") from error
    if "," in text:
        return tuple(_value(part) for part in text.split(",") if part.strip())
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"none": None, "true": True, "false": False}.get(text.lower(), text)
