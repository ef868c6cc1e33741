"""Fine-tuning: train on each task as it comes and hope; the lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from redunet.rivals.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class Finetune(GradientLearner):
    """Cross-entropy over all outputs on the task at hand, and nothing else."""

    kind: ClassVar[str] = "finetune"
