"""When novel samples are rejected: thresholds of novelty, and what answers hold then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.core.rejection import Residuals, quantiles
from redunet.errors import DataError, SettingsError
from redunet.validation import checked_number

MOST_QUANTILES = 1000
"""Of validation samples, at most so many values are kept."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Novelty of validation samples of known classes, to one model.

    Parameters
    ----------
    eps : float
        ε, the precision that they were coded with.
    novelty : Tensor of shape (m,), float64
        In ascending order.
    """

    eps: float
    novelty: Tensor

    @classmethod
    def of(cls, eps: float, novelty: Tensor) -> Calibration:
        """Of all validation samples, or of evenly spaced quantiles where they are many."""
        if not len(novelty):
            raise DataError("expected at least one validation sample, got none")
        values = novelty.sort().values
        if len(values) > MOST_QUANTILES:
            levels = (torch.arange(MOST_QUANTILES, dtype=torch.float64) + 0.5) / MOST_QUANTILES
            values = quantiles(values, torch.ones_like(values), levels)
        return cls(eps, values)

    @classmethod
    def from_state(cls, values: dict[str, Any], tensors: dict[str, Tensor]) -> Calibration:
        """The calibration that `to_state` took apart."""
        novelty = tensors["calibration"]
        if novelty.dtype != torch.float64 or novelty.dim() != 1 or not len(novelty):
            raise DataError("expected a list of numbers in the calibration")
        if not bool(((novelty >= 0) & novelty.isfinite()).all() and (novelty.diff() >= 0).all()):
            raise DataError("expected numbers in ascending order in the calibration")
        return cls(checked_number("eps", values["eps"], above=1e-100, most=1e100), novelty)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors, from which `from_state` makes the same calibration."""
        return {"eps": self.eps}, {"calibration": self.novelty}

    def threshold(self, share: float, eps: float) -> float:
        """The novelty that a share of the validation samples is above."""
        if eps != self.eps:
            raise SettingsError(
                f"expected eps={self.eps:g}, with which rejection was calibrated, got {eps:g}: "
                f"set it back, or calibrate again"
            )
        return _quantile(self.novelty, torch.ones_like(self.novelty), share)


def expected_threshold(residuals: Residuals, drawn: Tensor, weights: Tensor, share: float) -> float:
    """The novelty that a share of samples drawn from the moments is above."""
    return _quantile(residuals.added(drawn), weights, share)


def _quantile(values: Tensor, weights: Tensor, share: float) -> float:
    level = torch.tensor([1 - share], dtype=torch.float64)
    return float(quantiles(values, weights, level)[0])


def checked_share(reject: Any) -> float:
    """A share of samples to reject, as a float between 0 and 1, without either."""
    try:
        share = math.nan if isinstance(reject, bool | str) else float(reject)
    except (TypeError, ValueError):
        share = math.nan
    if not 0 < share < 1:
        raise SettingsError(
            f"expected reject= to be a share between 0 and 1, such as 0.05, got {reject!r}"
        )
    return share


def with_unknown(labels: NDArray[Any], rejected: NDArray[np.bool_]) -> NDArray[Any]:
    """Labels as objects, with None, which is nobody's label, for those that are rejected."""
    answers = labels.astype(object)
    answers[rejected] = None
    return answers
