"""Fixed maps from raw input to feature vectors.

A feature map is a frozen value: made once, from constants or from images that
one names, and then given to the estimator, which saves it with the model. The
bits of a sample's features depend on that sample alone, not on the batch it
comes in, so every promise of exactness holds through the map.

A map of one's own is a class with the members of `FeatureMap`, decorated with
`register`; with `register_name` settings can name it too.
"""

from redunet.features.base import FeatureMap, held_of_data, register, restore
from redunet.features.chain import Chain
from redunet.features.fourier import Fourier
from redunet.features.lift import GaussianLift
from redunet.features.mirrored import Mirrored
from redunet.features.patches import PatchFilters
from redunet.features.random_relu import RandomReLU
from redunet.features.root import Root
from redunet.features.scattering import Scattering
from redunet.features.settings import FeatureSettings, Named, known_names, register_name
from redunet.features.stacked_patches import StackedPatches
from redunet.features.standardize import Flatten, Standardize
from redunet.features.together import Together
from redunet.features.upright import Upright

__all__ = [
    "Chain",
    "FeatureMap",
    "FeatureSettings",
    "Flatten",
    "Fourier",
    "GaussianLift",
    "Mirrored",
    "Named",
    "PatchFilters",
    "RandomReLU",
    "Root",
    "Scattering",
    "StackedPatches",
    "Standardize",
    "Together",
    "Upright",
    "held_of_data",
    "known_names",
    "register",
    "register_name",
    "restore",
]
