"""Fine-tuning: train on each task as it comes and hope; the lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from redunet_lab.baselines.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class Finetune(GradientLearner):
    """Cross-entropy over all outputs on the task at hand, and nothing else."""

    kind: ClassVar[str] = "finetune"
    title: ClassVar[str] = "fine-tuning"
    color: ClassVar[str] = "#8a8f98"
    marker: ClassVar[str] = "x"
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.03},
        "cifar10": {"lr": 0.1},
    }
