"""Subspaces that cover nearly all features, so that no class can be told from another by them."""

from __future__ import annotations

COVERED = 0.7
"""Subspaces of at least this share of all dimensions leave too little out to differ by."""

REMEDY = "for columns of numbers take the recipe tables, for those of an encoder vectors"


class CoverageWarning(UserWarning):
    """The subspaces of the read-out cover nearly all features: labels will often be wrong."""


def covering(r: int, d: int) -> list[str]:
    """A line about subspaces of r dimensions that leave out too little of d features.

    Examples
    --------
    >>> covering(28, 64)
    []
    >>> covering(12, 13)  # doctest: +ELLIPSIS
    ['subspaces of 12 dimensions cover nearly all of 13 features, so that classes hardly differ...
    """
    if r < COVERED * d:
        return []
    return [
        f"subspaces of {r} dimensions cover nearly all of {d} features, so that classes hardly "
        f"differ: lower n_components, or {REMEDY}"
    ]
