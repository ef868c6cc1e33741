"""Labels keep their identity: two that differ in a file never become one class.

The rule for text, such as a column of a CSV file: labels are whole numbers where
every one of them is written as such a number usually is (``7``, ``-12``; not
``007``, ``+7``, ``7.0``) and fits into 64 bits; otherwise all of them are text, as
written. It looks at the whole column, so it does not depend on batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError

LONGEST_LABEL = 256
"""Letters; a label is read by people, and every page and every answer repeats it."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_INT64 = np.iinfo(np.int64)
_EXACT_IN_FLOATS = 2**53


def whole_number(text: str) -> int | None:
    """The 64-bit integer that is usually written so; None where there is none.

    Examples
    --------
    >>> whole_number("-12"), whole_number("007"), whole_number("1.0")
    (-12, None, None)
    >>> whole_number("9223372036854775807"), whole_number("9223372036854775808")
    (9223372036854775807, None)
    """
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if _INT64.min <= number <= _INT64.max else None


class TextColumn:
    """Whether the labels of a column of text are numbers, found out one after another."""

    def __init__(self) -> None:
        self._decimal = True
        self._fraction: str | None = None
        self._first_text: str | None = None

    def look_at(self, labels: Iterable[str]) -> None:
        """Take note of some labels; equal ones need to come only once."""
        for label in labels:
            if whole_number(label) is not None:
                continue
            self._first_text = self._first_text or label
            if not _DECIMAL.fullmatch(label):
                self._decimal = False
            elif self._fraction is None and float(label) % 1:
                self._fraction = label

    @property
    def decided(self) -> bool:
        """Whether more labels would change nothing."""
        return not self._decimal

    def kind(self, what: str) -> type:
        """Int or str; an error where all labels are numbers and some have fractions."""
        if self._decimal and self._fraction is not None:
            raise DataError(
                f"expected a class in each row of {what}, got numbers with fractions such as "
                f"{self._fraction}: name the column of the classes with --label"
            )
        return int if self._first_text is None else str

    def notes(self, what: str) -> list[str]:
        """A line about numbers that are taken as text, where there are only such."""
        if not self._decimal or self._first_text is None:
            return []
        return [
            f"the labels of {what} are taken as text, because {self._first_text!r} is not the "
            f"usual way to write a whole number of 64 bits"
        ]


def checked_text(labels: Iterable[str], what: str) -> list[str]:
    """Labels as they are, where each can be told from all others in a model file."""
    checked = list(labels)
    for label in checked:
        if len(label) > LONGEST_LABEL:
            raise DataError(
                f"expected labels of at most {LONGEST_LABEL} letters in {what}, "
                f"got one of {len(label):,}"
            )
        if "\0" in label or any("\ud800" <= letter <= "\udfff" for letter in label):
            raise DataError(
                f"expected labels without NUL and without halves of letters (surrogates) in "
                f"{what}, got {label!r}: rename the class"
            )
    return checked


def whole_numbers(labels: Iterable[str], what: str) -> NDArray[np.int64]:
    """Labels of text as the numbers that they are."""
    numbers = []
    for label in labels:
        number = whole_number(label)
        if number is None:
            raise DataError(
                f"expected whole numbers as labels, as the model has them, got {label!r} in {what}"
            )
        numbers.append(number)
    return np.array(numbers, dtype=np.int64)


def checked_array(labels: NDArray[np.generic], what: str) -> NDArray[np.generic]:
    """An array of labels as int64 or str, where that changes none of them."""
    kind = labels.dtype.kind
    if kind == "b":
        raise DataError(
            f"expected labels that are whole numbers or text in {what}, got true and false: "
            f"convert them"
        )
    if kind == "u" and int(labels.max()) > _INT64.max:
        raise DataError(
            f"expected labels up to {_INT64.max} in {what}, got {labels.max()}: use smaller "
            f"numbers, or text"
        )
    if kind == "f":
        bad = ~(np.abs(labels) <= _EXACT_IN_FLOATS) | (labels % 1 != 0)
        if bad.any():
            raise DataError(
                f"expected labels that are whole numbers up to 2^53 or text in {what}, "
                f"got {labels[bad][0]}: convert them to integers or text"
            )
    if kind == "U":
        try:
            checked_text(np.unique(labels).tolist(), what)
        except SystemError:  # so Python says that a letter is beyond Unicode
            raise DataError(f"expected labels of Unicode letters in {what}: rename them") from None
        return labels
    return labels.astype(np.int64)
