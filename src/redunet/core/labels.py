"""Labels of classes: whole numbers or texts, all of one kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from redunet.errors import DataError, did_you_mean

Label: TypeAlias = int | str

_SURROGATE = re.compile("[\ud800-\udfff]")


def check_labels(labels: Iterable[object]) -> None:
    """Raise a DataError unless all labels are int or all are str, and NumPy holds each exactly."""
    labels = list(labels)
    kinds = {type(label) for label in labels}
    if not (kinds <= {int} or kinds <= {str}):
        raise DataError(
            f"expected labels that are all int or all str, got "
            f"{' and '.join(sorted(kind.__name__ for kind in kinds))}: "
            f"use one type of label throughout"
        )
    for label in labels:
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            raise DataError(
                f"expected whole numbers of 64 bits, with sign, as labels, got {label}: "
                f"use smaller numbers, or str"
            )
        if isinstance(label, str) and label.endswith("\0"):
            raise DataError(
                f"expected labels that do not end in a NUL character, got {label!r}: remove it"
            )
        if isinstance(label, str) and _SURROGATE.search(label):
            raise DataError(
                f"expected labels of Unicode characters, got {label!r}, which has half a "
                f"surrogate pair: correct its encoding"
            )


def known_labels(labels: Iterable[Label], known: Collection[Label]) -> list[Label]:
    """Labels as a list; a DataError for one that is not known."""
    labels = list(labels)
    for label in labels:
        try:
            found = not isinstance(label, bool) and label in known
        except TypeError:  # not hashable
            found = False
        if not found:
            names = ", ".join(map(repr, list(known)[:10])) or "none"
            raise DataError(
                f"expected a class that was learnt ({names}{', …' * (len(known) > 10)}), "
                f"got {label!r}{did_you_mean(label, known)}"
            )
    return labels


@contextmanager
def named(label: Label) -> Iterator[None]:
    """Let errors say which class they are about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"class {label!r}: {error}") from None
