"""Feature maps by name: one parser of names such as "upright-patches-9+scattering"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from redunet import registry
from redunet.errors import SettingsError
from redunet.features.base import FeatureMap
from redunet.features.deskew import Deskew, deskewed_pixels
from redunet.features.lift import GaussianLift
from redunet.features.patches import PatchFilters, Source, StackedPatches
from redunet.features.random_features import Fourier, RandomReLU
from redunet.features.scattering import Scattering
from redunet.features.standardize import Flatten, Standardize

if TYPE_CHECKING:
    from redunet.features.settings import FeatureSettings

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


_EARLIER = {"standardize": "standardize-all", "standardize-pixel": "standardize-columns"}
"""Names of maps in earlier versions, and those of today."""

_UPRIGHT = "upright-"


def register_name(name: str, named: Named) -> None:
    """Let settings name a feature map, as in ``features="patches"``."""
    _NAMED[name] = named


def known_names() -> tuple[str, ...]:
    """The names of feature maps that settings can have, beside those of patches of N pixels."""
    return tuple({**_NAMED, **dict.fromkeys(registry.names("feature names"))})


def canonical(setting: str, value: Any) -> str:
    """The names of maps side by side as they are today; a SettingsError where one is none."""
    if isinstance(value, str):
        kinds = [_EARLIER.get(kind, kind) for kind in value.split("+")]
        if all(map(_named, kinds)):
            return "+".join(kinds)
    raise SettingsError(
        f"expected {setting} to be one of {', '.join(known_names())}, "
        f"{' or '.join(f'{family}-N' for family in _SIZED)} with N the side of a patch, "
        f"{_UPRIGHT} before scattering or patches, or several with + between them, got {value!r}"
    )


def parse(features: str) -> tuple[Named, ...]:
    """The maps of canonical names with + between them."""
    return tuple(named for named in map(_named, features.split("+")) if named is not None)


def _named(kind: str) -> Named | None:
    """The feature map of that name, None where there is none."""
    if kind.startswith(_UPRIGHT):
        plain = _named(kind.removeprefix(_UPRIGHT))
        return replace(plain, make=_upright(plain)) if plain and plain.local else None
    family, _, size = kind.rpartition("-")
    if family in _SIZED and size.isdecimal():
        return _of_patches(_SIZED[family](int(size)))
    found: Named | None = _NAMED.get(kind) or registry.find("feature names", kind)
    return found


def _upright(plain: Named) -> Make:
    """The map of upright images, learnt from upright images where it is learnt."""

    def make(settings: FeatureSettings, images: Images, device: str) -> FeatureMap:
        if plain.learns(settings):
            images = deskewed_pixels(images)
        return Deskew(plain.make(settings, images, device))

    return make


def _lift(relu: bool) -> Named:
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

    return Named(make, random=True)


def _scattering(fewer: int) -> Named:
    def make(settings: FeatureSettings, images: Images, device: str) -> FeatureMap:
        return Scattering(images.shape[1:], settings.n_scales - fewer, pool=settings.pool)

    return Named(make, local=True)


def _of_patches(make: Make) -> Named:
    return Named(make, learns=lambda settings: True, random=True, local=True)


def _patches(size: int | None = None, wider: int = 0, source: Source = "random") -> Make:
    # Sizes that are named have draws of their own, so that they do not show the same places.
    return lambda settings, images, _: PatchFilters.learn(
        images,
        settings.seed if size is None else (settings.seed, size),
        settings.n_filters,
        (settings.patch_size if size is None else size) + wider,
        padding=settings.padding,
        source=source,
        **_pooling(settings),
    )


def _stacked_patches(size: int | None = None) -> Make:
    return lambda settings, images, device: StackedPatches.learn(
        images,
        settings.seed if size is None else (settings.seed, size),
        settings.n_filters,
        settings.patch_size if size is None else size,
        device=device,
        **_pooling(settings),
    )


def _pooling(settings: FeatureSettings) -> dict[str, Any]:
    how = {"cells": settings.pool_cells, "threshold": settings.threshold}
    return {**how, "window": settings.window}


def _standardize(per: Any) -> Named:
    return Named(
        lambda settings, images, _: Standardize.learn(images, per=per),
        learns=lambda settings: True,
    )


def _random_features(kind: type[RandomReLU] | type[Fourier], *own: str) -> Named:
    def make(settings: FeatureSettings, samples: Images, device: str) -> FeatureMap:
        how = {name: getattr(settings, name) for name in own}
        if settings.centred:
            return kind.learn(samples, settings.seed, settings.width, **how)
        return kind(settings.seed, samples.shape[1:], settings.width, **how)

    return Named(make, learns=lambda settings: settings.centred, random=True)


_NAMED: dict[str, Named] = {
    "pixels": Named(lambda settings, images, _: Flatten(images.shape[1:])),
    "standardize-all": _standardize("dataset"),
    "standardize-columns": _standardize("pixel"),
    "lift": _lift(relu=True),
    "lift-linear": _lift(relu=False),
    "scattering": _scattering(fewer=0),
    "finer-scattering": _scattering(fewer=1),
    "patches": _of_patches(_patches()),
    "larger-patches": _of_patches(_patches(wider=2)),
    "patches-kmeans": _of_patches(_patches(source="kmeans")),
    "stacked-patches": _of_patches(_stacked_patches()),
    "random-relu": _random_features(RandomReLU),
    "fourier": _random_features(Fourier, "bandwidth"),
}

_SIZED: dict[str, Callable[[int], Make]] = {
    "patches": _patches,
    "stacked-patches": _stacked_patches,
}
"""Families of maps whose names end in the side of a patch."""
