"""A recipe's network, its ingredients one by one, and closed-form rivals, on the same moments."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.core.moments import ClassMoments
from redunet.core.readouts import READOUTS
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.settings import resolve_device
from redunet.experiments.plan import Plan
from redunet.experiments.runner import joint_check, peak_memory, run_task
from redunet.experiments.streams import LabelledImages, Task, pooled
from redunet.features import FeatureMap
from redunet.progress import Progress, silent
from redunet.rivals import CLOSED_FORM

BARE = {"whitening": None, "n_layers": 0, "readout": "subspace"}
"""Nearest subspace, and nothing before it."""
WHITENING = 0.01
LAYERS = {"n_layers": 1, "step": 0.3, "step_kind": "relative"}
"""What an ingredient is tried at where the recipe itself has none of it."""
PAPER_STEP = {"step": 0.5, "step_decay": 0.933, "step_kind": "absolute"}

FEATURE_STEPS = {"root": "roots", "mirrored": "mirror images"}
"""Steps of a feature map that can be left out, and their names in tables."""

_ROWS = 512
"""Images at a time, for the feature map."""


def variants(plan: Plan) -> list[Plan]:
    """The recipe with each ingredient alone, and with all combinations of them.

    Whitening and layers are each put in or left out, with every read-out, on
    the recipe's features; beside these, pixels in place of its features,
    alone and with all else as in the recipe, each of several feature maps by
    itself, the features without roots and without mirror images, and the
    paper's step in place of its own. What differs in its read-out alone stands
    together.

    Parameters
    ----------
    plan : Plan
        With the recipe's settings.

    Returns
    -------
    list of Plan
        Each once; the recipe itself is among them.
    """
    found = []
    if plan.features != "pixels":
        pixels = plan.changed({"features": "pixels"})
        found += [pixels.changed(BARE), pixels]
    if len(plan.kinds) > 1:
        found += [plan.changed({"features": kind}) for kind in plan.kinds]
    found += [plan.changed({name: False}) for name in FEATURE_STEPS if getattr(plan, name)]
    whitening = WHITENING if plan.whitening is None else plan.whitening
    layers: Mapping[str, Any] = {} if plan.n_layers else LAYERS
    found += [
        plan.changed({"whitening": rho, "readout": readout, **depth})
        for rho in (None, whitening)
        for depth in ({"n_layers": 0}, layers)
        for readout in READOUTS
    ]
    if plan.n_layers:
        found.append(plan.changed(PAPER_STEP))
    return list(dict.fromkeys(found))


class Contest:
    """Labels by all methods, from one model's moments and vectors made once.

    Called with a model and test images it gives the labels of each method.
    Methods take turns, so the memory that one of them needs is free for the next.

    Parameters
    ----------
    plan : Plan
        With the recipe's settings.
    rivals : mapping from a closed-form method to its settings
    features : FeatureMap
        That the model learns through.
    device, memory
        As for `ReduNetClassifier`.
    """

    def __init__(
        self,
        plan: Plan,
        rivals: Mapping[str, Mapping[str, Any]],
        features: FeatureMap,
        device: str,
        memory: str,
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._plan, self._rivals, self._features = plan, rivals, features
        self._device, self._memory = device, memory
        self.moments = ClassMoments(features.n_features)
        self._vectors = np.empty((0, features.n_features))

    def __call__(self, model: ReduNetClassifier, images: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Labels of test images by each method, and in ``seconds`` what each took.

        Parameters
        ----------
        model : ReduNetClassifier
        images : ndarray
            Those of the last call, and more after them.

        Returns
        -------
        dict from a method to its labels
            "redunet" is the recipe; "subspace" has neither layers nor whitening.
        """
        self.look(model, images)
        labels = {}
        for method, contestant in self._contestants():
            start = time.perf_counter()
            labels[method] = contestant.remember(self.moments).predict(self._vectors)
            self.seconds[method] = round(time.perf_counter() - start, 3)
        return labels

    def look(self, model: ReduNetClassifier, images: NDArray[Any]) -> None:
        """Take a model's moments, and make vectors of test images, as for a call."""
        start = time.perf_counter()
        self._extend(images)
        self.seconds = {"features": round(time.perf_counter() - start, 3)}
        self.moments = model.moments_.to(resolve_device(self._device))  # once for all methods

    def ablation(self, plans: Sequence[Plan]) -> Iterator[tuple[Plan, NDArray[Any]]]:
        """Labels of the test images seen, by networks with other settings on these features."""
        reader = self._plan.learner(None, self._device, self._memory).remember(self.moments)
        return _read(reader, plans, self._vectors)

    def _contestants(self) -> Iterator[tuple[str, Any]]:
        where = (self._device, self._memory)
        yield "redunet", self._plan.learner(None, *where)
        yield "subspace", self._plan.changed(BARE).learner(None, *where)
        for method, settings in self._rivals.items():
            yield method, CLOSED_FORM[method](**settings, device=self._device)

    def _extend(self, images: NDArray[Any]) -> None:
        """Make vectors of the images that there are none of yet."""
        parts = [self._vectors]
        for start in range(len(self._vectors), len(images), _ROWS):
            part = np.asarray(images[start : start + _ROWS], dtype=np.float64)
            on_device = torch.from_numpy(part).to(resolve_device(self._device))
            shaped = on_device.reshape(len(part), *self._features.input_shape)
            parts.append(self._features(shaped).cpu().numpy())
        self._vectors = np.concatenate(parts)


@dataclass(frozen=True)
class Stage:
    """Where a recipe shows what it reaches: a stream, and a machine.

    Parameters
    ----------
    plan : Plan
        With the recipe's settings and a seed.
    rivals : mapping from a closed-form method to its settings
    data : data set
    device, memory
        As for `ReduNetClassifier`.
    """

    plan: Plan
    rivals: Mapping[str, Mapping[str, Any]]
    data: LabelledImages
    device: str
    memory: str

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The stream."""
        return self.plan.stream(self.data)

    @cached_property
    def features(self) -> FeatureMap:
        """The recipe's feature map."""
        return self.plan.feature_map(self.tasks, resolve_device(self.device))

    def learner(self) -> ReduNetClassifier:
        """The recipe's model, that has learnt nothing yet."""
        return self.plan.learner(self.features, self.device, self.memory)

    def contest(self) -> Contest:
        """One of the recipe and its rivals."""
        return Contest(self.plan, self.rivals, self.features, self.device, self.memory)

    def evaluation(self, progress: Progress = silent) -> dict[str, Any]:
        """What the recipe and its rivals reach after each task, for a record."""
        on_cuda = resolve_device(self.device).startswith("cuda")
        if on_cuda:
            torch.cuda.reset_peak_memory_stats()
        progress("features", 0.0)
        d, number = self.features.n_features, len(self.tasks)
        sizes = {"pixels": self.data.x_train[0].size}
        for one in variants(self.plan):  # a mistake shows before the work
            one.network().components(sizes.get(one.features, d))
        model, contest, rows = self.learner(), self.contest(), []
        for seen in range(1, number + 1):
            progress(f"task {seen} of {number}", (seen - 1) / number)
            row = run_task(model, self.tasks[:seen], contest, last=seen == number)
            rows.append(row | {"seconds_by_method": contest.seconds})
        k = len(model.classes_)
        return {
            "tasks": rows,
            "n_features": d,
            "moments_bytes": k * (d * (d + 1) // 2 + d + 1) * 8,
            "peak_memory_bytes": peak_memory(),
            "peak_device_memory_bytes": torch.cuda.max_memory_allocated() if on_cuda else None,
        }

    def ablation(self) -> dict[str, Any]:
        """Each variant with its accuracy after the last task, for a record."""
        start = time.perf_counter()
        (x_train, y_train), (x_test, y_test) = (pooled(self.tasks, of) for of in ("train", "test"))
        rows = []
        elsewhere = [one for one in variants(self.plan) if _features(one) != _features(self.plan)]
        for _, group in groupby(elsewhere, _features):
            plans = list(group)
            features = plans[0].feature_map(self.tasks, resolve_device(self.device))
            reader = plans[0].learner(features, self.device, self.memory).fit(x_train, y_train)
            for one, labels in _read(reader, plans, x_test):
                rows.append(_variant(one, self.plan, features.n_features, labels == y_test))
            del reader
        contest = self.contest()
        contest.look(self.learner().fit(x_train, y_train), x_test)
        here = [one for one in variants(self.plan) if _features(one) == _features(self.plan)]
        for one, labels in contest.ablation(here):
            rows.append(_variant(one, self.plan, self.features.n_features, labels == y_test))
        return {"ablation": rows, "ablation_seconds": round(time.perf_counter() - start, 3)}

    def joint(self) -> dict[str, Any]:
        """The recipe's model against one that learnt everything at once, for a record."""
        model = self.learner()
        for task in self.tasks:
            model.partial_fit(task.x_train, task.y_train)
        return {"joint": joint_check(model, self.tasks, self.learner)}


def _features(plan: Plan) -> tuple[Any, ...]:
    """What of a variant decides its feature map."""
    return plan.features, *(getattr(plan, name) for name in FEATURE_STEPS)


def _read(
    reader: ReduNetClassifier, plans: Sequence[Plan], X: NDArray[Any]
) -> Iterator[tuple[Plan, NDArray[Any]]]:
    """Labels by networks of the same moments with other settings."""
    for plan in plans:
        yield plan, reader.set_params(**plan.network().to_dict()).predict(X)


def _variant(one: Plan, recipe: Plan, d: int, hits: NDArray[np.bool_]) -> dict[str, Any]:
    settings = one.network()
    components = {"n_components": settings.components(d)} if one.readout == "subspace" else {}
    return {
        "recipe": one == recipe,
        "features": one.features,
        "without": [
            step
            for name, step in FEATURE_STEPS.items()
            if getattr(recipe, name) and not getattr(one, name)
        ],
        "n_features": d,
        **settings.to_dict(),
        **components,
        "accuracy": float(np.mean(hits)),
    }
