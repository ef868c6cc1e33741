"""The methods that are compared: names, settings, and learners that have learnt nothing yet."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.ensemble import EnsembleClassifier
from redunet.estimators.settings import InputSettings
from redunet.validation import settings_in_file
from redunet_lab.baselines import GRADIENT
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.experiment import FEATURES, Experiment, Plan
from redunet_lab.record import plain
from redunet_lab.runner import Learner
from redunet_lab.streams import Task, at_once

TITLES = {
    "redunet": "ReduNet",
    "subspace": "nearest subspace",
    "ncm": "nearest mean",
    "lda": "LDA",
    "ridge": "ridge",
    "qda": "QDA",
    "pairwise": "pairwise LDA",
    "slda": "Deep SLDA",
    "air": "AIR",
    "fecam": "FeCAM",
    "ranpac": "RanPAC",
    "klda": "KLDA",
}
"""Names in tables of methods on class moments."""

FOR_VECTORS = ("slda", "air", "fecam", "ranpac", "klda")
"""Methods that stand behind a pretrained encoder: compared on vectors unless others are named."""

PAIRS_UP_TO = 20
"""With more classes pairwise LDA, which grows with their square, is compared only where named."""

NO_LAYERS = {"whitening": None, "n_layers": 0, "readout": "subspace"}
"""ReduNet with these settings is nearest subspace, and nothing before it."""

_GIVEN = {"self", "classes", "input_shape", "features", "seed", "device"}


def names() -> dict[str, str]:
    """All methods in the order of tables, and their names there."""
    gradient = {key: getattr(one, "title", key) for key, one in GRADIENT.items()}
    closed = {key: TITLES.get(key, one.name()) for key, one in CLOSED_FORMS.items()}
    first = {key: TITLES[key] for key in ("redunet", "subspace")}
    return {**first, **gradient, **closed}


@dataclass(frozen=True)
class Method:
    """A method with its settings."""

    key: str
    experiment: Experiment
    settings: Mapping[str, Any]  # its own; of ReduNet, those of its network
    usual: Mapping[str, Any]
    chosen: str  # how the settings were chosen, in words
    # Of ReduNet: labels by several numbers of components, each a row in tables.
    readings: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, key: str, experiment: Experiment, changes: Mapping[str, Any] | None = None
    ) -> Method:
        """A method with its usual settings for the data, but for the changes."""
        changes = changes or {}
        if key in ("redunet", "subspace"):
            known_settings(key, changes, ())
            return cls(key, experiment, *_of_network(key, experiment))
        if key in GRADIENT:
            settings_for = getattr(GRADIENT[key], "usual_settings", None)
            usual = settings_for(experiment.data) if settings_for else {}
            own = known_settings(key, changes, [*usual, *_parameters(GRADIENT[key])])
            chosen = f"as published, but for {', '.join(own)}" if own else "as published"
            return cls(key, experiment, {**usual, **own}, usual, chosen)
        defaults = _without_seed(CLOSED_FORMS[key]().own_settings())
        own = known_settings(key, CLOSED_FORMS[key].named_today(changes), list(defaults))
        tuned = _chosen_for(experiment).get(key)
        usual = {**defaults, **(tuned or {})}
        settings = _without_seed(CLOSED_FORMS[key](**{**usual, **own}).own_settings())
        chosen = "the defaults" if tuned is None else "chosen on training or validation data"
        if own or not defaults:
            chosen = "set for this run" if own else "nothing to choose"
        return cls(key, experiment, settings, usual, chosen)

    @property
    def name(self) -> str:
        """Its name in tables."""
        recipe = self.experiment.recipe
        return f"ReduNet, {recipe}" if self.key == "redunet" and recipe else names()[self.key]

    @property
    def on_moments(self) -> bool:
        """Whether it is a function of class moments."""
        return self.key not in GRADIENT

    @property
    def shares_moments(self) -> bool:
        """Whether it answers from moments that others learnt, having no features of its own."""
        if self.key not in CLOSED_FORMS:
            return self.on_moments
        return CLOSED_FORMS[self.key](**self.settings).own_map(1) is None

    @property
    def random(self) -> bool:
        """Whether a seed makes a difference: to weights and batches, features or stream."""
        return not self.on_moments or self.experiment.random or self._seeded

    @property
    def _seeded(self) -> bool:
        """Whether its own feature map is random."""
        return self.key in CLOSED_FORMS and "seed" in CLOSED_FORMS[self.key]().own_settings()

    def seeds(self, wanted: Sequence[int]) -> Sequence[int]:
        """The seeds to run with: those wanted, or 0 where none makes a difference."""
        return wanted if self.random else (0,)

    def stream(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """The tasks that it learns: those of the stream, or all of them as one."""
        together = getattr(GRADIENT.get(self.key), "at_once", False)
        return [at_once(tasks)] if together else tasks

    def run_settings(self, tasks: Sequence[Task], seed: int) -> dict[str, Any]:
        """Everything that decides the numbers of a run, in plain values."""
        settings: dict[str, Any] = plain(
            {
                "method": self.key,
                **self.experiment.stream_settings,
                "tasks": [task.classes for task in tasks],
                "seed": seed,
                **(self.experiment.feature_settings if self.on_moments else {}),
                **self.settings,
                **({"readings": self.readings} if self.readings else {}),
            }
        )
        return settings

    def about(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Entries of the record beside its runs, from the settings of one of these."""
        stream = self.experiment.stream_settings
        hidden = {"method", "seed", "readings", *stream}
        hidden |= set(FEATURES) if self.key != "redunet" else set()
        own = {key: value for key, value in recorded.items() if key not in hidden}
        usual = plain(self.usual)
        return {
            "method": self.key,
            "name": self.name,
            "type": "moments" if self.on_moments else "gradient",
            "random": self.random,
            "settings": {**stream, **own} if self.key == "redunet" else own,
            "changed": {
                key: {"usual": usual.get(key), "here": value}
                for key, value in own.items()
                if value != usual.get(key)
            },
            "chosen": self.chosen,
        }

    def estimator(self, device: str, memory: str) -> Any:
        """An estimator of vectors, to be given moments."""
        if self.key not in CLOSED_FORMS:
            changes = NO_LAYERS if self.key == "subspace" else {}
            return self.experiment.estimator(None, device, memory, **changes)
        scaling = InputSettings.of(self.experiment.plan).to_dict()
        made = CLOSED_FORMS[self.key](**self.settings, **scaling, device=device)
        if self.experiment.plan.n_ensemble == 1:
            return made
        return EnsembleClassifier(made, **scaling, device=device, memory=memory)

    def learner(self, tasks: tuple[Task, ...], seed: int, device: str) -> Learner:
        """A method that shares nothing with others, and has learnt nothing yet."""
        data = tasks[0].data
        if self.on_moments:
            scaling = InputSettings.of(self.experiment.plan).to_dict()
            own = {**self.settings, **({"seed": seed} if self._seeded else {})}
            features = self.experiment.changed({"seed": seed}).features(tasks, device)
            kind: Any = CLOSED_FORMS[self.key]
            made: Learner = kind(**own, **scaling, features=features, device=device)
            return made
        if data.x_train.ndim < 3:
            raise SettingsError(
                f"expected images for {self.key}, but {self.experiment.data} holds vectors: leave "
                f"it out of --methods"
            )
        learner: Learner = GRADIENT[self.key](
            classes=tuple(sorted(label for task in tasks for label in task.classes)),
            input_shape=data.x_train.shape[1:],
            seed=seed,
            device=device,
            **self.settings,
        )
        return learner


def check_methods(methods: Sequence[str]) -> None:
    """Raise an error for methods that do not exist."""
    for method in methods:
        if method not in names():
            raise SettingsError(
                f"expected methods among {', '.join(names())}, got {method!r}"
                f"{did_you_mean(method, names())}"
            )


def known_settings(
    method: str, values: Mapping[str, Any], known: Sequence[str]
) -> Mapping[str, Any]:
    """The values themselves; an error where the method has no such setting."""
    for key in values:
        if key not in known:
            listed = ", ".join(dict.fromkeys(known)) or "none"
            raise SettingsError(f"expected settings of {method} among {listed}, got {key!r}")
    return values


def _of_network(
    key: str, experiment: Experiment
) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """Settings of ReduNet or nearest subspace, the usual ones, and how they were chosen."""
    start = "the recipe" if experiment.recipe else "the usual settings"
    changed = ", ".join(experiment.changes())
    chosen = f"{start}, but for {changed}" if changed else start
    if key == "redunet":
        usual = replace(experiment, plan=experiment.usual).model_settings
        return experiment.model_settings, usual, chosen
    settings = {**NO_LAYERS, "n_components": experiment.model_settings["n_components"]}
    return settings, settings, chosen


@cache
def _chosen() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    return settings_in_file(Path(__file__).with_name("chosen.toml"))


def _chosen_for(experiment: Experiment) -> Mapping[str, Mapping[str, Any]]:
    """Settings of closed-form methods that were chosen for the data and these features."""
    recipe, data = experiment.recipe, experiment.data
    found = _chosen().get(f"{recipe} on {data}" if recipe else data)
    if found is None and experiment.feature_settings == Experiment(Plan()).feature_settings:
        return _chosen().get(data, {})  # of vectors as they are
    return found or {}


def _without_seed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings but for the seed, which is that of the run."""
    return {key: value for key, value in settings.items() if key != "seed"}


def _parameters(kind: type) -> list[str]:
    """Names of a learner's parameters, those of its ancestors included."""
    return [
        name
        for ancestor in kind.__mro__
        for name, one in inspect.signature(ancestor.__init__).parameters.items()  # type: ignore[misc]
        if name not in _GIVEN and one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
