"""Joint training: all classes at once; the upper bound for a method with the same network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from redunet_lab.baselines.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class Joint(GradientLearner):
    """Cross-entropy over all outputs, on a single task that has all classes in it."""

    kind: ClassVar[str] = "joint"
    title: ClassVar[str] = "joint training"
    at_once: ClassVar[bool] = True
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.03},
        "cifar10": {"lr": 0.1},
    }
