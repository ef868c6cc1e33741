"""What others do, one method a file, all with partial_fit and predict."""

from __future__ import annotations

from redunet.estimators import CLOSED_FORM
from redunet.rivals.derpp import DarkExperienceReplay
from redunet.rivals.er import ExperienceReplay
from redunet.rivals.ewc import OnlineEWC
from redunet.rivals.finetune import Finetune
from redunet.rivals.icarl import ICaRL
from redunet.rivals.joint import Joint
from redunet.rivals.lwf import LearningWithoutForgetting
from redunet.rivals.si import SynapticIntelligence
from redunet.rivals.training import GradientLearner

__all__ = ["CLOSED_FORM", "GRADIENT", "GradientLearner"]

GRADIENT: dict[str, type[GradientLearner]] = {
    rival.kind: rival
    for rival in (
        Finetune,
        Joint,
        LearningWithoutForgetting,
        OnlineEWC,
        SynapticIntelligence,
        ICaRL,
        ExperienceReplay,
        DarkExperienceReplay,
    )
}
"""Networks trained by gradient descent, by the names that `redunet compare` knows."""
