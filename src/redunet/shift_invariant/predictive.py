"""New samples as the moments of shifts predict them."""

from __future__ import annotations

import torch
from torch import Tensor

from redunet.core.class_samples import LEAST_VARIANCE, NEW
from redunet.shift_invariant.moments import ShiftMoments


def new_samples(moments: ShiftMoments, n: int) -> tuple[Tensor, Tensor]:
    """About n samples, (n, d), on the unit sphere, and the class of each; the same each time.

    As in `redunet.core.class_samples` a class has a multivariate t distribution. Over all shifts,
    only the frequency 0 has a mean, and different frequencies do not correlate.
    """
    layout, generator = moments.layout, torch.Generator().manual_seed(0)
    size = max(1, n // len(moments))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    alone = (layout.multiplicity == 1)[:, None, None]
    weights = (layout.multiplicity / layout.n).sqrt()[:, None, None]
    rows = []
    for label in moments:
        moment = moments[label]
        covariance = moment.blocks() / moment.count
        mean = moment.sum * (layout.n / (moment.count * moment.trace())) ** 0.5
        covariance[0] -= torch.outer(mean, mean)
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        diagonal.add_(LEAST_VARIANCE * float(diagonal.real.mean()))
        root, _ = torch.linalg.cholesky_ex(covariance)
        shape = (len(covariance), size, layout.channels)
        # Waves of a frequency that is its own opposite are real.
        drawn = torch.complex(normal(*shape), normal(*shape)) / 2**0.5
        drawn = torch.where(alone, (drawn.real * 2**0.5).to(drawn.dtype), drawn)
        heavy = (NEW.scale / normal(size, NEW.degrees).square().sum(dim=1, keepdim=True)).sqrt_()
        U = heavy * (drawn @ root.mT)
        U[0] += mean
        rows.append(layout.from_spectrum(U * weights))
    Z = torch.nn.functional.normalize(torch.cat(rows), dim=1)
    return Z, torch.arange(len(moments)).repeat_interleave(size)
