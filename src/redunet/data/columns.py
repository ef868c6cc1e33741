"""Which columns or arrays of a file hold the labels, the texts and the numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from redunet.data.source import ReadOptions, listed
from redunet.errors import DataError, did_you_mean

TEXT_NAMES = ("text", "texts", "sentence", "question", "query", "utterance")
"""Names by which a column of texts is found, in capitals too."""

LABEL_NAMES = ("label", "labels", "class", "target", "y")
"""Names by which a column or an array of labels is found, in capitals too."""

_ROW_NUMBERS = re.compile(
    r"(?i:|id|index|unnamed: 0|__index_level_0__)|.*[_\W](id|ID|Id|index)|.*[a-z](Id|ID)"
)


def named_like_row_numbers(name: str) -> bool:
    """Whether a column is called like one that numbers the rows.

    Examples
    --------
    >>> [named_like_row_numbers(name) for name in ("", "Index", "customer_id", "PassengerId")]
    [True, True, True, True]
    >>> [named_like_row_numbers(name) for name in ("acid", "width", "idle")]
    [False, False, False]
    """
    return _ROW_NUMBERS.fullmatch(name.strip()) is not None


def label_name(path: Path, names: Sequence[str], options: ReadOptions) -> str | None:
    """Which of the names is that of the labels; None where there is none and none is needed.

    It is the one that is given, or one of `LABEL_NAMES`, or the only one that is not
    known to be something else.
    """
    if options.label is not None:
        if options.label in names:
            return options.label
        if options.labels != "required":
            return None
        raise DataError(
            f"expected {options.label!r} to hold the labels of {path}, but there are only "
            f"{listed(names)}{did_you_mean(options.label, names) or ': name another with --label'}"
        )
    found = [name for name in names if name.lower() in LABEL_NAMES and name not in options.columns]
    if not found:
        found = _only_other(names, options)
    if len(found) == 1:
        return found[0]
    if options.labels != "required" and not found:
        return None
    what = f"got {listed(found)}" if found else f"but there are only {listed(names)}"
    raise DataError(
        f"expected one of {', '.join(LABEL_NAMES)} to hold the labels of {path}, {what}: "
        f"name it with --label"
    )


def _only_other(names: Sequence[str], options: ReadOptions) -> list[str]:
    """The name beside the model's columns, or beside that of the texts, where there is just one.

    A model knows its columns, so it need not keep what those of the labels were called:
    that would leave a trace of data that was withdrawn, or learnt in another order.
    """
    texts = [name for name in names if name == options.text or name.lower() in TEXT_NAMES]
    known = set(texts if options.texts else options.columns)
    others = [name for name in names if name not in known]
    alone = known and known < set(names) and len(others) == 1
    return others if alone and not named_like_row_numbers(others[0]) else []


def text_name(path: Path, names: Sequence[str], label: str | None, options: ReadOptions) -> str:
    """Which of the names is that of the texts."""
    others = [name for name in names if name != label]
    if options.text is not None:
        if options.text in others:
            return options.text
        raise DataError(
            f"expected {options.text!r} to hold the texts of {path}, but there are only "
            f"{listed(others)}: name another with --text"
        )
    found = [name for name in others if name.lower() in TEXT_NAMES]
    if len(found) != 1:
        what = f"got {listed(found)}" if found else f"but there are only {listed(others)}"
        raise DataError(
            f"expected one of {', '.join(TEXT_NAMES)} to hold the texts of {path}, {what}: "
            f"name it with --text"
        )
    return found[0]


def label_and_others(
    path: Path, names: Sequence[str], options: ReadOptions, texts: bool
) -> tuple[str | None, tuple[str, ...]]:
    """The column of labels, and that of texts or those of numbers, in the model's order."""
    most, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise DataError(f"expected columns of different names in {path}, got {most!r} twice")
    label = label_name(path, names, options)
    if texts:
        columns: tuple[str, ...] = (text_name(path, names, label, options),)
    else:
        columns = tuple(name for name in names if name != label)
    if not columns:
        raise DataError(f"expected columns of numbers in {path}, got only the labels")
    if set(columns) == set(options.columns):
        columns = options.columns
    return None if options.labels == "ignored" else label, columns


def notes_on(
    path: Path, label: str | None, columns: Sequence[str], options: ReadOptions
) -> list[str]:
    """Lines about labels of a column that nobody named, and about columns of row numbers."""
    notes = []
    if label is not None and options.label is None and label.lower() not in LABEL_NAMES:
        notes.append(
            f"the labels are those of column {label!r} of {path}, the only one left for them"
        )
    for name in columns:
        if named_like_row_numbers(name):
            notes.append(
                f"column {name!r} of {path} is called like row numbers, and is taken as a feature: "
                f"remove it if it is none (pandas: to_csv(..., index=False))"
            )
    return notes
