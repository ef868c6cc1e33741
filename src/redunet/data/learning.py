"""The command that creates a model file, or adds samples to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redunet.data.apply_batches import Apply, apply_batches
from redunet.data.inspecting import held
from redunet.data.matching import open_all, to_resize
from redunet.data.new_model import SAMPLE_BYTES, new_model
from redunet.data.result import Result, counted
from redunet.data.source import ReadOptions, Source, read_once
from redunet.errors import SettingsError
from redunet.estimators import Estimator, load
from redunet.estimators.inspection import diagnostics
from redunet.progress import Progress, silent
from redunet.safety.lock import Tell
from redunet.safety.transaction import transaction

LARGE_FILE = 2**29
"""Bytes of a model file that are announced: it takes seconds to write, and room on the disk."""


def learn(
    path: Path,
    data: Sequence[Path],
    settings: Mapping[str, Any],
    options: ReadOptions,
    *,
    estimator: str | None = None,
    recipe: str | None = None,
    resize: tuple[int, int] | None = None,
    device: str = "auto",
    tell: Tell,
    progress: Progress = silent,
    apply: Apply = apply_batches,
) -> Result:
    """Create a model or extend it, by new classes or by more of old ones.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
    settings : mapping
        Of a new model, as `ModelSettings` has them.
    options : ReadOptions
    estimator : str, default="redunet"
        Of a new model: a name that `redunet.estimators.estimator_named` knows.
    recipe : str, default=None
        Of a new model: a preset, whose settings single ones replace.
    resize : (height, width), default=None
        Of a new model: what images are scaled and cropped to, now and later.
    device : str, default="auto"
    tell, progress : callable
    apply : callable, default=apply_batches
        Learns the data: in this process, or on others.

    Returns
    -------
    Result
        What was learnt, and what the model holds now.
    """
    given = {"estimator": estimator, "recipe": recipe, "resize": resize}
    new = [*(name for name in given if given[name]), *sorted(settings)]
    sources: list[Source] = []

    def learnt(model: Estimator | None) -> Estimator:
        if model is not None:
            if new:
                raise SettingsError(
                    f"{path} exists and keeps the settings that it was made with: "
                    f"leave out {', '.join(new)}, or name a new model"
                )
            sources.extend(open_all(data, options, model, changing=True))
            apply("learning", model, sources, options, progress)
            return model
        asked = options
        if resize:
            if options.encoder is not None:
                raise SettingsError(
                    "expected --resize or --encoder, got both: an encoder scales images to its own "
                    "size"
                )
            asked = to_resize(data, resize, options)
        # The first data is looked at to make the model, and then learnt.
        opened = open_all(data, asked, None, changing=True)
        sources.extend(read_once(one, SAMPLE_BYTES) for one in opened)
        created = new_model(estimator or "redunet", recipe, settings, sources, device, progress)
        apply("learning", created, sources, asked, progress)
        if resize:
            created.resize_images()
        created.set_encoder(sources[0].encoder)
        _announce_size(created, tell)
        return created

    change = transaction(
        path, lambda: load(path, device) if path.exists() else None, learnt, tell=tell
    )
    before = {} if change.before is None else change.before.class_counts_
    now = change.after.class_counts_
    gained = {label: count - before.get(label, 0) for label, count in now.items()}
    return Result.of(
        {
            "created": change.before is None,
            "learnt": counted({label: count for label, count in gained.items() if count}),
            "new_classes": [label for label in now if label not in before],
        },
        sources,
        [
            *change.notes,
            *_notes(change.after, new=change.before is None),
        ],
        (path, change.after),
    )


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
