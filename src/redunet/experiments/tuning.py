"""Choosing settings on training data; test data is not even passed in.

Two rules. *Held out*: the network is built from all but some samples of each
class, which are then labelled. *The paper's*: the network is built from
everything and the training samples' estimated memberships at the last layer
are compared with their labels; the samples held out are then added to what
was learnt of the others, which is exact. Both use the same samples, at
most a stated number of each class. Closed-form methods know the first rule only.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from redunet.core.readings import Reading, Readings
from redunet.errors import SettingsError
from redunet.estimators import CLOSED_FORM
from redunet.estimators.candidates import OF_READOUT, SEARCHED, check_searched
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.settings import InputSettings, resolve_device
from redunet.experiments.experiment import NETWORK, Experiment
from redunet.experiments.methods import names
from redunet.experiments.record import VERSION, environment, write_record
from redunet.experiments.streams import described, pooled
from redunet.files import make_folder
from redunet.progress import Progress, silent
from redunet.validation import one_of, whole_number


def held_out_rows(y: NDArray[Any], per_class: int, seed: int) -> NDArray[np.bool_]:
    """Which samples are held out: ``per_class`` of each class, but at most a third of it."""
    if per_class < 1:
        raise SettingsError(f"expected at least one sample of each class, got {per_class}")
    mask = np.zeros(len(y), dtype=bool)
    for index, label in enumerate(np.unique(y)):
        rows = np.flatnonzero(y == label)
        draw = np.random.RandomState([seed, index]).permutation(rows)
        mask[draw[: min(per_class, len(rows) // 3)]] = True
    if not mask.any():
        raise SettingsError("expected at least three samples in some class to hold one out")
    return mask


def tune(
    model: ReduNetClassifier,
    x_train: NDArray[Any],
    y_train: NDArray[Any],
    grid: Mapping[str, Sequence[Any]],
    *,
    n_components: Sequence[int],
    per_class: int = 200,
    seed: int = 0,
    paper_rule: bool = True,
    most: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Try combinations of settings on training data.

    Parameters
    ----------
    model : ReduNetClassifier
        Whose other settings all candidates share; it is not changed.
    x_train, y_train : ndarray
    grid : mapping from setting to values
        Of the settings that shape the network, see ``SEARCHED``.
    n_components : sequence of int
        Tried for each network; those not below the number of features are not.
    per_class : int, default=200
        Samples of each class to evaluate on.
    seed : int, default=0
        Of the choice of these samples, and of combinations where not all are tried.
    paper_rule : bool, default=True
        Whether to compute the paper's rule too, which takes a second network.
    most : int, default=None
        At most so many networks: where the grid has more combinations, so many
        of them are drawn at random. None tries all.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    dict
        ``candidates``, best first by held-out accuracy, and ``chosen`` by each
        rule, with what they were chosen on, and how much of the grid was tried.
    """
    check_searched(grid)
    # What leaves the network as it is varies first, so features are computed once for all of it.
    grid = dict(sorted(grid.items(), key=lambda item: item[0] in OF_READOUT))
    combinations, tried = _combinations(grid, most, seed)
    mask = held_out_rows(y_train, per_class, seed)
    x_out, y_out = x_train[mask], y_train[mask]
    # Read-outs share features, so these must be those of the whole network.
    rest = type(model)(**model.get_params(deep=False) | {"exact": True})
    rest.fit(x_train[~mask], y_train[~mask])
    whole = copy.copy(rest).partial_fit(x_out, y_out) if paper_rule else None
    candidates: list[dict[str, Any]] = []
    built: dict[str, Any] | None = None
    for number, settings in enumerate(combinations, 1):
        progress(f"candidate {number} of {len(combinations)}", (number - 1) / len(combinations))
        rest.set_params(**settings)
        of_network = {key: settings[key] for key in settings if key not in OF_READOUT}
        if of_network != built:
            built, Z = of_network, torch.from_numpy(rest.transform(x_out))
            estimated = whole and _estimated(whole.set_params(**of_network), x_out, y_out)
        for components, labels in _labels(rest, Z, n_components).items():
            accuracy = float(np.mean(labels == y_out))
            candidates.append(
                {**settings, "n_components": components}
                | {"held_out_accuracy": accuracy, "estimated_label_accuracy": estimated}
            )
    candidates.sort(key=lambda c: (-c["held_out_accuracy"], c["n_components"]))
    chosen = {"held_out": candidates[0]}
    if paper_rule:
        # The paper's rule cannot tell numbers of components apart: held-out accuracy does.
        chosen["paper"] = max(candidates, key=lambda c: c["estimated_label_accuracy"])
    found = _found(mask, per_class, tried, seed, candidates) | {"chosen": chosen}
    found["trained_on"] += " (held_out), all (paper)" if paper_rule else ""
    return found


def tune_closed_form(
    model: ClosedForm,
    x_train: NDArray[Any],
    y_train: NDArray[Any],
    grid: Mapping[str, Sequence[Any]],
    *,
    per_class: int = 200,
    seed: int = 0,
    most: int | None = None,
    held_out: tuple[NDArray[Any], NDArray[Any]] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Try combinations of a closed-form method's settings on training data.

    Parameters
    ----------
    model : ClosedForm
        Whose other settings all candidates share; it is not changed.
    x_train, y_train : ndarray
    grid : mapping from setting to values
    per_class, seed, most, progress
        As for `tune`.
    held_out : (ndarray, ndarray), default=None
        Validation samples and labels to evaluate on, in place of training samples.

    Returns
    -------
    dict
        ``candidates``, best first by held-out accuracy, and ``chosen``, with
        what they were chosen on. Of equals the first in the grid comes first.
    """
    known = model.own_settings()
    if not known:
        raise SettingsError(f"expected a method with settings to choose, got {model.kind!r}")
    unknown = [name for name in grid if name not in known]
    if unknown or not grid:
        got = repr(unknown[0]) if unknown else "none"
        raise SettingsError(f"expected settings among {', '.join(known)} to search, got {got}")
    combinations, tried = _combinations(grid, most, seed)
    params = model.get_params(deep=False)
    for settings in combinations:
        type(model)(**{**params, **settings}).own_settings()  # a mistake shows before the work
    mask = np.zeros(len(y_train), dtype=bool)
    if held_out is None:
        mask = held_out_rows(y_train, per_class, seed)
    x_out, y_out = held_out or (x_train[mask], y_train[mask])
    rest, learnt = type(model)(**params), None
    candidates = []
    for number, settings in enumerate(combinations, 1):
        progress(f"candidate {number} of {len(combinations)}", (number - 1) / len(combinations))
        own = rest.set_params(**settings).own_map(1)
        through = None if own is None else str(own.to_state())
        if number == 1 or through != learnt:
            rest.fit(x_train[~mask], y_train[~mask])
            learnt = through
        accuracy = float(np.mean(rest.predict(x_out) == y_out))
        candidates.append({**settings, "held_out_accuracy": accuracy})
    candidates.sort(key=lambda c: -c["held_out_accuracy"])
    found = _found(mask, per_class, tried, seed, candidates)
    if held_out is not None:
        found |= {
            "chosen_on": f"{len(y_out)} validation samples",
            "trained_on": f"{len(y_train)} training samples",
        }
    return found


def _found(
    mask: NDArray[np.bool_],
    per_class: int,
    tried: str,
    seed: int,
    candidates: list[dict[str, Any]],
) -> dict[str, Any]:
    """What a search gives: candidates, best first, and on which samples they were compared."""
    return {
        "chosen_on": f"{int(mask.sum())} training samples, at most {per_class} of each class",
        "trained_on": f"{int((~mask).sum())} other training samples",
        "tried": tried,
        "seed": seed,
        "chosen": {"held_out": candidates[0]},
        "candidates": candidates,
    }


def _combinations(
    grid: Mapping[str, Sequence[Any]], most: int | None, seed: int
) -> tuple[list[dict[str, Any]], str]:
    """The settings to try, in the order of the grid, and words for how many they are."""
    if most is not None:
        whole_number("most", most, least=1)
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if most is None or len(every) <= most:
        return every, f"all {len(every)} combinations"
    drawn = np.random.RandomState([seed, most]).permutation(len(every))[:most]
    words = f"{most} of {len(every)} combinations, drawn at random"
    return [every[index] for index in sorted(drawn)], words


def labels_by_components(
    model: ReduNetClassifier, X: NDArray[Any], n_components: Sequence[int]
) -> dict[int, NDArray[Any]]:
    """Labels of nearest subspace for several numbers of components, by one network.

    Those not below the number of features are left out. Other read-outs have no
    components: their labels stand under the first number.
    """
    if model.readout != "subspace":
        return {n_components[0]: model.predict(X)}
    wanted = [r for r in n_components if r < model.moments_.n_features]
    return {r: model.set_params(n_components=r).predict(X) for r in wanted}


def _labels(
    model: ReduNetClassifier, Z: Tensor, n_components: Sequence[int]
) -> dict[int, NDArray[Any]]:
    """Labels for several numbers of components from the network's features, (n, d)."""
    network, d = model.network_, model.moments_.n_features
    wanted = [r for r in n_components if r < d]
    if model.readout != "subspace":
        wanted = [n_components[0]]
    if not wanted:
        raise SettingsError(
            f"expected numbers of components below n_features = {d}, got {list(n_components)}"
        )
    readings = Readings(network, [Reading(model.readout, r, model.ridge) for r in wanted])
    found = readings.labels(Z.to(network.last_means().device))
    return {r: model.classes_[one.cpu().numpy()] for r, one in zip(wanted, found, strict=True)}


def _estimated(model: ReduNetClassifier, X: NDArray[Any], y: NDArray[Any]) -> float:
    """Accuracy of the most likely membership at the last layer."""
    last = model.memberships(X)[-1]
    return float(np.mean(model.classes_[last.argmax(axis=1)] == y))


def tune_experiment(
    experiment: Experiment,
    out: Path,
    command: str,
    grid: Mapping[str, Sequence[Any]],
    *,
    method: str = "redunet",
    n_components: Sequence[int] = (),
    per_class: int = 200,
    paper_rule: bool = True,
    most: int | None = None,
    first_task: bool = False,
    device: str = "auto",
    memory: str = "2GB",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Choose settings on the training data of an experiment; write ``tune.json`` to a folder.

    Parameters
    ----------
    experiment : Experiment
    out : Path
    command : str
        What a reader types, for the record.
    grid : mapping from setting to values
    method : str, default="redunet"
        Or a closed-form method.
    n_components, per_class, paper_rule, most, progress
        As for `tune`.
    first_task : bool, default=False
        Whether to use the first task's samples alone.
    device, memory
        As for `ReduNetClassifier`.
    data_dir : Path, default=None
        Where the data set may be found.

    Returns
    -------
    dict
        The record, as it was saved.
    """
    one_of("method", method, ("redunet", *CLOSED_FORM))
    settings = {**experiment.stream_settings, **experiment.model_settings, "seed": experiment.seed}
    if first_task and settings["statistics_from"] == "whole-training-set":
        raise SettingsError(
            "expected statistics_from=first-task where settings are chosen on the first task, "
            "got 'whole-training-set'"
        )
    data = experiment.load(data_dir)
    tasks = experiment.tasks(data)
    tasks = tasks[:1] if first_task else tasks
    features = experiment.features(tasks, resolve_device(device))
    x, y = pooled(tasks, "train")
    x = x if features is not None else x.reshape(len(x), -1)
    how: dict[str, Any] = {"per_class": per_class, "seed": experiment.seed, "most": most}
    how["progress"] = progress
    if method == "redunet" and experiment.plan.shifts:
        shifts: Any = experiment.estimator(features, device, memory)
        grid = {**grid, **({"n_components": list(n_components)} if n_components else {})}
        found = tune_closed_form(shifts, x, y, grid, held_out=_validation(data, y), **how)
    elif method == "redunet":
        model = experiment.estimator(features, device, memory)
        found = tune(model, x, y, grid, n_components=n_components, paper_rule=paper_rule, **how)
    else:
        scaling = InputSettings.of(experiment.plan).to_dict()
        closed = CLOSED_FORM[method](features=features, device=device, **scaling)
        grid = closed.named_today(grid)
        found = tune_closed_form(closed, x, y, grid, held_out=_validation(data, y), **how)
        settings = {key: value for key, value in settings.items() if key not in NETWORK}
    record = {
        "kind": "tune",
        "version": VERSION,
        "what": f"Settings of {names()[method]} on {experiment.title}, chosen on training data",
        "command": command,
        **({} if method == "redunet" else {"method": method}),
        "settings": settings,
        "grid": dict(grid),
        "tasks_seen": [row["classes"] for row in described(tasks)],
        **environment(),
        **found,
    }
    write_record(make_folder(out) / "tune.json", record)
    return record


def record_of_model(found: Mapping[str, Any], out: Path, command: str) -> dict[str, Any]:
    """What tuning a model file came to, as a record; write ``tune.json`` to a folder.

    Parameters
    ----------
    found : mapping
        As `redunet.user_data.model_tuning.tune` gives it.
    out : Path
    command : str
        What a reader types, for the record.
    """
    tried, planned = found["tried"], found["planned"]
    cut = f"{tried} of {planned} candidates, which is what the budget of {found['budget']} allowed"
    candidates = sorted(found["candidates"], key=lambda one: -(one["accuracy"] or 0))
    values: dict[str, dict[Any, None]] = {}
    for one in candidates:
        for key in one.keys() - {"accuracy"}:
            values.setdefault(key, {})[one[key]] = None
    record = {
        "kind": "tune",
        "version": VERSION,
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
    write_record(make_folder(out) / "tune.json", record)
    return record


def _validation(data: Any, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The validation samples of a data set that has some, of the classes in y."""
    if not hasattr(data, "x_val"):
        return None
    rows = np.isin(data.y_val, y)
    return data.x_val[rows], data.y_val[rows]
