"""Necessary conditions on correlations from outside, as `redunet.core.possible` has them."""

from __future__ import annotations

import torch
from torch import Tensor

from redunet.core.possible import impossible, least_squares, pair_above
from redunet.shift_invariant.layout import Layout


def check_correlations(layout: Layout, count: int, total: Tensor, correlations: Tensor) -> None:
    """Raise a DataError unless samples can have these, as far as necessary conditions tell."""
    first, second = layout.pairs
    own = correlations[first == second]
    _check_channels(layout, count, total.tolist(), own.tolist())
    energies = own[:, 0]
    above = pair_above(correlations, energies[first][:, None], energies[second][:, None])
    if above is not None:
        pair, t = above
        raise impossible(
            f"a correlation of channels {int(first[pair])} and {int(second[pair])} at shift {t}, "
            f"{int(correlations[pair, t]):,}, that is above what their energies allow"
        )
    blocks = layout.blocks(correlations)
    s = total.to(torch.float64)
    blocks[0] -= torch.outer(s, s) / count  # the first frequency is the sum over positions
    lowest = float(torch.linalg.eigvalsh(blocks).amin())
    if lowest < -layout.d * 2.0**-50 * float(blocks.abs().amax()):
        raise impossible("correlations with a negative eigenvalue, or too large sums")


def _check_channels(layout: Layout, count: int, total: list[int], own: list[list[int]]) -> None:
    """Check each channel's sum of values and its correlations with itself."""
    opposite = layout.opposite.tolist()
    halves = [t for t in range(1, layout.n) if opposite[t] == t]
    for c, (s, entries) in enumerate(zip(total, own, strict=True)):
        # Of all values by themselves, and of the sums over the positions of each sample.
        for what, n, squares in (
            ("energy", count * layout.n, entries[0]),
            ("sum of correlations", count, sum(entries)),
        ):
            if (squares - s) % 2:
                raise impossible(f"channel {c} with a sum of {s:,}, odd or even unlike its {what}")
            if squares < least_squares(n, s):
                raise impossible(f"channel {c} with a sum of {s:,}, above what its {what} allows")
        # At such a shift, each product of two values is there twice.
        if any(entries[t] % 2 for t in halves):
            raise impossible(f"channel {c} with an odd correlation where only even ones can be")
