"""Commands that change a model file: learn, forget, unlearn, merge. Each all at once or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.classifier import ReduNetClassifier
from redunet.errors import DataError, FileAccessError, SettingsError
from redunet.features import FeatureMap, Flatten
from redunet.plan import Plan
from redunet.progress import Progress, silent
from redunet.sources import Source, Wanted
from redunet.streams import Task
from redunet.tool.lock import Tell, changing
from redunet.tool.matching import (
    at,
    label_type,
    labels_like,
    noting,
    open_all,
    read,
    samples_for,
)

Found = dict[str, Any]

MOST_FEATURES = 2**15
"""Beyond it the second moment of one class alone takes more than 8 GB."""

_SAMPLE_BYTES = 2**27
_OF_STREAMS = {
    "data",
    "n_tasks",
    "tasks",
    "order_seed",
    "train_per_class",
    "test_per_class",
}
_OF_INPUT = ("normalize", "input_range")


@dataclass(frozen=True, eq=False)
class _Images:
    """Samples that a feature map may be learnt from."""

    x_train: NDArray[Any]
    name: str = "own"

    @property
    def y_train(self) -> NDArray[Any]:
        return np.zeros(len(self.x_train), dtype=np.int64)

    @property
    def x_test(self) -> NDArray[Any]:
        return self.x_train[:0]

    @property
    def y_test(self) -> NDArray[Any]:
        return self.y_train[:0]


def learn(
    path: Path,
    data: Sequence[Path],
    settings: Mapping[str, Any],
    wanted: Wanted,
    *,
    device: str = "auto",
    tell: Tell,
    progress: Progress = silent,
) -> Found:
    """Create a model or extend it, by new classes or by more of old ones.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
    settings : mapping
        Of a new model: parameters of `Plan` but those of streams, and
        ``normalize`` and ``input_range``.
    wanted : Wanted
    device : str, default="auto"
    tell : callable
    progress : callable

    Returns
    -------
    dict
        What was learnt, and what the model holds now.
    """
    with changing(path, tell):
        model = _existing(path, device)
        if model is not None and settings:
            raise SettingsError(
                f"{path} exists and keeps the settings that it was made with: "
                f"leave out {', '.join(sorted(settings))}, or name a new model"
            )
        plan, of_input = _parted(settings)
        sources = open_all(data, wanted, model)
        created = model is None
        if model is None:
            model = _new_model(plan, sources, progress)
            model.set_params(device=device, **of_input)
        before = {} if created else dict(zip(model.moments_, model.moments_.counts, strict=True))
        columns = sources[0].columns
        for source, batch in read(sources, "learning", progress):
            with at(source, batch):
                kind = label_type(model) if hasattr(model, "moments_") else None
                labels = labels_like(_labels(batch.y), kind)
                model.partial_fit(samples_for(model, batch), labels)
                if created and columns and not hasattr(model, "feature_names_in_"):
                    model.feature_names_in_ = np.asarray(columns, dtype=object)
        model.save(path)
    now = dict(zip(model.moments_, model.moments_.counts, strict=True))
    changed = {label: count - before.get(label, 0) for label, count in now.items()}
    return {
        "created": created,
        "learnt": _counted({label: count for label, count in changed.items() if count}),
        "new_classes": [label for label in now if label not in before],
        "left_out": [file for source in sources for file in source.left_out],
        "notes": [
            f"class {label!r} has one sample: what is kept of it is that sample"
            for label, count in now.items()
            if count == 1
        ],
        **_holdings(path, model),
    }


def forget(path: Path, classes: Sequence[str], *, tell: Tell) -> Found:
    """Withdraw classes, as if they had never been seen."""
    notes: list[str] = []
    with changing(path, tell):
        model = _known(path)
        gone = labels_like(np.array(classes), label_type(model)).tolist()
        with noting(notes):
            model.forget(gone)
        model.save(path)
    return {"forgotten": gone, "notes": notes, **_holdings(path, model)}


def unlearn(
    path: Path,
    data: Sequence[Path],
    wanted: Wanted,
    *,
    device: str = "auto",
    tell: Tell,
    progress: Progress = silent,
) -> Found:
    """Withdraw samples, as if they had never been seen."""
    notes: list[str] = []
    with changing(path, tell):
        model = _known(path, device)
        sources = open_all(data, wanted, model)
        before, kind = sum(model.moments_.counts), label_type(model)
        with noting(notes):
            for source, batch in read(sources, "withdrawing", progress):
                with at(source, batch):
                    labels = labels_like(_labels(batch.y), kind)
                    model.unlearn(samples_for(model, batch), labels)
        model.save(path)
    return {
        "withdrawn": before - sum(model.moments_.counts),
        "left_out": [file for source in sources for file in source.left_out],
        "notes": notes,
        **_holdings(path, model),
    }


def merge(paths: Sequence[Path], out: Path, *, tell: Tell) -> Found:
    """One model of what several have learnt, as if it had seen it all."""
    if len(paths) < 2:
        raise DataError(f"expected at least two models to merge, got {len(paths)}")
    with changing(out, tell):
        if out.exists():
            raise FileAccessError(f"{out} exists already: choose another name, or remove it")
        whole = _known(paths[0])
        for path in paths[1:]:
            try:
                whole.merge(_known(path))
            except SettingsError as error:
                raise SettingsError(f"{paths[0]} and {path}: {error}") from error
        whole.save(out)
    return {"merged": [str(path) for path in paths], "notes": [], **_holdings(out, whole)}


def _existing(path: Path, device: str) -> ReduNetClassifier | None:
    return _known(path, device) if path.exists() else None


def _known(path: Path, device: str = "auto") -> ReduNetClassifier:
    model = ReduNetClassifier.load(path)
    model.device = device
    return model


def _labels(y: NDArray[Any] | None) -> NDArray[Any]:
    if y is None:
        raise DataError("expected labels, got none: name them with --label")
    return y


def _parted(settings: Mapping[str, Any]) -> tuple[Plan, dict[str, Any]]:
    """Settings of network and features, checked; settings of the input."""
    known = [field.name for field in fields(Plan) if field.name not in _OF_STREAMS]
    for name in settings:
        if name not in (*known, *_OF_INPUT):
            raise SettingsError(
                f"expected settings among {', '.join((*known, *_OF_INPUT))}, got {name!r}"
            )
    of_input = {name: settings[name] for name in _OF_INPUT if name in settings}
    return Plan().changed({n: v for n, v in settings.items() if n not in of_input}), of_input


def _new_model(plan: Plan, sources: Sequence[Source], progress: Progress) -> ReduNetClassifier:
    """A model that has learnt nothing yet, with the features that the plan asks for."""
    how = plan.settings().to_dict()
    features = _features(plan, sources, progress)
    if features is not None and features.n_features > MOST_FEATURES:
        raise DataError(_too_many(features.n_features))
    return ReduNetClassifier(**how, features=features)


def _features(plan: Plan, sources: Sequence[Source], progress: Progress) -> FeatureMap | None:
    first = next(batch.X for _, batch in read(sources, "opening", silent))
    shape = first.shape[1:]
    if plan.features == "pixels":
        if len(shape) == 1 and shape[0] > MOST_FEATURES:
            raise DataError(_too_many(shape[0]))
        return None if len(shape) == 1 else Flatten(shape)
    images = first
    if plan.statistics_from != "nowhere":
        images = _spread(sources, max(1, _SAMPLE_BYTES // (8 * math.prod(shape))), progress)
    nothing = np.arange(0)
    return plan.feature_map((Task((), _Images(images), np.arange(len(images)), nothing),))


def _spread(sources: Sequence[Source], most: int, progress: Progress) -> NDArray[Any]:
    """At most so many samples, spread evenly over all of them."""
    kept: list[NDArray[Any]] = []
    every, seen = 1, 0
    for _, batch in read(sources, "looking at", progress):
        for sample in batch.X:
            if seen % every == 0:
                kept.append(np.array(sample))
                if len(kept) > most:
                    kept, every = kept[::2], 2 * every
            seen += 1
    try:
        return np.stack(kept)
    except ValueError:
        raise DataError("expected samples of one shape throughout: pass data of one kind") from None


def _too_many(n_features: int) -> str:
    return (
        f"expected at most {MOST_FEATURES:,} features, got {n_features:,}: "
        f"make the images smaller, or learn the output of an encoder"
    )


def _counted(counts: Mapping[Any, int]) -> list[Found]:
    return [{"class": label, "samples": count} for label, count in counts.items()]


def _holdings(path: Path, model: ReduNetClassifier) -> Found:
    """What a model file holds."""
    moments = model.moments_
    return {
        "model": str(path),
        "classes": _counted(dict(zip(moments, moments.counts, strict=True))),
        "samples": sum(moments.counts),
        "features": moments.n_features,
        "bytes": path.stat().st_size,
    }
