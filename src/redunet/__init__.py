"""Class-incremental learning that never forgets, exactly.

The public names, loaded on first use so that importing the package does nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from redunet._version import __version__

if TYPE_CHECKING:
    from redunet.built import StreamingWarning
    from redunet.classifier import ReduNetClassifier
    from redunet.construction import Schedule
    from redunet.errors import (
        DataError,
        FileAccessError,
        ModelFileError,
        NumericalError,
        ReduNetError,
        SettingsError,
    )
    from redunet.estimator import LearntFeaturesWarning, NotFittedError
    from redunet.layer import Layer
    from redunet.moments import ClassMoments
    from redunet.network import ReduNet, build_network, extend_network
    from redunet.rate import rate_reduction
    from redunet.readouts import (
        CodingLength,
        LeastSquares,
        LinearDiscriminant,
        NearestSubspace,
    )
    from redunet.recipes import from_recipe

_HOMES = {
    "ClassMoments": "moments",
    "CodingLength": "readouts",
    "DataError": "errors",
    "FileAccessError": "errors",
    "Layer": "layer",
    "LearntFeaturesWarning": "estimator",
    "LeastSquares": "readouts",
    "LinearDiscriminant": "readouts",
    "ModelFileError": "errors",
    "NearestSubspace": "readouts",
    "NotFittedError": "estimator",
    "NumericalError": "errors",
    "ReduNet": "network",
    "ReduNetClassifier": "classifier",
    "ReduNetError": "errors",
    "Schedule": "construction",
    "SettingsError": "errors",
    "StreamingWarning": "built",
    "build_network": "network",
    "extend_network": "network",
    "from_recipe": "recipes",
    "rate_reduction": "rate",
}

__all__ = [
    "ClassMoments",
    "CodingLength",
    "DataError",
    "FileAccessError",
    "Layer",
    "LearntFeaturesWarning",
    "LeastSquares",
    "LinearDiscriminant",
    "ModelFileError",
    "NearestSubspace",
    "NotFittedError",
    "NumericalError",
    "ReduNet",
    "ReduNetClassifier",
    "ReduNetError",
    "Schedule",
    "SettingsError",
    "StreamingWarning",
    "__version__",
    "build_network",
    "extend_network",
    "from_recipe",
    "rate_reduction",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"redunet.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'redunet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
