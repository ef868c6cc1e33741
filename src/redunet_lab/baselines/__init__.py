"""Other methods, one a file, all with partial_fit and predict."""

from __future__ import annotations

from typing import Any

from redunet.errors import SettingsError
from redunet_lab.baselines.derpp import DarkExperienceReplay
from redunet_lab.baselines.er import ExperienceReplay
from redunet_lab.baselines.ewc import OnlineEWC
from redunet_lab.baselines.finetune import Finetune
from redunet_lab.baselines.icarl import ICaRL
from redunet_lab.baselines.joint import Joint
from redunet_lab.baselines.lwf import LearningWithoutForgetting
from redunet_lab.baselines.si import SynapticIntelligence
from redunet_lab.baselines.training import GradientLearner

__all__ = ["GRADIENT", "GradientLearner", "register"]

GRADIENT: dict[str, type[Any]] = {
    baseline.kind: baseline
    for baseline in (
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


def register(baseline: type[Any]) -> type[Any]:
    """Add a method to those that `redunet compare` knows; also a class decorator.

    Parameters
    ----------
    baseline : class
        With ``partial_fit(X, y)`` and ``predict(X)``, made with the keywords
        ``classes`` (all labels of the stream), ``input_shape``, ``seed``,
        ``device`` and settings of its own. Class attributes: ``kind``, its name
        in commands; optionally ``title``, its name in tables, ``color`` and
        ``marker`` for figures, and ``usual_settings(data)``, a static method
        that gives settings for a data set. With ``save(path)`` and ``load(path)`` runs
        resume at once.

    Returns
    -------
    class
        The same.
    """
    kind = getattr(baseline, "kind", None)
    if not isinstance(kind, str) or not kind.isidentifier():
        raise SettingsError(f"expected a class attribute kind such as 'er', got {kind!r}")
    GRADIENT[kind] = baseline
    return baseline
