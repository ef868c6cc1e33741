"""Moments of classes as few plain tensors, as a file holds them, and back.

A class is given by the columns that hold its second moment, or by all d of them, row after row and
without the entries that symmetry repeats: of the rows that belong to a column, those above the
diagonal. Of r columns that leaves r d − r (r − 1) / 2 entries; of all d, the lower triangle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from redunet.core.columns import Columns
from redunet.core.moment import Moment
from redunet.errors import DataError

NAMES = ("counts", "sums", "n_columns", "pivots", "second_moments")
"""Of the tensors."""

FIRST_NAMES = ("counts", "sums", "second_moments")
"""Of those in files of version 1, with all triangles in ``second_moments`` (k, d(d+1)/2)."""


def pack(table: Sequence[Moment]) -> dict[str, Tensor]:
    """The tensors of k classes.

    Parameters
    ----------
    table : sequence of k Moment

    Returns
    -------
    dict with int64 tensors
        ``counts`` (k,); ``sums`` (k, d); ``n_columns`` (k,), of which d means all;
        ``pivots``, the places of the columns of one class after the other, of those that have
        fewer than d; ``second_moments``, the entries of one class after the other.
    """
    d, held = len(table[0].sum), [moment.columns for moment in table]
    n_columns = [d if columns is None else columns.rank for columns in held]
    entries = torch.empty(sum(_size(d, r) for r in n_columns), dtype=torch.int64)
    parts = torch.split(entries, [_size(d, r) for r in n_columns])
    for moment, columns, part in zip(table, held, parts, strict=True):
        if columns is None:
            part.copy_(moment.second_moment[_needed(d, torch.arange(d))])
        else:
            part.copy_(columns.columns[_needed(d, columns.pivots)])
    pivots = [columns.pivots for columns in held if columns is not None]
    return {
        "counts": torch.tensor([moment.count for moment in table]),
        "sums": torch.stack([moment.sum for moment in table]),
        "n_columns": torch.tensor(n_columns),
        "pivots": torch.cat([torch.empty(0, dtype=torch.int64), *pivots]),
        "second_moments": entries,
    }


def unpack(tensors: Mapping[str, Tensor]) -> Iterator[Moment]:
    """The classes that `pack` gave, or those of a file of version 1, all checked."""
    names = NAMES if "n_columns" in tensors else FIRST_NAMES
    if any(tensors[name].dtype != torch.int64 for name in names):
        raise DataError("expected counts, sums and second moments in int64")
    counts, sums, entries = (tensors[name] for name in FIRST_NAMES)
    k, d = sums.shape
    if not k:  # then d is limited by nothing that the tensors hold
        raise DataError("expected at least one class")
    n_columns = tensors.get("n_columns", torch.full((k,), d))
    pivots = tensors.get("pivots", n_columns[:0])
    ranks = n_columns.tolist() if n_columns.shape == (k,) else []
    if (
        not d
        or counts.shape != (k,)
        or len(ranks) != k
        or not all(0 <= r <= d for r in ranks)
        or pivots.shape != (sum(r for r in ranks if r < d),)
        or entries.shape
        != ((sum(_size(d, r) for r in ranks),) if names is NAMES else (k, _size(d, d)))
    ):
        raise DataError("expected counts, sums and second moments of the same classes")
    return _moments(counts.tolist(), sums, ranks, pivots, entries.reshape(-1))


def _moments(
    counts: list[int], sums: Tensor, ranks: list[int], pivots: Tensor, entries: Tensor
) -> Iterator[Moment]:
    d = sums.shape[1]
    places = torch.split(pivots, [r if r < d else 0 for r in ranks])
    parts = torch.split(entries, [_size(d, r) for r in ranks])
    for count, total, r, own, part in zip(counts, sums, ranks, places, parts, strict=True):
        if r == d:
            whole = _columns(d, torch.arange(d), part)
            yield Moment(count, total.clone(), whole)
        else:
            yield Moment(count, total.clone(), Columns.checked(own.clone(), _columns(d, own, part)))


def _size(d: int, r: int) -> int:
    """How many entries r columns take."""
    return r * d - r * (r - 1) // 2


def _needed(d: int, pivots: Tensor) -> Tensor:
    """Which entries of columns are not repeated: Tensor of shape (d, r), bool."""
    needed = torch.ones(d, len(pivots), dtype=torch.bool)
    needed[pivots] = needed[pivots].tril()
    return needed


def _columns(d: int, pivots: Tensor, entries: Tensor) -> Tensor:
    """Columns, (d, r), of their entries."""
    columns = torch.zeros(d, len(pivots), dtype=torch.int64)
    columns[_needed(d, pivots)] = entries
    columns[pivots] += columns[pivots].tril(-1).mT
    return columns
