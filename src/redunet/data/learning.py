"""Commands that change a model file: learn, forget, unlearn, merge. Each all at once or not."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redunet.data import ReadOptions, Source
from redunet.data.apply_batches import Change, change_here
from redunet.data.inspecting import held
from redunet.data.matching import (
    at,
    check_finite,
    label_type,
    labels_like,
    open_all,
    read,
    to_resize,
)
from redunet.data.verifying import save_withdrawn, withdrawn_samples
from redunet.errors import (
    DataError,
    DataTypeError,
    FileAccessError,
    NumericalError,
    SettingsError,
)
from redunet.estimators import ClosedForm, Estimator, estimator_named, load
from redunet.estimators.base import LearntFeaturesWarning, SelfLabelledWarning
from redunet.estimators.doubts import doubts
from redunet.estimators.model_settings import ModelSettings
from redunet.estimators.receipts import Receipts
from redunet.estimators.recipes import model_settings
from redunet.estimators.settings import InputSettings, Settings, resolve_device
from redunet.features import FeatureMap
from redunet.progress import Progress, silent
from redunet.safety import interrupts
from redunet.safety.files import follow, is_special, refuse_overwriting
from redunet.safety.lock import Tell
from redunet.safety.lock import changing as locked
from redunet.safety.untrusted import file_sha256

Found = dict[str, Any]

MOST_FEATURES = 2**15
"""Beyond it the second moment of one class alone takes more than 8 GB."""

LARGE_FILE = 2**29
"""Bytes of a model file that are announced before it is written."""

_SAMPLE_BYTES = 2**27


@contextmanager
def changing(path: Path, tell: Tell) -> Iterator[list[str]]:
    """Hold a model file alone; an interruption says what has become of it."""
    interrupts.protect("nothing was changed")
    with locked(path, tell) as notes, interrupts.outcome(path):
        yield notes


def learn(
    path: Path,
    data: Sequence[Path],
    settings: Mapping[str, Any],
    wanted: ReadOptions,
    *,
    estimator: str | None = None,
    recipe: str | None = None,
    resize: tuple[int, int] | None = None,
    device: str = "auto",
    tell: Tell,
    progress: Progress = silent,
    change: Change = change_here,
) -> Found:
    """Create a model or extend it, by new classes or by more of old ones.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
    settings : mapping
        Of a new model, as `ModelSettings` has them.
    wanted : ReadOptions
    estimator : str, default="redunet"
        Of a new model: a name that `redunet.estimators.estimator_named` knows.
    recipe : str, default=None
        Of a new model: a preset, whose settings single ones replace.
    resize : (height, width), default=None
        Of a new model: what images are scaled and cropped to, now and later.
    device : str, default="auto"
    tell : callable
    progress : callable
    change : callable, default=change_here
        What learns the data: this process, or others for it.

    Returns
    -------
    dict
        What was learnt, and what the model holds now.
    """
    with changing(path, tell) as notes:
        model = _existing(path, device)
        if resize and wanted.encoder is not None:
            raise SettingsError(
                "expected --resize or --encoder, got both: an encoder scales images to its own size"
            )
        options = {"estimator": estimator, "recipe": recipe, "resize": resize}
        given = [*(name for name in options if options[name]), *sorted(settings)]
        if model is not None and given:
            raise SettingsError(
                f"{path} exists and keeps the settings that it was made with: "
                f"leave out {', '.join(given)}, or name a new model"
            )
        make = estimator_named(estimator or "redunet")
        own, shared = _own_settings(make, settings)
        made_with = model_settings(recipe, shared)
        if resize:
            wanted = to_resize(data, resize, wanted)
        sources = open_all(data, wanted, model, changing=True)
        created = model is None
        if model is None:
            features = _features(made_with, sources, device, progress)
            model = _new(make, own, made_with, features, device)
        before = {} if created else dict(zip(model.moments_, model.moments_.counts, strict=True))
        change("learning", model, sources, wanted, progress)
        if resize:
            model.resize_images()
        if created:
            model.set_encoder(sources[0].encoder)
            _announce_size(model, tell)
        model.save(path)
    now = dict(zip(model.moments_, model.moments_.counts, strict=True))
    changed = {label: count - before.get(label, 0) for label, count in now.items()}
    return {
        "created": created,
        "learnt": counted({label: count for label, count in changed.items() if count}),
        "new_classes": [label for label in now if label not in before],
        "left_out": [file for source in sources for file in source.left_out],
        "notes": notes
        + [note for source in sources for note in source.notes]
        + [
            f"class {label!r} has one sample: what is kept of it is that sample"
            for label, count in now.items()
            if count == 1
        ]
        + (held(model) if created else [])
        + doubts(model),
        **holdings(path, model),
    }


def forget(
    path: Path, classes: Sequence[str], *, tell: Tell, receipts: Receipts | None = None
) -> Found:
    """Withdraw classes, as if they had never been seen; with ``receipts``, a receipt says so."""
    with changing(path, tell) as notes:
        model = load(path)
        gone = labels_like(np.array(classes), label_type(model)).tolist()
        before = copy.copy(model)
        with _noting(notes):
            model.forget(gone)
        receipt = save_withdrawn(path, before, model, receipts)
    return {"forgotten": gone, **receipt, "notes": notes, **holdings(path, model)}


def unlearn(
    path: Path,
    data: Sequence[Path],
    wanted: ReadOptions,
    *,
    device: str = "auto",
    tell: Tell,
    progress: Progress = silent,
    change: Change = change_here,
    receipts: Receipts | None = None,
) -> Found:
    """Withdraw samples, as if they had never been seen; parameters as for `learn` and `forget`."""
    if receipts is not None:
        receipts.refuse_files("the model", [path])
        receipts.refuse_files("data", data)
    with changing(path, tell) as notes:
        model = load(path, device)
        sources = open_all(data, wanted, model, changing=True)
        before = copy.copy(model)
        with _noting(notes):
            change("withdrawing", model, sources, wanted, progress)
        samples = None if receipts is None else withdrawn_samples(before, sources)
        receipt = save_withdrawn(path, before, model, receipts, samples)
    return {
        "withdrawn": sum(before.moments_.counts) - sum(model.moments_.counts),
        **receipt,
        "left_out": [file for source in sources for file in source.left_out],
        "notes": [note for source in sources for note in source.notes] + notes,
        **holdings(path, model),
    }


def merge(paths: Sequence[Path], out: Path, *, tell: Tell, progress: Progress = silent) -> Found:
    """One model of what several have learnt, as if it had seen it all."""
    if len(paths) < 2:
        raise DataError(f"expected at least two models to merge, got {len(paths)}")
    refuse_overwriting(out, paths)
    streamed = is_special(follow(out))
    with nullcontext() if streamed else changing(out, tell):
        if not streamed and out.exists():
            raise FileAccessError(f"{out} exists already: choose another name, or remove it")
        whole: Any = load(paths[0])
        for index, path in enumerate(paths[1:], 1):
            progress(f"merging {path}", index / len(paths))
            try:
                whole.merge(load(path))
            except (SettingsError, DataTypeError) as error:
                raise type(error)(f"{paths[0]} and {path}: {error}") from error
        check_builds(whole)
        notes = _counted_twice(paths)
        whole.save(out)
    return {"merged": [str(path) for path in paths], "notes": notes, **holdings(out, whole)}


def check_builds(model: Estimator) -> None:
    """Raise a ReduNetError unless the model can answer a sample; done by one layer of it.

    The second moments after a layer are L Σ Lᵀ of those before it, so where the first layer can be
    made of moments that samples can have, so can the others.
    """
    first = copy.copy(model)
    if "n_layers" in first.get_params(deep=False):
        first.set_params(n_layers=min(1, first.get_params(deep=False)["n_layers"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns without names, and of what is not learnt
        try:
            first.predict(np.zeros((1, model.n_features_in_)))
        except (np.linalg.LinAlgError, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            raise NumericalError(f"expected a model that can be built, but {error}") from error


def _counted_twice(paths: Sequence[Path]) -> list[str]:
    """A line about each model file that is equal to one before it."""
    first: dict[str, Path] = {}
    notes = []
    for path in paths:
        digest = file_sha256(path)
        if digest in first:
            notes.append(
                f"{first[digest]} and {path} are equal, and the samples of both were counted: "
                f"leave one out if they learnt the same data"
            )
        first.setdefault(digest, path)
    return notes


@contextmanager
def _noting(notes: list[str]) -> Iterator[None]:
    """Collect what a model warns of, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for category in (LearntFeaturesWarning, SelfLabelledWarning):
            warnings.simplefilter("always", category)
        yield
    notes.extend(dict.fromkeys(str(one.message) for one in caught))


def _own_settings(kind: type[Estimator], settings: Mapping[str, Any]) -> tuple[Found, Found]:
    """Settings of a closed-form method itself, and those of its features and input."""
    if not issubclass(kind, ClosedForm):
        return {}, dict(settings)
    known, settings = kind().own_settings(), kind.named_today(settings)
    shared = {key: value for key, value in settings.items() if key not in known}
    for key in shared:
        if key in Settings.names():
            raise SettingsError(
                f"expected settings of {kind.name()}, its features or its input, got {key!r}: its "
                f"own are {', '.join(known) or 'none'}"
            )
    return {key: value for key, value in settings.items() if key in known}, shared


def _new(
    kind: type[Estimator],
    own: Mapping[str, Any],
    made_with: ModelSettings,
    features: FeatureMap | None,
    device: str,
) -> Estimator:
    """A model that has learnt nothing yet."""
    if not issubclass(kind, ClosedForm):
        return made_with.learner(features, device)
    of_input = InputSettings.of(made_with).to_dict()
    return kind(**own, **of_input, features=features, device=device)


def _existing(path: Path, device: str) -> Estimator | None:
    return load(path, device) if path.exists() else None


def _features(
    settings: ModelSettings, sources: Sequence[Source], device: str, progress: Progress
) -> FeatureMap | None:
    """The feature map of a new model, made for and from its first data."""
    first = next(batch.X for _, batch in read(sources, "opening", silent))
    shape = first.shape[1:]
    if len(shape) == 1 and settings.features == "pixels" and shape[0] > MOST_FEATURES:
        raise DataError(_too_many(shape[0]))
    samples = first
    if settings.features != "pixels" and settings.statistics_from != "nowhere":
        samples = _spread(sources, max(1, _SAMPLE_BYTES // (8 * math.prod(shape))), progress)
    features = settings.features_for(samples, resolve_device(device))
    if features is not None and features.n_features > MOST_FEATURES:
        raise DataError(_too_many(features.n_features))
    return features


def _spread(sources: Sequence[Source], most: int, progress: Progress) -> NDArray[Any]:
    """At most so many samples, spread evenly over all of them."""
    kept: list[NDArray[Any]] = []
    every, seen = 1, 0
    for source, batch in read(sources, "looking at", progress):
        with at(source, batch):
            check_finite(batch.X)
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


def _announce_size(model: Estimator, tell: Tell) -> None:
    """Say how large the file of a new model gets, where that is much."""
    d, counts = model.moments_.n_features, model.moments_.counts
    size = sum(8 * d * min(count, (d + 1) // 2) for count in counts)
    if size >= LARGE_FILE:
        tell(
            f"writing about {size / 1e9:.1f} GB, as samples have {d:,} features: of images, a new "
            f"model with --resize 32 or --encoder takes far less"
        )


def counted(counts: Mapping[Any, int]) -> list[Found]:
    """Classes and their samples, as rows."""
    return [{"class": label, "samples": count} for label, count in counts.items()]


def holdings(path: Path, model: Estimator) -> Found:
    """What a model file holds."""
    moments, own = model.moments_, model.self_labelled_
    return {
        "model": str(path),
        "classes": counted(dict(zip(moments, moments.counts, strict=True))),
        "samples": sum(moments.counts),
        "self_labelled": 0 if own is None else sum(own.counts),
        "features": moments.n_features,
        "bytes": path.stat().st_size,
    }
