"""The methods that are compared: names, settings, and learners that have learnt nothing yet."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redunet.errors import SettingsError, did_you_mean
from redunet.estimators.ensemble import EnsembleClassifier
from redunet.estimators.settings import InputSettings
from redunet_lab.baselines import GRADIENT
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.experiment import FEATURES, Experiment, Plan
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
"""What methods on class moments are called in tables."""

FOR_VECTORS = ("slda", "air", "fecam", "ranpac", "klda")
"""Methods that stand behind a pretrained encoder: compared on vectors unless others are named."""

PAIRS_UP_TO = 20
"""With more classes pairwise LDA, which grows with their square, is compared only where named."""

NO_LAYERS = {"whitening": None, "n_layers": 0, "readout": "subspace"}
"""ReduNet with these settings is nearest subspace, and nothing before it."""

_DIGITS: dict[str, dict[str, Any]] = {
    "lda": {"shrinkage": 1e-5},
    "ridge": {"ridge": 1e-6},
    "qda": {"shrinkage": 0.3, "distance": "gaussian"},
}

CHOSEN: dict[tuple[str | None, str], dict[str, dict[str, Any]]] = {
    (None, "digits"): _DIGITS,
    (None, "mnist"): {
        "lda": {"shrinkage": 0.1},
        "ridge": {"ridge": 0.1},
        "qda": {"shrinkage": 0.8, "distance": "correlation"},
    },
    (None, "cifar10"): {
        "lda": {"shrinkage": 0.1},
        "ridge": {"ridge": 0.1},
        "qda": {"shrinkage": 0.6, "distance": "gaussian"},
    },
    (None, "clinc150"): {
        "lda": {"shrinkage": 1e-05},
        "ridge": {"ridge": 0.003},
        "qda": {"distance": "gaussian", "shrinkage": 0.95},
        "air": {"ridge": 0.01},
        "fecam": {"alpha": 10},
        "ranpac": {"n_projections": 10000, "ridge": 0.03},
        "klda": {"n_projections": 5000, "gamma": 0.01, "shrinkage": 0.003},
    },
    (None, "fashion_mnist+efficientnet-lite2"): {
        "lda": {"shrinkage": 1e-06},
        "ridge": {"ridge": 1e-06},
        "qda": {"distance": "gaussian", "shrinkage": 0.5},
        "air": {"ridge": 0.0001},
        "fecam": {"alpha": 1, "tukey": True},
        "ranpac": {"n_projections": 5000, "ridge": 1e-06},
        "klda": {"n_projections": 5000, "gamma": 0.01, "shrinkage": 0.0001},
    },
    (None, "cifar10+efficientnet-lite2"): {
        "lda": {"shrinkage": 0.01},
        "ridge": {"ridge": 0.001},
        "qda": {"distance": "gaussian", "shrinkage": 0.5},
        "air": {"ridge": 0.001},
        "fecam": {"alpha": 1, "tukey": True},
        "ranpac": {"n_projections": 5000, "ridge": 0.01},
        "klda": {"n_projections": 5000, "gamma": 1, "shrinkage": 0.1},
    },
    ("directions", "digits"): _DIGITS,
    ("images-best", "cifar10"): {
        "lda": {"shrinkage": 0.003},
        "ridge": {"ridge": 0.003},
    },
    ("images-gpu", "cifar10"): {
        "lda": {"shrinkage": 0.001},
        "ridge": {"ridge": 0.001},
    },
    ("images-ensemble-cpu", "cifar10"): {
        "lda": {"shrinkage": 3e-05},
        "ridge": {"ridge": 3e-05},
    },
    ("images", "cifar10"): {
        "lda": {"shrinkage": 0.003},
        "ridge": {"ridge": 0.003},
    },
    ("images-plain", "fashion_mnist"): {
        "lda": {"shrinkage": 0.0001},
        "ridge": {"ridge": 0.0003},
    },
    ("images-written", "mnist"): {
        "lda": {"shrinkage": 1e-05},
        "ridge": {"ridge": 0.0001},
    },
    ("images-fixed", "mnist"): {
        "lda": {"shrinkage": 1e-05},
        "ridge": {"ridge": 0.0001},
    },
    ("images-small", "cifar10"): {
        "lda": {"shrinkage": 0.03},
        "ridge": {"ridge": 0.01},
        "qda": {"shrinkage": 0.6, "distance": "gaussian"},
    },
    ("images-small", "fashion_mnist"): {
        "lda": {"shrinkage": 1e-07},
        "ridge": {"ridge": 1e-07},
        "qda": {"shrinkage": 0.6, "distance": "gaussian"},
    },
    ("images-fast", "mnist"): {
        "lda": {"shrinkage": 0.0003},
        "ridge": {"ridge": 1e-05},
        "qda": {"shrinkage": 0.1, "distance": "gaussian"},
    },
}
"""Settings of closed-form methods chosen on training or validation data by `redunet tune --method`,
by recipe (None: the usual features) and data set; elsewhere they have their defaults."""

_CHOSEN_ON = "chosen on training or validation data"

_GIVEN = {"self", "classes", "input_shape", "features", "seed", "device"}


def names() -> dict[str, str]:
    """All methods in the order of tables, and what they are called there."""
    gradient = {key: getattr(rival, "title", key) for key, rival in GRADIENT.items()}
    closed = {key: TITLES.get(key, one.name()) for key, one in CLOSED_FORMS.items()}
    first = {key: TITLES[key] for key in ("redunet", "subspace")}
    return {**first, **gradient, **closed}


@dataclass(frozen=True)
class Method:
    """A method with its settings.

    Parameters
    ----------
    key : str
        A key of `names`.
    experiment : Experiment
        Of the stream, and of the features that all methods on moments share.
    settings : mapping
        The method's own; of ReduNet, those of its network.
    usual : mapping
        The same where nothing is changed.
    chosen : str
        How the settings were chosen, in words.
    readings : mapping from a name to a number of components, default={}
        Of ReduNet: labels by several numbers of components, each a row in tables.
    """

    key: str
    experiment: Experiment
    settings: Mapping[str, Any]
    usual: Mapping[str, Any]
    chosen: str
    readings: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, key: str, experiment: Experiment, changes: Mapping[str, Any] | None = None
    ) -> Method:
        """A method with its usual settings for the data, but for the changes."""
        recipe, changes = experiment.recipe, changes or {}
        if key in ("redunet", "subspace"):
            known_settings(key, changes, ())
            changed = list(experiment.changes())
            start = "the recipe" if recipe else "the usual settings"
            chosen = f"{start}, but for {', '.join(changed)}" if changed else start
            if key == "redunet":
                usual = replace(experiment, plan=experiment.usual).model_settings
                return cls(key, experiment, experiment.model_settings, usual, chosen)
            settings = {**NO_LAYERS, "n_components": experiment.model_settings["n_components"]}
            return cls(key, experiment, settings, settings, chosen)
        if key in GRADIENT:
            settings_for = getattr(GRADIENT[key], "usual_settings", None)
            usual = settings_for(experiment.data) if settings_for else {}
            own = known_settings(key, changes, [*usual, *_parameters(GRADIENT[key])])
            chosen = f"as published, but for {', '.join(own)}" if own else "as published"
            return cls(key, experiment, {**usual, **own}, usual, chosen)
        defaults = _without_seed(CLOSED_FORMS[key]().own_settings())
        own = known_settings(key, CLOSED_FORMS[key].named_today(changes), list(defaults))
        chosen_here = _chosen_for(experiment).get(key)
        usual = {**defaults, **(chosen_here or {})}
        settings = _without_seed(CLOSED_FORMS[key](**{**usual, **own}).own_settings())
        chosen = "the defaults" if chosen_here is None else _CHOSEN_ON
        if own or not defaults:
            chosen = "set for this run" if own else "nothing to choose"
        return cls(key, experiment, settings, usual, chosen)

    @property
    def name(self) -> str:
        """What it is called in tables."""
        recipe = self.experiment.recipe
        return f"ReduNet, {recipe}" if self.key == "redunet" and recipe else names()[self.key]

    @property
    def on_moments(self) -> bool:
        """Whether it is a function of class moments."""
        return self.key not in GRADIENT

    @property
    def own_features(self) -> bool:
        """Whether it has a feature map of its own, and so cannot share moments with others."""
        if self.key not in CLOSED_FORMS:
            return False
        return CLOSED_FORMS[self.key](**self.settings).own_map(1) is not None

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
        """What it learns of a stream: all of it task by task, or at once."""
        together = getattr(GRADIENT.get(self.key), "at_once", False)
        return [at_once(tasks)] if together else tasks

    def run_settings(self, tasks: Sequence[Task], seed: int) -> dict[str, Any]:
        """Everything that decides the numbers of a run, in plain values."""
        features = self.experiment.feature_settings if self.on_moments else {}
        readings = {"readings": dict(self.readings)} if self.readings else {}
        everything = {
            "method": self.key,
            **self.experiment.stream_settings,
            "tasks": [task.classes for task in tasks],
            "seed": seed,
            **features,
            **self.settings,
            **readings,
        }
        plain: dict[str, Any] = json.loads(json.dumps(everything))
        return plain

    def about(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """What the record says of it beside its runs, from the settings of one of these."""
        stream = self.experiment.stream_settings
        hidden = {"method", "seed", "readings", *stream}
        hidden |= set(FEATURES) if self.key != "redunet" else set()
        own = {key: value for key, value in recorded.items() if key not in hidden}
        usual = json.loads(json.dumps(dict(self.usual)))
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
        if self.key == "redunet":
            return self.experiment.estimator(None, device, memory)
        if self.key == "subspace":
            return self.experiment.estimator(None, device, memory, **NO_LAYERS)
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
            made: Learner = CLOSED_FORMS[self.key](
                **own, **scaling, features=features, device=device
            )
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


def check_alike(runs: Mapping[Any, Mapping[str, Any]]) -> None:
    """Raise an error for runs that cannot stand in one table.

    All must have the same stream, all methods on moments the same features,
    and all runs of a method the same settings but for the seed. Where the seed
    shuffles the classes, the stream is the same for each seed.
    """
    known: dict[tuple[str, str], Any] = {}
    shared = {*FEATURES, "data", "train_per_class", "test_per_class", "label", "test", "shuffle"}
    for folder, settings in runs.items():
        for key in settings.keys() - {"method", "seed"}:
            whose = "" if key in shared else settings["method"]
            if key == "tasks":
                whose = f"seed {settings['seed']}" if settings.get("shuffle") else ""
            if known.setdefault((whose, key), settings[key]) != settings[key]:
                raise SettingsError(
                    f"{folder} holds a run with another {key} than the others here: "
                    f"name another folder, or remove it"
                )


def _chosen_for(experiment: Experiment) -> Mapping[str, Mapping[str, Any]]:
    """Settings of closed-form methods that were chosen for the data and these features."""
    found = CHOSEN.get((experiment.recipe, experiment.data))
    if found is None and experiment.feature_settings == Experiment(Plan()).feature_settings:
        return CHOSEN.get((None, experiment.data), {})  # of vectors as they are
    return found or {}


def _without_seed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings but for the seed, which is that of the run."""
    return {key: value for key, value in settings.items() if key != "seed"}


def _parameters(kind: type) -> list[str]:
    """Names of what a learner can be made with, those of its ancestors included."""
    return [
        name
        for ancestor in kind.__mro__
        for name, one in inspect.signature(ancestor.__init__).parameters.items()  # type: ignore[misc]
        if name not in _GIVEN and one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
