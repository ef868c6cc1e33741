"""Feature maps by name: the settings that say which map a model has, and the map made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from redunet import registry
from redunet.errors import SettingsError
from redunet.features.base import FeatureMap
from redunet.features.chain import Chain
from redunet.features.fourier import Fourier
from redunet.features.lift import GaussianLift
from redunet.features.mirrored import Mirrored
from redunet.features.patches import PatchFilters
from redunet.features.random_relu import RandomReLU
from redunet.features.root import Root
from redunet.features.scattering import Scattering
from redunet.features.stacked_patches import StackedPatches
from redunet.features.standardize import Flatten, Standardize
from redunet.features.together import Together
from redunet.features.upright import Upright, upright_pixels
from redunet.validation import Declared, choice, flag, number, setting, whole

Images = Any
"""Samples, array of shape (n, …): what a map learns from, and the shape of later samples."""

Make = Callable[["FeatureSettings", Images, str], FeatureMap]


@dataclass(frozen=True)
class Named:
    """A feature map that settings can name.

    Parameters
    ----------
    make : callable
        From the settings, images and a device to the map, which is the same whatever the device.
    learns : callable, default=never
        From the settings to whether the map is learnt from images.
    random : bool, default=False
        Whether the seed makes a difference.
    local : bool, default=False
        Whether ``mirrored``, ``sqrt`` and ``standardized`` apply to it.
    """

    make: Make
    learns: Callable[[FeatureSettings], bool] = lambda settings: False
    random: bool = False
    local: bool = False


_NAMED: dict[str, Named] = {}


def register_name(name: str, named: Named) -> None:
    """Let settings name a feature map, as in ``features="patches"``."""
    _NAMED[name] = named


def known_names() -> tuple[str, ...]:
    """The names of feature maps that settings can have, beside those of patches of N pixels."""
    return tuple({**_NAMED, **dict.fromkeys(registry.names("feature names"))})


def _named(kind: str) -> Named | None:
    """The feature map of that name, None where there is none."""
    if kind.startswith(_UPRIGHT):
        plain = _named(kind.removeprefix(_UPRIGHT))
        return replace(plain, make=_upright(plain)) if plain and plain.local else None
    family, _, size = kind.rpartition("-")
    if family in _SIZED and size.isdecimal():
        return Named(_SIZED[family](int(size)), learns=_always, random=True, local=True)
    found: Named | None = _NAMED.get(kind) or registry.find("feature names", kind)
    return found


_EARLIER = {"standardize": "standardize-all", "standardize-pixel": "standardize-columns"}
"""What maps were called in earlier versions, and what they are called now."""


def _features(name: str, value: Any) -> str:
    if isinstance(value, str):
        kinds = [_EARLIER.get(kind, kind) for kind in value.split("+")]
        if all(_named(kind) for kind in kinds):
            return "+".join(kinds)
    raise SettingsError(
        f"expected {name} to be one of {', '.join(known_names())}, "
        f"{' or '.join(f'{family}-N' for family in _SIZED)} with N the side of a patch, "
        f"{_UPRIGHT} before scattering or patches, or several with + between them, got {value!r}"
    )


@dataclass(frozen=True)
class FeatureSettings(Declared):
    """Which feature map a model has, and what it is made from."""

    features: str = setting(
        "pixels",
        _features,
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

    @property
    def _named_kinds(self) -> list[Named]:
        return [named for named in map(_named, self.kinds) if named is not None]

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
            return Together(tuple(one.features_from(images, device) for one in alone))
        maps = tuple(self._one(named, images, device) for named in self._named_kinds)
        return maps[0] if len(maps) == 1 else Together(maps)

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
            features = Chain(features, Root(features.n_features))
        return Chain.standardized(features, images, device) if self.standardized else features


def _lift(relu: bool) -> Make:
    def make(settings: FeatureSettings, images: Images, device: str) -> FeatureMap:
        if images.ndim == 3:
            images = images[..., None]
        kernels, centred = settings.n_kernels, settings.centred
        if settings.fit_features_on == "nowhere":
            return GaussianLift(settings.seed, images.shape[1:], kernels, relu, centred)
        per: Any = settings.mean_per
        return GaussianLift.learn(
            images, settings.seed, n_kernels=kernels, relu=relu, centred=centred, per=per
        )

    return make


def _scattering(fewer: int) -> Make:
    return lambda settings, images, _: Scattering(
        images.shape[1:], settings.n_scales - fewer, pool=settings.pool
    )


def _upright(plain: Named) -> Make:
    """The map of upright images, learnt from upright images where it is learnt."""

    def make(settings: FeatureSettings, images: Images, device: str) -> FeatureMap:
        if plain.learns(settings):
            images = upright_pixels(images)
        return Upright(plain.make(settings, images, device))

    return make


def _patches(source: Any, size: int | None = None, wider: int = 0) -> Make:
    # Sizes that are named have draws of their own, so that they do not show the same places.
    return lambda settings, images, _: PatchFilters.learn(
        images,
        settings.seed if size is None else (settings.seed, size),
        settings.n_filters,
        (settings.patch_size if size is None else size) + wider,
        cells=settings.pool_cells,
        threshold=settings.threshold,
        window=settings.window,
        padding=settings.padding,
        source=source,
    )


def _stacked_patches(size: int | None = None) -> Make:
    return lambda settings, images, device: StackedPatches.learn(
        images,
        settings.seed if size is None else (settings.seed, size),
        settings.n_filters,
        settings.patch_size if size is None else size,
        cells=settings.pool_cells,
        threshold=settings.threshold,
        window=settings.window,
        device=device,
    )


def _random_relu(settings: FeatureSettings, samples: Images, device: str) -> FeatureMap:
    if settings.centred:
        return RandomReLU.learn(samples, settings.seed, settings.width)
    return RandomReLU(settings.seed, samples.shape[1:], settings.width)


def _fourier(settings: FeatureSettings, samples: Images, device: str) -> FeatureMap:
    width, bandwidth = settings.width, settings.bandwidth
    if settings.centred:
        return Fourier.learn(samples, settings.seed, width, bandwidth)
    return Fourier(settings.seed, samples.shape[1:], width, bandwidth)


def _if_centred(settings: FeatureSettings) -> bool:
    return settings.centred


def _always(settings: FeatureSettings) -> bool:
    return True


_NAMED.update(
    {
        "pixels": Named(lambda settings, images, _: Flatten(images.shape[1:])),
        "standardize-all": Named(
            lambda settings, images, _: Standardize.learn(images), learns=_always
        ),
        "standardize-columns": Named(
            lambda settings, images, _: Standardize.learn(images, per="pixel"), learns=_always
        ),
        "lift": Named(_lift(relu=True), random=True),
        "lift-linear": Named(_lift(relu=False), random=True),
        "scattering": Named(_scattering(fewer=0), local=True),
        "finer-scattering": Named(_scattering(fewer=1), local=True),
        "patches": Named(_patches("random"), learns=_always, random=True, local=True),
        "larger-patches": Named(
            _patches("random", wider=2), learns=_always, random=True, local=True
        ),
        "patches-kmeans": Named(_patches("kmeans"), learns=_always, random=True, local=True),
        "stacked-patches": Named(_stacked_patches(), learns=_always, random=True, local=True),
        "random-relu": Named(_random_relu, learns=_if_centred, random=True),
        "fourier": Named(_fourier, learns=_if_centred, random=True),
    }
)

_UPRIGHT = "upright-"
"""Before the name of scattering or patches: of images whose slant is taken out first."""

_SIZED: dict[str, Callable[[int], Make]] = {
    "patches": lambda size: _patches("random", size),
    "stacked-patches": _stacked_patches,
}
"""Maps whose name may end with the side of their patches."""
