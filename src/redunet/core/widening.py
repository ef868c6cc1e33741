"""Moments of the same samples with more features, which are 0 in all of them."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from redunet.core.columns import Columns
from redunet.core.moment import Moment
from redunet.core.moments import ClassMoments


def widened(moments: ClassMoments, n_more: int) -> ClassMoments:
    """The moments that the same samples have with features added at the end, all 0.

    A feature that is 0 leaves a vector on the unit sphere as it is, and adds a zero to its sum
    and a row and a column of zeros to its second moment: nothing has to be learnt again.

    Parameters
    ----------
    moments : ClassMoments
        Of d features.
    n_more : int

    Returns
    -------
    ClassMoments
        Of d + n_more features.

    Examples
    --------
    >>> import torch
    >>> narrow = ClassMoments(2).update(torch.tensor([[3.0, 4.0]]), [0])
    >>> widened(narrow, 1) == ClassMoments(3).update(torch.tensor([[3.0, 4.0, 0.0]]), [0])
    True
    """
    table = {label: _widened(moments[label], n_more) for label in moments}
    return ClassMoments(moments.n_features + n_more, table, moments.allocate)


def _widened(moment: Moment, n_more: int) -> Moment:
    held = moment.held
    if isinstance(held, Columns):
        columns, diagonal = pad(held.columns, (0, 0, 0, n_more)), pad(held.diagonal, (0, n_more))
        wide: Tensor | Columns = Columns(held.pivots, columns, diagonal)
    else:
        wide = pad(held, (0, n_more, 0, n_more))
    return Moment(moment.count, pad(moment.sum, (0, n_more)), wide, moment.rank_at_most)
