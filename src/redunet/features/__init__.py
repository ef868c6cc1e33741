"""Fixed maps from raw input to feature vectors.

A feature map is a frozen value: made once, from constants or from images that
one names, and then given to the estimator, which saves it with the model. The
bits of a sample's features depend on that sample alone, not on the batch it
comes in, so every promise of exactness holds through the map.

A map of one's own is a class with the members of `FeatureMap`, decorated with
`register`; with `register_name` settings can name it too.
"""

from redunet.features.base import FeatureMap, held_of_data, register, restore
from redunet.features.composed import Chain, Concatenate, Mirrored
from redunet.features.deskew import Deskew
from redunet.features.lift import GaussianLift
from redunet.features.names import Named, known_names, register_name
from redunet.features.patches import PatchFilters, StackedPatches
from redunet.features.random_features import Fourier, RandomReLU
from redunet.features.scattering import Scattering
from redunet.features.settings import FeatureSettings
from redunet.features.square_root import SquareRoot
from redunet.features.standardize import Flatten, Standardize

__all__ = [
    "Chain",
    "Concatenate",
    "Deskew",
    "FeatureMap",
    "FeatureSettings",
    "Flatten",
    "Fourier",
    "GaussianLift",
    "Mirrored",
    "Named",
    "PatchFilters",
    "RandomReLU",
    "Scattering",
    "SquareRoot",
    "StackedPatches",
    "Standardize",
    "held_of_data",
    "known_names",
    "register",
    "register_name",
    "restore",
]
