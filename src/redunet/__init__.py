"""Class-incremental learning that never forgets, exactly.

The public names, loaded on first use so that importing the package takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from redunet._version import __version__

if TYPE_CHECKING:
    from redunet.core.construction import Schedule
    from redunet.core.layer import AbstractLayer, Layer
    from redunet.core.low_rank import LowRankLayer
    from redunet.core.moments import ClassMoments
    from redunet.core.network import ReduNet, build_network, extend_network
    from redunet.core.rate import rate_reduction
    from redunet.core.readouts import (
        CodingLength,
        LeastSquares,
        LinearDiscriminant,
        NearestSubspace,
    )
    from redunet.errors import (
        BusyError,
        DataError,
        DataTypeError,
        FileAccessError,
        GroupError,
        ModelFileError,
        NumericalError,
        ReduNetError,
        SettingsError,
    )
    from redunet.estimators import load
    from redunet.estimators.base import LearntFeaturesWarning
    from redunet.estimators.classifier import ReduNetClassifier
    from redunet.estimators.ensemble import EnsembleClassifier
    from redunet.estimators.offloading import offload
    from redunet.estimators.predictor import CoverageWarning, StreamingWarning
    from redunet.estimators.protocol import NotFittedError
    from redunet.estimators.recipes import from_recipe
    from redunet.shift_invariant.classifier import ShiftInvariantClassifier

_HOMES = {
    "AbstractLayer": "core.layer",
    "BusyError": "errors",
    "ClassMoments": "core.moments",
    "CodingLength": "core.readouts",
    "CoverageWarning": "estimators.predictor",
    "DataError": "errors",
    "DataTypeError": "errors",
    "EnsembleClassifier": "estimators.ensemble",
    "FileAccessError": "errors",
    "GroupError": "errors",
    "Layer": "core.layer",
    "LearntFeaturesWarning": "estimators.base",
    "LeastSquares": "core.readouts",
    "LinearDiscriminant": "core.readouts",
    "LowRankLayer": "core.low_rank",
    "ModelFileError": "errors",
    "NearestSubspace": "core.readouts",
    "NotFittedError": "estimators.protocol",
    "NumericalError": "errors",
    "ReduNet": "core.network",
    "ReduNetClassifier": "estimators.classifier",
    "ReduNetError": "errors",
    "Schedule": "core.construction",
    "SettingsError": "errors",
    "ShiftInvariantClassifier": "shift_invariant.classifier",
    "StreamingWarning": "estimators.predictor",
    "build_network": "core.network",
    "extend_network": "core.network",
    "from_recipe": "estimators.recipes",
    "load": "estimators",
    "offload": "estimators.offloading",
    "rate_reduction": "core.rate",
}

__all__ = [
    "AbstractLayer",
    "BusyError",
    "ClassMoments",
    "CodingLength",
    "CoverageWarning",
    "DataError",
    "DataTypeError",
    "EnsembleClassifier",
    "FileAccessError",
    "GroupError",
    "Layer",
    "LearntFeaturesWarning",
    "LeastSquares",
    "LinearDiscriminant",
    "LowRankLayer",
    "ModelFileError",
    "NearestSubspace",
    "NotFittedError",
    "NumericalError",
    "ReduNet",
    "ReduNetClassifier",
    "ReduNetError",
    "Schedule",
    "SettingsError",
    "ShiftInvariantClassifier",
    "StreamingWarning",
    "__version__",
    "build_network",
    "extend_network",
    "from_recipe",
    "load",
    "offload",
    "rate_reduction",
]


if not TYPE_CHECKING:  # so that type checkers know the names above and no others

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"redunet.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'redunet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
