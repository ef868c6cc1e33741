"""Moments of classes as few plain tensors, as a file holds them, and back.

A class is given by the columns that hold its second moment, or by all d of them, row after row and
without the entries that symmetry repeats: of the rows that belong to a column, those above the
diagonal. Of r columns that leaves r d − r (r − 1) / 2 entries; of all d, the lower triangle.
Column indices are saved only if there are low-rank classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, in_memory
from redunet.core.exact_columns import Columns
from redunet.core.moment import Moment
from redunet.core.possible import check, check_columns, check_rank_of
from redunet.errors import DataError

FIRST_NAMES = ("counts", "sums", "second_moments")
"""Of the tensors that are always there, and the only ones in files of version 1."""

NAMES = (*FIRST_NAMES, "n_columns", "pivots")
"""Of all tensors."""


def pack(table: Sequence[Moment], allocate: Allocate = in_memory) -> dict[str, Tensor]:
    """The tensors of k classes.

    Parameters
    ----------
    table : sequence of k Moment
    allocate : Allocate, default=in_memory
        Memory for the entries of all second moments.

    Returns
    -------
    dict with int64 tensors
        ``counts`` (k,), ``sums`` (k, d) and ``second_moments`` (k, d(d+1)/2). If there are
        low-rank classes, also ``n_columns`` (k,), of which d means all, and ``pivots``, the
        indices of the columns of one class after the other, of those that have fewer than d;
        then ``second_moments`` has one dimension, the entries of one class after the other.
    """
    d, low_rank = len(table[0].sum), [moment.columns for moment in table]
    n_columns = [d if columns is None else columns.rank for columns in low_rank]
    sizes = [size_of_columns(d, r) for r in n_columns]
    entries = allocate((sum(sizes),), dtype=torch.int64)
    parts = torch.split(entries, sizes)
    for moment, columns, part in zip(table, low_rank, parts, strict=True):
        if columns is None:
            part.copy_(moment.second_moment[_needed(d, torch.arange(d))])
        else:
            part.copy_(columns.columns[_needed(d, columns.pivots)])
    pivots = [columns.pivots for columns in low_rank if columns is not None]
    counts = torch.tensor([moment.count for moment in table])
    tensors = {"counts": counts, "sums": torch.stack([moment.sum for moment in table])}
    if not pivots:
        return tensors | {"second_moments": entries.reshape(len(table), -1)}
    return tensors | {
        "n_columns": torch.tensor(n_columns),
        "pivots": torch.cat(pivots),
        "second_moments": entries,
    }


def unpack(tensors: Mapping[str, Tensor]) -> Iterator[Moment]:
    """The classes that `pack` gave, all checked, also that samples can have such moments.

    Tensors without ``n_columns`` may have low-rank classes too: until version 2, all files were
    such.
    """
    with_columns = "n_columns" in tensors
    if any(tensors[name].dtype != torch.int64 for name in (NAMES if with_columns else FIRST_NAMES)):
        raise DataError("expected counts, sums and second moments in int64")
    counts, sums, entries = (tensors[name] for name in FIRST_NAMES)
    k, d = sums.shape
    if not k or not d:  # then the other is limited by nothing that the tensors hold
        raise DataError("expected at least one class, and features")
    ranks, pivots = torch.full((k,), d), counts[:0]
    if with_columns:
        ranks, pivots = tensors["n_columns"], tensors["pivots"]
    n_columns = ranks.flatten().tolist()
    if (
        counts.shape != (k,)
        or ranks.shape != (k,)
        or not all(0 <= r <= d for r in n_columns)
        or pivots.shape != (sum(r for r in n_columns if r < d),)
        or entries.shape[:-1] != (() if with_columns else (k,))
        or entries.numel() != sum(size_of_columns(d, r) for r in n_columns)
    ):
        raise DataError("expected counts, sums and second moments of the same classes")
    return _moments(counts.tolist(), sums, n_columns, pivots, entries.reshape(-1))


def _moments(
    counts: list[int], sums: Tensor, ranks: list[int], pivots: Tensor, entries: Tensor
) -> Iterator[Moment]:
    d = sums.shape[1]
    indices = torch.split(pivots, [r if r < d else 0 for r in ranks])
    parts = torch.split(entries, [size_of_columns(d, r) for r in ranks])
    for count, total, r, own, part in zip(counts, sums, ranks, indices, parts, strict=True):
        columns = _columns(d, own if r < d else torch.arange(d), part)
        if r == d:
            moment = Moment(count, total.clone(), columns)
            check(count, total, columns)
            check_rank_of(moment.columns, count)
        else:
            checked, expansion = Columns.checked(own.clone(), columns, total[own])
            moment = Moment(count, total.clone(), checked)
            check_columns(count, total, checked, expansion)
        yield moment


def size_of_columns(d: int, r: int) -> int:
    """The number of entries that r columns take."""
    return r * d - r * (r - 1) // 2


def _needed(d: int, pivots: Tensor) -> Tensor:
    """Which entries of columns are not repeated: Tensor of shape (d, r), bool."""
    needed = torch.ones(d, len(pivots), dtype=torch.bool)
    needed[pivots] = needed[pivots].tril()
    return needed


def _columns(d: int, pivots: Tensor, entries: Tensor) -> Tensor:
    """Columns, (d, r), of their entries."""
    indices = pivots.tolist()
    if indices != sorted({*indices} & {*range(d)}):
        raise DataError("expected columns by their indices in order")
    columns = torch.zeros(d, len(pivots), dtype=torch.int64)
    columns[_needed(d, pivots)] = entries
    columns[pivots] += columns[pivots].tril(-1).mT
    return columns
