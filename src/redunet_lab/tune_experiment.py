"""Settings of an experiment or of a model, chosen without test data, as records."""

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
from redunet.progress import Progress, silent
from redunet.safety.files import make_folder
from redunet.validation import one_of
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.experiment import FEATURES, NETWORK, Experiment
from redunet_lab.methods import Method, names
from redunet_lab.record import VERSION, write_record
from redunet_lab.streams import Task, described, pooled
from redunet_lab.tuning import (
    check_own_settings,
    closed_form_candidates,
    combinations_of,
    found_by,
    held_out_rows,
    network_candidates,
    on_validation,
)


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
    """Choose settings on the training data of an experiment; write ``tune.json`` to a folder.

    Parameters
    ----------
    experiment : Experiment
    out : Path
    command : str, or None
        What was typed, for the record.
    grid : mapping from setting to values
        Of the method, and of the features.
    method : str, default="redunet"
        Or a closed-form method.
    n_components : sequence of int, default=()
        Tried for each network; those not below the number of features are not.
    per_class : int, default=200
        Samples of each class to evaluate on.
    paper_rule : bool, default=True
        Whether to compute the paper's rule too, which takes a second network.
    most : int, default=None
        At most so many combinations, drawn at random from the grid; None tries all.
    first_task : bool, default=False
        Whether to use the first task's samples alone.
    device, memory
        As for `ReduNetClassifier`.
    data_dir : Path, default=None
        Where the data set may be found.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    dict
        The record, as it was saved.
    """
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
    search = _Search(experiment, tasks, method, tuple(n_components), paper_rule, device, memory)
    found = search.found(grid, per_class, most, _validation(data, tasks), progress)
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


@dataclass(frozen=True)
class _Search:
    """A search over settings of features, and over those of a method on each of these features."""

    experiment: Experiment
    tasks: tuple[Task, ...]
    method: str
    n_components: tuple[int, ...]
    paper_rule: bool
    device: str
    memory: str

    def found(
        self,
        grid: Mapping[str, Sequence[Any]],
        per_class: int,
        most: int | None,
        validation: tuple[NDArray[Any], NDArray[Any]] | None,
        progress: Progress,
    ) -> dict[str, Any]:
        """Candidates, best first, those chosen by each rule, and on what they were compared."""
        seed = self.experiment.seed
        of_features = {key: grid[key] for key in grid if key in FEATURES}
        of_method = {key: grid[key] for key in grid if key not in FEATURES}
        self._check(of_method, may_be_empty=bool(of_features))
        # Features vary last: each of them is computed once.
        combinations, tried = combinations_of({**of_features, **of_method}, most, seed)
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for settings in combinations:
            rest = {key: settings[key] for key in settings if key not in of_features}
            groups.setdefault(tuple(settings[key] for key in of_features), []).append(rest)
        plans = [dict(zip(of_features, values, strict=True)) for values in groups]
        experiments = [self.experiment.changed(plan) for plan in plans]  # a mistake shows first
        x, y = pooled(self.tasks, "train")
        networks = all(map(self._is_network, experiments))
        held_out = None if networks else validation
        mask = np.zeros(len(y), dtype=bool)
        if held_out is None:
            mask = held_out_rows(y, per_class, seed)
        candidates = []
        for number, (plan, one, group) in enumerate(
            zip(plans, experiments, groups.values(), strict=True)
        ):
            tell = _within(progress, number, len(plans))
            candidates += [
                {**plan, **candidate}
                for candidate in self._candidates(one, x, y, mask, group, held_out, tell)
            ]
        rules = networks and self.paper_rule
        found = found_by(candidates, mask, per_class, tried, seed, rules)
        return found if held_out is None else found | on_validation(held_out, y)

    def _is_network(self, experiment: Experiment) -> bool:
        """Whether a model is one network, which has ways of its own to be searched."""
        plan = experiment.plan
        return self.method == "redunet" and not plan.shifts and plan.n_ensemble == 1

    def _check(self, grid: Mapping[str, Sequence[Any]], may_be_empty: bool) -> None:
        if may_be_empty and not grid:
            return
        if self._is_network(self.experiment):
            known = (*SEARCHED, *FEATURES)
            for name in grid.keys() - {*known}:
                raise SettingsError(
                    f"expected settings among {', '.join(known)}, got {name!r}"
                    f"{did_you_mean(name, known)}"
                )
        else:
            check_own_settings(self._closed_form(self.experiment, None), grid)

    def _closed_form(self, experiment: Experiment, features: FeatureMap | None) -> Any:
        if self.method == "redunet":
            return experiment.estimator(features, self.device, self.memory)
        made = Method.of(self.method, experiment).estimator(self.device, self.memory)
        return made.set_params(features=features)

    def _candidates(
        self,
        experiment: Experiment,
        x: NDArray[Any],
        y: NDArray[Any],
        mask: NDArray[np.bool_],
        combinations: list[dict[str, Any]],
        held_out: tuple[NDArray[Any], NDArray[Any]] | None,
        progress: Progress,
    ) -> list[dict[str, Any]]:
        """Candidates with the features of one experiment."""
        features = experiment.features(self.tasks, resolve_device(self.device))
        x = x if features is not None else x.reshape(len(x), -1)
        if self._is_network(experiment):
            model: Any = experiment.estimator(features, self.device, self.memory)
            return network_candidates(
                model, x, y, mask, combinations, self.n_components, self.paper_rule, progress
            )
        model = self._closed_form(experiment, features)
        return closed_form_candidates(model, x, y, mask, combinations, held_out, progress)


def _within(progress: Progress, number: int, total: int) -> Progress:
    """What one of several features is told, as a part of the whole."""
    if total == 1:
        return progress
    return lambda what, share: progress(
        f"features {number + 1} of {total}, {what}", (number + share) / total
    )


def _validation(data: Any, tasks: tuple[Task, ...]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The validation samples of a data set that has some, of the classes of the tasks."""
    if not hasattr(data, "x_val"):
        return None
    rows = np.isin(data.y_val, pooled(tasks, "train")[1])
    return data.x_val[rows], data.y_val[rows]
