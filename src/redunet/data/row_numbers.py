"""Columns that number the rows, as tables often have and models should not learn."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_NAMES = ("", "id", "index", "unnamed: 0", "__index_level_0__")
_ENDS = re.compile(r"[_\W](id|ID|Id|index)$|[a-z](Id|ID)$")
_FEWEST = 10


def named_like_row_numbers(name: str) -> bool:
    """Whether a column is called like one that numbers the rows.

    Examples
    --------
    >>> [named_like_row_numbers(name) for name in ("", "Index", "customer_id", "PassengerId")]
    [True, True, True, True]
    >>> [named_like_row_numbers(name) for name in ("acid", "width", "idle")]
    [False, False, False]
    """
    word = name.strip()
    return word.lower() in _NAMES or _ENDS.search(word) is not None


def looks_like_row_numbers(name: str, values: NDArray[np.float64]) -> bool:
    """Whether a column numbers the rows: by its name and values, or by its values alone.

    Parameters
    ----------
    name : str
    values : ndarray of shape (n,)
    """
    n = len(values)
    if named_like_row_numbers(name):  # in any order, as rows may be shuffled or chosen
        whole = bool((values == np.floor(values)).all())
        return n > 1 and whole and len(np.unique(values)) == n
    return n >= _FEWEST and np.array_equal(values, values[0] + np.arange(n))
