"""Estimated memberships of new samples, and how sharp they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from redunet.core.rate import Coding


@dataclass(frozen=True)
class Sharpness:
    """λ, the confidence of the estimated memberships.

    With Q_j = I − C_j/α_j, the soft projection onto class j, a sample z belongs to class j
    with the estimated probability softmax_j(−c_j ‖(I − Q_j) z‖).

    Examples
    --------
    >>> coding = Coding(counts=(30, 10), d=64, eps=0.5)
    >>> Sharpness(30.0, "relative").of_classes(coding)
    [30.0, 30.0]
    >>> [round(c, 1) for c in Sharpness(1.0).of_classes(coding)]
    [17.1, 51.2]
    """

    value: float  # λ
    # "absolute" is the paper's: c_j = λ k α_j, that is softmax_j(−λ k ‖C_j z‖). "relative" takes
    # c_j = λ, which means the same for any number of classes and of samples
    kind: Literal["absolute", "relative"] = "absolute"

    def of_classes(self, coding: Coding) -> list[float]:
        """c_j of each class."""
        if self.kind == "relative":
            return [self.value] * len(coding.counts)
        return [self.value * len(coding.counts) * alpha for alpha in coding.alphas]


Confidence: TypeAlias = Sharpness | float
"""A sharpness; a number means an absolute one."""


def sharpness_of(confidence: Confidence) -> Sharpness:
    """The sharpness that a number stands for, or the sharpness itself."""
    return confidence if isinstance(confidence, Sharpness) else Sharpness(confidence)


class LayerOutput(NamedTuple):
    """A layer's estimates about the samples that it moved."""

    memberships: Tensor  # (n, k): π̂_j, by which they were moved
    logits: Tensor  # (n, k): −c_j ‖(I − Q_j) z‖, whose softmax these are
    # (n,): the standard deviation of Q_j z over the classes, weighted by the memberships
    spread: Tensor

    @property
    def doubt(self) -> Tensor:
        """log(1 − max_j π̂_j), exact where the largest membership rounds to 1: (n,)."""
        top = self.logits.argmax(dim=1, keepdim=True)
        others = self.logits.scatter(1, top, -torch.inf)
        return torch.logsumexp(others, dim=1) - torch.logsumexp(self.logits, dim=1)


def estimate(residuals: Tensor, coding: Coding, confidence: Confidence) -> tuple[Tensor, Tensor]:
    """Memberships π̂_j and their logits −c_j ‖(I − Q_j) z‖, (n, k), from ‖(I − Q_j) z‖, (n, k)."""
    logits = residuals * -residuals.new_tensor(sharpness_of(confidence).of_classes(coding))
    return torch.softmax(logits, dim=1), logits
