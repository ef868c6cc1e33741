"""Probabilities softmax(scores / T) that say how often labels are right: the temperature T."""

from __future__ import annotations

import torch
from torch import Tensor

DRAWN = 1024
"""Samples that are drawn from the moments to find a temperature without data."""

DIGITS = 3
"""Significant digits of a temperature; no sample tells more of them."""

_BISECTIONS = 60


def probabilities(scores: Tensor, temperature: float) -> Tensor:
    """softmax(scores / T): rows of sum 1, (n, k), from scores, (n, k)."""
    return torch.softmax(scores / temperature, dim=1)


def log_loss(scores: Tensor, classes: Tensor, temperature: float) -> float:
    """The mean of −log of the probability of each sample's own class.

    Shapes: scores (n, k); classes (n,).
    """
    logs = torch.log_softmax(scores / temperature, dim=1)
    return -float(logs.gather(1, classes[:, None]).mean())


def best_temperature(scores: Tensor, classes: Tensor) -> float:
    """The temperature of the least log loss on samples whose classes are known.

    One more sample is added whose class is the best of those that are not its own: a mean over
    all samples. So a few samples that are all labelled correctly do not make the model certain.

    Shapes: scores (n, k); classes (n,).

    Examples
    --------
    >>> scores = torch.tensor([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    >>> best_temperature(scores, torch.tensor([0, 0, 0, 0]))  # 3 of 4 right: the mean of 5 is 0.65
    3.23
    """
    scores = scores.to(torch.float64)
    n, k = scores.shape
    spread = float((scores.amax(dim=1) - scores.amin(dim=1)).amax()) if n else 0.0
    if k < 2 or not spread > 0:
        return 1.0
    own = scores.gather(1, classes[:, None])
    others = scores.scatter(1, classes[:, None], -torch.inf).amax(dim=1, keepdim=True)
    wanted = float((own + others / n).mean()) / (1 + 1 / n)
    # The log loss is convex in b = 1/T; its derivative is mean Σ p s − mean of the wanted scores.
    low, high = -20.0, 20.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        b = 2.0**middle / spread
        expected = float((torch.softmax(b * scores, dim=1) * scores).sum(dim=1).mean())
        low, high = (middle, high) if expected < wanted else (low, middle)
    return float(f"{spread / 2.0 ** ((low + high) / 2):.{DIGITS}g}")
