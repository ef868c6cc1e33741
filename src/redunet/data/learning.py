"""The command that creates a model file, or adds samples to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redunet.data.apply_batches import Apply, apply_batches
from redunet.data.inspecting import held
from redunet.data.matching import open_all, to_resize
from redunet.data.model_file import ModelFile
from redunet.data.new_model import SAMPLE_BYTES, new_model
from redunet.data.result import Result, counted
from redunet.data.source import read_once
from redunet.errors import SettingsError
from redunet.estimators import Estimator
from redunet.estimators.inspection import diagnostics
from redunet.safety.lock import Tell

LARGE_FILE = 2**29
"""Bytes of a model file that are announced: it takes seconds to write, and room on the disk."""


def learn(
    file: ModelFile,
    settings: Mapping[str, Any],
    *,
    estimator: str | None = None,
    recipe: str | None = None,
    resize: tuple[int, int] | None = None,
    apply: Apply = apply_batches,
) -> Result:
    """Create a model or extend it, by new classes or by more of old ones.

    Parameters
    ----------
    file : ModelFile
        Which need not be there yet.
    settings : mapping
        Of a new model, as `ModelSettings` has them.
    estimator : str, default="redunet"
        Of a new model: a name that `redunet.estimators.estimator_named` knows.
    recipe : str, default=None
        Of a new model: a preset, whose settings single ones replace.
    resize : (height, width), default=None
        Of a new model: what images are scaled and cropped to, now and later.
    apply : callable, default=apply_batches
        Learns the data: in this process, or on others.
    """
    given = {"estimator": estimator, "recipe": recipe, "resize": resize}
    new = [*(name for name in given if given[name]), *sorted(settings)]
    options, progress = file.options, file.progress

    def learnt(model: Estimator | None) -> Estimator:
        if model is not None:
            if new:
                raise SettingsError(
                    f"{file.path} exists and keeps the settings that it was made with: "
                    f"leave out {', '.join(new)}, or name a new model"
                )
            apply("learning", model, file.open(model, changing=True), options, progress)
            return model
        asked = options
        if resize:
            if options.encoder is not None:
                raise SettingsError(
                    "expected --resize or --encoder, got both: an encoder scales images to its own "
                    "size"
                )
            asked = to_resize(file.data, resize, options)
        # The first data is looked at to make the model, and then learnt.
        opened = open_all(file.data, asked, None, changing=True)
        file.sources[:] = [read_once(one, SAMPLE_BYTES) for one in opened]
        created = new_model(
            estimator or "redunet", recipe, settings, file.sources, file.device, progress
        )
        apply("learning", created, file.sources, asked, progress)
        if resize:
            created.resize_images()
        created.set_encoder(file.sources[0].encoder)
        _announce_size(created, file.tell)
        return created

    change = file.change(learnt, read=lambda: file.load() if file.path.exists() else None)
    before = {} if change.before is None else change.before.class_counts_
    now = change.after.class_counts_
    gained = {label: count - before.get(label, 0) for label, count in now.items()}
    found = {
        "created": change.before is None,
        "learnt": counted({label: count for label, count in gained.items() if count}),
        "new_classes": [label for label in now if label not in before],
    }
    return file.result(found, change, _notes(change.after, new=change.before is None))


def _notes(model: Estimator, new: bool) -> list[str]:
    """Lines about what the model holds."""
    few = [
        f"class {label!r} has one sample: what is kept of it is that sample"
        for label, count in model.class_counts_.items()
        if count == 1
    ]
    return [*few, *(held(model) if new else []), *diagnostics(model)]


def _announce_size(model: Estimator, tell: Tell) -> None:
    """Say how large the file of a new model gets, where that is much."""
    d, counts = model.moments_.n_features, model.moments_.counts
    size = sum(8 * d * min(count, (d + 1) // 2) for count in counts)
    if size >= LARGE_FILE:
        tell(
            f"writing about {size / 1e9:.1f} GB, as samples have {d:,} features: of images, a new "
            f"model with --resize 32 or --encoder takes far less"
        )
