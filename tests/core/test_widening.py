"""Features that are added to moments are as if they had been 0 all along."""

from __future__ import annotations

import pytest
import torch

from redunet.core.moments import ClassMoments
from redunet.core.widening import widened


@pytest.mark.parametrize("d", [1, 6, 40])
@pytest.mark.parametrize("n_more", [1, 3, 50])
@pytest.mark.parametrize("saved", [False, True])
def test_it_equals_learning_zeros(d: int, n_more: int, saved: bool) -> None:
    draw = torch.Generator().manual_seed(d)
    X = torch.randn(12, d, dtype=torch.float64, generator=draw)
    y = [0] * 9 + [1] * 3
    narrow = ClassMoments(d).update(X, y)
    if saved:  # which settles by what second moments are held
        narrow = ClassMoments.from_tensors(narrow.labels, narrow.to_tensors())
    wide = widened(narrow, n_more)
    with_zeros = ClassMoments(d + n_more).update(torch.nn.functional.pad(X, (0, n_more)), y)
    assert wide == with_zeros
    mine, theirs = wide.to_tensors(), with_zeros.to_tensors()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
