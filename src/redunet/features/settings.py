"""The settings that say which feature map a model has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from redunet.errors import SettingsError
from redunet.features.base import FeatureMap
from redunet.features.composed import Chain, Concatenate, Mirrored
from redunet.features.names import Images, Named, canonical, parse
from redunet.features.square_root import SquareRoot
from redunet.validation import Declared, choice, flag, number, setting, whole


@dataclass(frozen=True)
class FeatureSettings(Declared):
    """Settings of a feature map: its kind, and what it is made from."""

    features: str = setting(
        "pixels",
        canonical,
        """The feature map: "pixels", "standardize-all" (one mean and deviation for all values),
        "standardize-columns" (one for each column or pixel), "lift" (random Gaussian kernels,
        rectified), "lift-linear" (not rectified), "scattering", "finer-scattering" (one scale
        fewer), "patches" (filters that are patches of images), "patches-N" (patches of N pixels
        along each side, such as "patches-9"), "larger-patches" (two pixels wider than patches),
        "patches-kmeans" (centroids of patches), "stacked-patches" and "stacked-patches-N" (patches
        of responses to patches), any of these after "upright-", such as "upright-scattering" (the
        slant of the image is taken out first), "patch-planes" (correlations with patches at every
        position, for ``shifts``), and of vectors "random-relu" (Gaussian projections, rectified)
        and "fourier" (random Fourier features); or several of them side by side, such as
        "patches+scattering".""",
        "str",
    )
    fit_features_on: str = setting(
        "first-task",
        choice("first-task", "whole-training-set", "nowhere"),
        """Where means, deviations and patches come from: "first-task" looks at no later task;
        "whole-training-set", the paper's choice, does; "nowhere" is for lifts without a mean image
        and for scattering that is not standardized.""",
        '{"first-task", "whole-training-set", "nowhere"}',
        earlier="statistics_from",
    )
    mean_per: str = setting(
        "pixel",
        choice("pixel", "channel"),
        "Of lifts: what has a mean of its own.",
        '{"pixel", "channel"}',
    )
    n_kernels: int = setting(5, whole(1, 2**16), "Of lifts: the number of kernels.", "int")
    centred: bool = setting(
        False,
        flag,
        """Of lifts: whether each image's and each kernel's mean is subtracted. Of random-relu and
        fourier: whether the mean of the vectors is.""",
        "bool",
    )
    n_scales: int = setting(2, whole(1, 32), "Of scattering: J, the number of scales.", "int")
    pool: int = setting(
        1, whole(1, 2**16), "Of scattering: windows averaged along each side.", "int"
    )
    n_filters: int = setting(200, whole(1, 2**20), "Of patches: the number of filters.", "int")
    patch_size: int = setting(6, whole(1, 2**16), "Of patches: the side of a patch.", "int")
    pool_cells: int = setting(
        2,
        whole(1, 2**16),
        "Of patches: pooling cells along each side.",
        "int",
        earlier="cells",
    )
    threshold: float = setting(
        0.25, number(-math.inf), "Of patches: what is subtracted from each response.", "float"
    )
    window: float = setting(
        0.0,
        number(-math.inf),
        """Of patches: the standard deviation, in pixels, of Gaussian windows that responses are
        summed in; 0 sums over cells with sharp edges.""",
        "float",
    )
    padding: int = setting(
        0,
        whole(0, 2**16),
        """Of patches: zeros around the image on each side, so that patches also lie across its
        edges.""",
        "int",
    )
    width: int = setting(
        2000, whole(1, 2**20), "Of random-relu and fourier: the number of features.", "int"
    )
    bandwidth: float = setting(
        1.0, number(0), "Of fourier: the width of the Gaussian kernel, σ.", "float"
    )
    mirrored: bool = setting(
        False,
        flag,
        """Of scattering and patches: whether the features of an image and of its mirror image
        are added up.""",
        "bool",
    )
    sqrt: bool = setting(
        False,
        flag,
        "Of scattering and patches: whether the square root of each feature is taken.",
        "bool",
        earlier="root",
    )
    standardized: bool = setting(
        True,
        flag,
        """Of scattering and patches: whether each feature is shifted and scaled by its mean and
        deviation.""",
        "bool",
    )
    seed: int = setting(0, whole(0, 2**32 - 1), "Of kernels, patches and subsets of data.", "int")
    n_ensemble: int = setting(
        1,
        whole(1, 2**8),
        """The number of such maps, each with draws of its own. With several, a network is made of
        each, and their scores are averaged: an `EnsembleClassifier`.""",
        "int",
        always_saved=False,
        earlier="n_maps",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.fit_features_on == "nowhere" and self.needs_images:
            raise SettingsError(
                f"expected fit_features_on to name images, as {self.features} needs some to learn "
                f"from, got 'nowhere'"
            )
        if self.n_ensemble > 1 and not self.random_features:
            raise SettingsError(
                f"expected features that are drawn at random, such as patches, for n_ensemble="
                f"{self.n_ensemble}, as all maps would be the same, got {self.features!r}"
            )

    @property
    def kinds(self) -> list[str]:
        """The names of the maps side by side, most often one."""
        return self.features.split("+")

    @property
    def needs_images(self) -> bool:
        """Whether the map is learnt from images."""
        return any(
            one.learns(self) or (one.local and self.standardized) for one in self._named_kinds
        )

    @property
    def random_features(self) -> bool:
        """Whether the seed makes a difference to the map."""
        return any(one.random for one in self._named_kinds)

    @cached_property
    def _named_kinds(self) -> tuple[Named, ...]:
        return parse(self.features)

    def features_from(self, images: Images, device: str = "cpu") -> FeatureMap:
        """The map, learnt from images where it has to be.

        Parameters
        ----------
        images : array of shape (n, …)
            Where nothing is learnt, only their shape matters.
        device : str, default="cpu"
            Where features to be standardized are computed; the map is the same for each.
        """
        if self.n_ensemble > 1:
            alone = (self.changed({"seed": seed, "n_ensemble": 1}) for seed in self._seeds)
            return Concatenate(tuple(one.features_from(images, device) for one in alone))
        maps = tuple(self._one(named, images, device) for named in self._named_kinds)
        return maps[0] if len(maps) == 1 else Concatenate(maps)

    @property
    def _seeds(self) -> list[int]:
        """Of each map; those of fewer maps are the first of more."""
        more = self.n_ensemble - 1
        drawn = np.random.RandomState(self.seed).randint(2**32, size=more, dtype="u4")
        return [self.seed, *drawn.tolist()]

    def _one(self, named: Named, images: Images, device: str) -> FeatureMap:
        features = named.make(self, images, device)
        if not named.local:
            return features
        if self.mirrored:
            features = Mirrored(features)
        if self.sqrt:
            features = Chain(features, SquareRoot(features.n_features))
        return Chain.standardized(features, images, device) if self.standardized else features
