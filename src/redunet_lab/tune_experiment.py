"""Settings of an experiment, chosen without test data, and the record of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.environment import environment
from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.candidates import SEARCHED
from redunet.estimators.settings import resolve_device
from redunet.features import FeatureMap
from redunet.progress import Progress, part_of, silent
from redunet.safety.files import make_folder
from redunet.validation import one_of
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.experiment import FEATURES, NETWORK, Experiment
from redunet_lab.methods import Method, names
from redunet_lab.record import VERSION, write_record
from redunet_lab.streams import Task, described, pooled
from redunet_lab.tuning import (
    Pair,
    Split,
    candidates,
    check_own_settings,
    combinations_of,
)

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by setting."""


def tune_experiment(
    experiment: Experiment,
    out: Path,
    command: str | None,
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
    """Choose settings on the training data of an experiment; write ``tune.json`` to a folder."""
    one_of("method", method, ("redunet", *CLOSED_FORMS))
    grid = experiment.plan.renamed(grid)
    settings = {**experiment.stream_settings, **experiment.model_settings, "seed": experiment.seed}
    if first_task and settings["fit_features_on"] == "whole-training-set":
        raise SettingsError(
            "expected fit_features_on=first-task where settings are chosen on the first task, "
            "got 'whole-training-set'"
        )
    data = experiment.load(data_dir)
    tasks = experiment.tasks(data)
    tasks = tasks[:1] if first_task else tasks
    if method != "redunet":
        settings = {key: value for key, value in settings.items() if key not in NETWORK}
        grid = CLOSED_FORMS[method]().named_today(grid)
    elif experiment.plan.shifts and n_components:
        grid = {**grid, "n_components": list(n_components)}
    model = _Model(method, tuple(n_components), paper_rule, device, memory)
    of_features = {key: grid[key] for key in grid if key in FEATURES}
    of_method = {key: grid[key] for key in grid if key not in FEATURES}
    model.check(experiment, of_method, may_be_empty=bool(of_features))
    combinations, tried = combinations_of({**of_features, **of_method}, most, experiment.seed)
    found = _searched(
        experiment, model, tasks, data, of_features, combinations, per_class, progress
    )
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
        "tried": tried,
        "seed": experiment.seed,
    }
    write_record(make_folder(out) / "tune.json", record)
    return record


@dataclass(frozen=True)
class _Model:
    """A method whose settings are searched."""

    method: str
    n_components: tuple[int, ...]
    paper_rule: bool
    device: str
    memory: str

    def is_network(self, experiment: Experiment) -> bool:
        """Whether it is one network, for which numbers of components and the paper's rule count."""
        plan = experiment.plan
        return self.method == "redunet" and not plan.shifts and plan.n_ensemble == 1

    def check(self, experiment: Experiment, grid: Grid, may_be_empty: bool) -> None:
        """Raise a SettingsError where it has no such settings to search."""
        if may_be_empty and not grid:
            return None
        if not self.is_network(experiment):
            return check_own_settings(self.of(experiment, None), grid)
        known = (*SEARCHED, *FEATURES)
        for name in grid.keys() - {*known}:
            raise SettingsError(
                f"expected settings among {', '.join(known)}, got {name!r}"
                f"{did_you_mean(name, known)}"
            )
        return None

    def of(self, experiment: Experiment, features: FeatureMap | None) -> Any:
        """An estimator that has learnt nothing yet."""
        if self.method == "redunet":
            return experiment.estimator(features, self.device, self.memory)
        made = Method.of(self.method, experiment).estimator(self.device, self.memory)
        return made.set_params(features=features)


def _searched(
    experiment: Experiment,
    model: _Model,
    tasks: tuple[Task, ...],
    data: Any,
    of_features: Grid,
    combinations: Sequence[Mapping[str, Any]],
    per_class: int,
    progress: Progress,
) -> dict[str, Any]:
    """Candidates, best first, those chosen by each rule, and on which samples they were compared.

    Of equals the one with fewer components comes first, then the first in the grid.
    """
    # Features vary last: each of them is computed once.
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for settings in combinations:
        rest = {key: settings[key] for key in settings if key not in of_features}
        groups.setdefault(tuple(settings[key] for key in of_features), []).append(rest)
    changes = [dict(zip(of_features, values, strict=True)) for values in groups]
    experiments = [experiment.changed(change) for change in changes]  # a mistake shows first
    networks = all(map(model.is_network, experiments))
    x, y = pooled(tasks, "train")
    if networks or not hasattr(data, "x_val"):
        split = Split.of(x, y, per_class, experiment.seed)
    else:
        rows = np.isin(data.y_val, y)
        split = Split.validated((x, y), (data.x_val[rows], data.y_val[rows]))
    found: list[dict[str, Any]] = []
    for number, (change, one, group) in enumerate(
        zip(changes, experiments, groups.values(), strict=True)
    ):
        features = one.features(tasks, resolve_device(model.device))
        here = split if features is not None else _flat(split)
        tell = part_of(progress, number / len(groups), (number + 1) / len(groups))
        network = model.is_network(one)
        tried = candidates(
            model.of(one, features),
            here,
            group,
            model.n_components if network else (),
            model.paper_rule and network,
            tell,
        )
        found += [{**change, **candidate} for candidate in tried]
    found.sort(key=lambda c: (-c["held_out_accuracy"], c.get("n_components", 0)))
    chosen, words = {"held_out": found[0]}, dict(split.words)
    if networks and model.paper_rule:
        # The paper's rule cannot tell numbers of components apart: held-out accuracy does.
        chosen["paper"] = max(found, key=lambda c: c["estimated_label_accuracy"])
        words["trained_on"] += " (held_out), all (paper)"
    return {**words, "chosen": chosen, "candidates": found}


def _flat(split: Split) -> Split:
    """Samples as the vectors of their values."""

    def flat(samples: NDArray[Any], labels: NDArray[Any]) -> Pair:
        return samples.reshape(len(samples), -1), labels

    return Split(flat(*split.train), flat(*split.held_out), split.words)
