"""Joint training: all classes at once; the upper bound for a method with the same network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from redunet.rivals.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class Joint(GradientLearner):
    """Cross-entropy over all outputs, on a single task that has all classes in it."""

    kind: ClassVar[str] = "joint"
