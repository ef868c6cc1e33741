"""The command that chooses the settings of a model file on validation data."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redunet.data.matching import all_samples, without_name_warnings
from redunet.data.model_file import ModelFile
from redunet.data.result import Result
from redunet.environment import environment
from redunet.errors import SettingsError
from redunet.estimators import ReduNetClassifier
from redunet.estimators.candidates import SEARCHED
from redunet.safety.files import make_folder, write_bytes
from redunet.safety.transaction import Change, replace


def tune(
    file: ModelFile,
    *,
    budget: str = "60s",
    search: Mapping[str, Sequence[Any]] | None = None,
    write: bool = False,
) -> Result:
    """Choose settings of a model file; see `ReduNetClassifier.tune`.

    Parameters
    ----------
    file : ModelFile
        With validation data, which is held in memory.
    budget, search
        As for `ReduNetClassifier.tune`.
    write : bool, default=False
        Whether to change the file. It is then held alone until the end.
    """

    def opened() -> ReduNetClassifier:
        model = file.load()
        if not isinstance(model, ReduNetClassifier):
            raise SettingsError(
                f"expected a model of redunet to tune, got one of {model.name()}: choose its "
                f"settings with redunet tune --data FILE --method, and learn it with them"
            )
        return model

    def tuned(model: ReduNetClassifier) -> ReduNetClassifier:
        X, y = all_samples(model, file.open(model), file.progress)
        with without_name_warnings():
            return model.tune(X, y, budget=budget, search=search, progress=file.progress)

    def save_if_better(change: Change[Any, ReduNetClassifier]) -> list[str]:
        return replace(change) if change.after.tuning_.chosen else []

    if write:
        change = file.change(tuned, read=opened, write=save_if_better)
    else:
        before = opened()
        change = Change(file.path, before, tuned(copy.copy(before)))
    found = change.after.tuning_
    return Result.of(
        {
            "model": str(file.path),
            "data": [str(one) for one in file.data],
            "budget": budget,
            "settings": change.before.own_settings(),
            **found.to_dict(),
            "written": write and bool(found.chosen),
        },
        file.sources,
        change.notes,
    )


def record_of(found: Mapping[str, Any], out: Path, command: str | None) -> dict[str, Any]:
    """Make a record of tuning a model file, and write it to a folder as ``tune.json``.

    Parameters
    ----------
    found : mapping
        Of the result of `tune`.
    out : Path
    command : str, or None
        What was typed, for the record.
    """
    tried, planned = found["tried"], found["planned"]
    cut = f"{tried} of {planned} candidates, which is what the budget of {found['budget']} allowed"
    candidates = sorted(found["candidates"], key=lambda one: -(one["accuracy"] or 0))
    values: dict[str, dict[Any, None]] = {}
    for one in candidates:
        for key in one.keys() - {"accuracy", "failed"}:
            values.setdefault(key, {})[one[key]] = None
    record = {
        "kind": "tune",
        "version": 2,
        "what": f"Settings of {found['model']}, chosen on {', '.join(found['data'])}",
        "command": command,
        "settings": found["settings"],
        "grid": {key: list(values[key]) for key in SEARCHED if key in values},
        "chosen_on": f"{found['samples']:,} validation samples",
        "trained_on": "what the model has learnt",
        "tried": f"all {planned} candidates" if tried == planned else cut,
        "networks": found["networks"],
        "seconds": found["seconds"],
        "accuracy": {key: found[key] for key in ("accuracy_before", "accuracy", "standard_error")},
        "calibration_error": {
            "before": found["calibration_error_before"],
            "after": found["calibration_error"],
        },
        **environment(),
        "chosen": {"validation": found["chosen"] or {"settings": "as before"}},
        "candidates": candidates,
    }
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(make_folder(out) / "tune.json", text.encode() + b"\n")
    return record
