"""Covariances of classes, from counts, means and second moments.

Second moments come one class at a time, since a stack of all of them can be
large; sums over classes are taken in the order of the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from redunet.core.eigenvectors import columns_factor
from redunet.core.exact_columns import most_columns
from redunet.core.grid import GRID
from redunet.core.linalg import add_identity, lower_product_, mirror_
from redunet.core.moment import Moment
from redunet.core.moments import ClassMoments

LEAST_VARIANCE = GRID**-2.0
"""A step of the grid, squared: smaller variances cannot be told from rounding to the grid."""


_MULTIPLIED = 512
"""Columns of factors multiplied at a time: a product of fewer is slower."""


_ERROR = 1e-12
"""Of factors, as a share of the largest entry: far below the grid, whose steps are 10⁻⁶."""


def class_means(moments: ClassMoments, device: str = "cpu") -> Tensor:
    """Means of classes, in units of the feature vectors: Tensor of shape (k, d), float64."""
    sums = torch.stack([moments[label].sum for label in moments]).to(device, torch.float64)
    return sums.div_(GRID).div_(sums.new_tensor(moments.counts)[:, None])


def in_float64(moments: ClassMoments, device: str = "cpu") -> tuple[Tensor, Iterator[Tensor]]:
    """Means and second moments of classes, in units of the feature vectors.

    Shapes: returns means (k, d), S (d, d).
    """
    tables = (moments[label].to(device).second_moment for label in moments)
    S = (table.to(torch.float64).div_(GRID**2) for table in tables)
    return class_means(moments, device), S


def summed(
    moments: ClassMoments, device: str = "cpu", weights: Sequence[float] | None = None
) -> Tensor:
    """Σ_j w_j S_j over all classes, in units of the feature vectors.

    Classes that are held by columns are added as factors F Fᵀ, so that no matrix is made of
    each: up to rounding the same, in a fraction of the time.

    Shapes: returns (d, d).
    """
    d, waiting = moments.n_features, list[Tensor]()
    total = torch.zeros(d, d, dtype=torch.float64, device=device)

    def multiply() -> None:
        if waiting:
            F = torch.cat(waiting, dim=1)
            lower_product_(total, F, F, beta=1.0)
            waiting.clear()

    for label, w in zip(moments, weights or [1.0] * len(moments), strict=True):
        moment = moments[label].to(device)
        F = _factor(moment, device)
        if F is None:
            total.add_(moment.second_moment.to(torch.float64), alpha=w / GRID**2)
            continue
        waiting.append(F.mul_(w**0.5 / GRID))
        if sum(factor.shape[1] for factor in waiting) >= _MULTIPLIED:
            multiply()
    multiply()
    return mirror_(total)


def one_by_one(moments: ClassMoments, device: str = "cpu") -> Callable[[int], Tensor]:
    """Second moments of classes, in units of the feature vectors, each time they are asked for."""
    tables = [moments[label].to(device) for label in moments]
    factors = [_factor(moment, device) for moment in tables]

    def second_moment(j: int) -> Tensor:
        F = factors[j]
        S = tables[j].second_moment.to(torch.float64, copy=True) if F is None else F @ F.mT
        return S.div_(GRID**2)

    return second_moment


def _factor(moment: Moment, device: str) -> Tensor | None:
    """F with F Fᵀ = S, (d, r), of a class that is held by columns; None of others."""
    # Of many samples the rank is not asked for, which would take longer; nor does it matter by
    # what they are held just now, so that the result has the same bits.
    asked = moment.count <= most_columns(len(moment.sum))
    held = moment.columns if asked and torch.device(device).type == "cpu" else None
    return None if held is None else columns_factor(held, _ERROR)


def scatters(S: Iterable[Tensor], centres: Tensor, counts: Sequence[int]) -> Iterator[Tensor]:
    """Σ (x − c_j)(x − c_j)ᵀ = S_j − n_j c_j c_jᵀ of each class, around its mean c_j.

    Shapes: S (d, d); centres (k, d); returns (d, d).
    """
    for S_j, centre, n in zip(S, centres, counts, strict=True):
        yield S_j.to(torch.float64).addr(centre, centre, alpha=-n)


def covariance_of_sum(total: Tensor, centres: Tensor, counts: Sequence[int]) -> Tensor:
    """The covariance of all samples, each around the centre of its class: (d, d), float64.

    Around the means of the classes it is W, the pooled within-class covariance; around the mean
    of all samples it is T, the total covariance.

    Shapes: total (d, d); centres (k, d).
    """
    n = centres.new_tensor(counts)[:, None]
    return torch.addmm(total, (n * centres).mT, centres, alpha=-1).div_(sum(counts))


def overall_mean(means: Tensor, counts: Sequence[int]) -> Tensor:
    """The mean of all samples, (d,), from the means of the classes, (k, d)."""
    return shares(means, counts) @ means


def shares(like: Tensor, counts: Sequence[int]) -> Tensor:
    """γ_j = n_j / m as a Tensor of shape (k,), in the dtype and on the device of another."""
    return like.new_tensor([n / sum(counts) for n in counts])


def mean_variance(C: Tensor) -> float:
    """The mean eigenvalue of a covariance, tr C / d: the variance of a feature on average."""
    return float(C.diagonal().mean())


def with_ridge(C: Tensor, ridge: float, least: float = 0.0) -> Tensor:
    """C + ρ w I in place, with w = tr C / d or ``least`` where that is more.

    No less than `LEAST_VARIANCE` is added, so that the sum is positive definite
    even where nothing varies.
    """
    return add_identity(C, max(ridge * max(mean_variance(C), least), LEAST_VARIANCE))


def shrunk(C: Tensor, shrinkage: float, variance: float | None = None) -> Tensor:
    """(1 − ρ) C + ρ w I in place, with w = tr C / d where no other variance is given.

    No less than `LEAST_VARIANCE` is added, as in `with_ridge`.
    """
    w = mean_variance(C) if variance is None else variance
    return add_identity(C.mul_(1 - shrinkage), max(shrinkage * w, LEAST_VARIANCE))
