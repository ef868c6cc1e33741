"""A plan: everything that decides the numbers of an experiment, from options or a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from redunet.errors import FileAccessError, SettingsError
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.settings import Settings, one_of, whole_number
from redunet.experiments.streams import LabelledImages, Task, class_stream
from redunet.features import (
    Chain,
    FeatureMap,
    Flatten,
    GaussianLift,
    Mirrored,
    PatchFilters,
    Root,
    Scattering,
    Standardize,
    Together,
)

FEATURES = (
    "pixels",
    "standardize",
    "standardize-pixel",
    "lift",
    "lift-linear",
    "scattering",
    "finer-scattering",
    "patches",
    "patches-kmeans",
)
"""Feature maps; with a plus sign between them, several side by side."""
_WHOLE = {
    "n_tasks": 1,
    "order_seed": 0,
    "train_per_class": 1,
    "test_per_class": 1,
    "n_kernels": 1,
    "n_scales": 1,
    "pool": 1,
    "n_filters": 1,
    "patch_size": 1,
    "cells": 1,
    "seed": 0,
}
STATISTICS = ("first-task", "whole-training-set", "nowhere")

STREAM = ("data", "n_tasks", "tasks", "order_seed", "train_per_class", "test_per_class")
"""Which parameters are about the stream; the others are about features and network."""


@dataclass(frozen=True)
class Plan:
    """What to run; two runs of one plan on one machine give the same numbers.

    Parameters
    ----------
    data : str
        A data set of `redunet.datasets`.
    n_tasks : int or None
        Tasks of equally many classes; or
    tasks : tuple of tuples of int, or None
        the classes of each task.
    order_seed : int or None
        Shuffles the classes; None keeps them in order.
    train_per_class, test_per_class : int or None
        At most so many samples of each class.
    features : str
        "pixels", "standardize" (one mean and deviation), "standardize-pixel"
        (of each pixel), "lift" (random Gaussian kernels, rectified),
        "lift-linear" (not rectified), "scattering", "finer-scattering" (of one
        scale fewer), "patches" (filters that are patches of images) or
        "patches-kmeans" (centroids of patches); or several of them side by side,
        such as "patches+scattering".
    statistics_from : str
        Where means, deviations and patches come from: "first-task" looks at no
        later task; "whole-training-set" is the paper's and does; "nowhere" is for
        lifts without a mean image and for scattering that is not standardized.
    mean_per : str
        Of lifts: "pixel" or "channel", what has a mean of its own.
    n_kernels : int
    centred : bool
        Of lifts: whether each image's and each kernel's own mean is subtracted.
    n_scales, pool : int
        Of scattering: J, and how many windows along each side are averaged.
    n_filters, patch_size, cells : int
    threshold : float
        Of patches, as for `PatchFilters.learn`.
    mirrored : bool
        Of scattering and patches: whether the features of an image and of its
        mirror image are added up.
    root : bool
        Of scattering and patches: whether the square root of each feature is taken.
    standardized : bool
        Of scattering and patches: whether each feature is shifted and scaled by
        its mean and deviation.
    seed : int
        Of kernels, patches and subsets.
    n_layers, eps, step, step_decay, step_kind, sharpness, n_components, whitening, readout, ridge,
    dtype, tol
        As for `ReduNetClassifier`.
    """

    data: str = "digits"
    n_tasks: int | None = None
    tasks: tuple[tuple[int, ...], ...] | None = None
    order_seed: int | None = None
    train_per_class: int | None = None
    test_per_class: int | None = None
    features: str = "pixels"
    statistics_from: str = "first-task"
    mean_per: str = "pixel"
    n_kernels: int = 5
    centred: bool = False
    n_scales: int = 2
    pool: int = 1
    n_filters: int = 200
    patch_size: int = 6
    cells: int = 2
    threshold: float = 0.25
    mirrored: bool = False
    root: bool = False
    standardized: bool = True
    seed: int = 0
    n_layers: int = 50
    eps: float = 0.5
    step: float = 0.5
    step_decay: float = 0.933
    step_kind: str = "absolute"
    sharpness: float = 1.0
    n_components: int | None = None
    whitening: float | None = None
    readout: str = "subspace"
    ridge: float = 0.01
    dtype: str = "float64"
    tol: float | None = None

    @classmethod
    def from_toml(cls, path: Path, start: Plan | None = None) -> Plan:
        """A plan from a TOML file whose keys are the parameters; unknown keys are errors.

        What the file does not name is as in ``start``, or as usual.
        """
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path} is not a TOML file: {error}") from error
        return (start or cls()).changed(values)

    def changed(self, values: Mapping[str, Any]) -> Plan:
        """The plan with some parameters replaced."""
        known = [field.name for field in fields(self)]
        for name in values:
            if name not in known:
                raise SettingsError(f"expected keys among {', '.join(known)}, got {name!r}")
        values = dict(values)
        if values.get("tasks") is not None:
            try:
                values["tasks"] = tuple(tuple(task) for task in values["tasks"])
            except TypeError:
                raise SettingsError(
                    f"expected tasks as lists of classes such as [[0, 1], [2]], "
                    f"got {values['tasks']!r}"
                ) from None
        return replace(self, **values).checked()

    def checked(self) -> Plan:
        """The plan itself; an error where something in it cannot be meant."""
        for name, least in _WHOLE.items():
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least=least)
        one_of("statistics_from", self.statistics_from, STATISTICS)
        one_of("mean_per", self.mean_per, ("pixel", "channel"))
        if not isinstance(self.features, str) or not set(self.kinds) <= set(FEATURES):
            raise SettingsError(
                f"expected features to be one of {', '.join(FEATURES)}, or several with + between "
                f"them, got {self.features!r}"
            )
        for name in ("centred", "mirrored", "root", "standardized"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(
                    f"expected {name} to be true or false, got {getattr(self, name)!r}"
                )
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int | float):
            raise SettingsError(f"expected threshold to be a number, got {self.threshold!r}")
        needs_images = any(
            kind.startswith(("standardize", "patches"))
            or (kind.endswith("scattering") and self.standardized)
            for kind in self.kinds
        )
        if self.statistics_from == "nowhere" and needs_images:
            raise SettingsError(
                f"expected statistics_from to name images, as {self.features} needs some to learn "
                f"from, got 'nowhere'"
            )
        return self

    @property
    def kinds(self) -> list[str]:
        """The feature maps side by side, most often one."""
        return self.features.split("+")

    @property
    def random_features(self) -> bool:
        """Whether the seed makes a difference to the feature map."""
        return any(kind.startswith(("lift", "patches")) for kind in self.kinds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a record."""
        return asdict(self)

    def stream(self, data: LabelledImages) -> tuple[Task, ...]:
        """The tasks of a data set."""
        return class_stream(
            data,
            self.n_tasks,
            tasks=self.tasks,
            order_seed=self.order_seed,
            train_per_class=self.train_per_class,
            test_per_class=self.test_per_class,
            subset_seed=self.seed,
        )

    def feature_map(self, tasks: tuple[Task, ...], device: str = "cpu") -> FeatureMap:
        """The feature map, learnt from the training images that the plan names.

        The device is where features to be standardized are computed; the map
        is the same for each.
        """
        first = tasks[0]
        of_first = self.statistics_from == "first-task"
        return self.features_from(first.x_train if of_first else first.data.x_train, device)

    def features_from(self, images: NDArray[Any], device: str = "cpu") -> FeatureMap:
        """The feature map, learnt from given images, (n, height, width[, channels]).

        Where nothing is to be learnt, the images say which shape others have.
        """
        maps = tuple(self._features_of(kind, images, device) for kind in self.kinds)
        return maps[0] if len(maps) == 1 else Together(maps)

    def features_for(self, samples: NDArray[Any] | None, device: str = "cpu") -> FeatureMap | None:
        """The same for samples of any kind; None where they are vectors to be taken as they are.

        So are samples that nothing is known of, where the plan asks for pixels.
        """
        if self.features == "pixels" and (samples is None or samples.ndim == 2):
            return None
        if samples is None:
            raise SettingsError(
                f"expected images for the features {self.features!r} to be made from, got none: "
                f"pass images=, such as those of the first task"
            )
        return self.features_from(samples, device)

    def _features_of(self, kind: str, images: NDArray[Any], device: str) -> FeatureMap:
        shape = images.shape[1:]
        if kind == "pixels":
            return Flatten(shape)
        if kind == "standardize":
            return Standardize.learn(images)
        if kind == "standardize-pixel":
            return Standardize.learn(images, per="pixel")
        if kind.startswith("lift"):
            return self._lift(kind, images)
        features: FeatureMap = self._local_features(kind, images)
        if self.mirrored:
            features = Mirrored(features)
        if self.root:
            features = Chain(features, Root(features.n_features))
        return Chain.standardized(features, images, device) if self.standardized else features

    def _lift(self, kind: str, images: NDArray[Any]) -> GaussianLift:
        if images.ndim == 3:
            images = images[..., None]
        relu = kind == "lift"
        if self.statistics_from == "nowhere":
            return GaussianLift(self.seed, images.shape[1:], self.n_kernels, relu, self.centred)
        per: Any = self.mean_per
        return GaussianLift.learn(
            images,
            self.seed,
            n_kernels=self.n_kernels,
            relu=relu,
            centred=self.centred,
            per=per,
        )

    def _local_features(self, kind: str, images: NDArray[Any]) -> Scattering | PatchFilters:
        """Scattering or patches, as they are."""
        if kind.endswith("scattering"):
            n_scales = self.n_scales - (kind == "finer-scattering")
            return Scattering(images.shape[1:], n_scales, pool=self.pool)
        return PatchFilters.learn(
            images,
            self.seed,
            self.n_filters,
            self.patch_size,
            cells=self.cells,
            threshold=self.threshold,
            source="kmeans" if kind == "patches-kmeans" else "random",
        )

    def learner(self, features: FeatureMap | None, device: str, memory: str) -> ReduNetClassifier:
        """A model that has learnt nothing yet."""
        how = self.settings().to_dict()
        return ReduNetClassifier(**how, features=features, device=device, memory=memory)

    def settings(self) -> Settings:
        """The settings of network and read-out, checked."""
        return Settings.of(self)


def completed(recorded: Mapping[str, Any], wanted: Container[str]) -> dict[str, Any]:
    """Recorded settings, with those wanted that plans have gained since, at their defaults."""
    gained = {
        field.name: field.default
        for field in fields(Plan)
        if field.name in wanted and field.name not in recorded
    }
    return {**recorded, **gained}
