"""Who takes part in a comparison: names, settings, and learners that have learnt nothing yet."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from redunet.errors import SettingsError
from redunet.estimators.settings import resolve_device
from redunet.experiments.plan import Plan
from redunet.experiments.reproduce import REPRODUCTIONS
from redunet.experiments.runner import Learner
from redunet.experiments.streams import StreamSettings, Task
from redunet.features import FeatureSettings
from redunet.rivals import CLOSED_FORM, GRADIENT
from redunet.rivals.published import settings as published_settings

NAMES = {
    "redunet": "ReduNet",
    "finetune": "fine-tuning",
    "joint": "joint training",
    "lwf": "LwF",
    "ewc": "oEWC",
    "si": "SI",
    "icarl": "iCaRL",
    "er": "ER",
    "derpp": "DER++",
    "ncm": "nearest mean",
    "lda": "LDA",
    "ridge": "ridge",
    "qda": "QDA",
}
"""What can be compared, and what it is called in tables."""

PLANS = {name: REPRODUCTIONS[name].plan for name in ("mnist", "cifar10")}
"""Stream, features and network where the paper has them; other data sets have the defaults."""

CHOSEN: dict[str, dict[str, dict[str, Any]]] = {
    "digits": {
        "lda": {"regularization": 1e-5},
        "ridge": {"regularization": 1e-6},
        "qda": {"regularization": 0.3, "distance": "gaussian"},
    },
    "mnist": {
        "lda": {"regularization": 0.1},
        "ridge": {"regularization": 0.1},
        "qda": {"regularization": 0.8, "distance": "correlation"},
    },
    "cifar10": {
        "lda": {"regularization": 0.1},
        "ridge": {"regularization": 0.1},
        "qda": {"regularization": 0.6, "distance": "gaussian"},
    },
}
"""Settings of closed-form methods chosen on training data, by `redunet tune --method`."""

CHOSEN_FOR_RECIPES: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("features", "digits"): CHOSEN["digits"],
    ("images-best", "cifar10"): {
        "lda": {"regularization": 0.003},
        "ridge": {"regularization": 0.01},
        "qda": {"regularization": 0.6, "distance": "gaussian"},
    },
    ("images-plain", "fashion_mnist"): {
        "lda": {"regularization": 0.001},
        "ridge": {"regularization": 0.001},
        "qda": {"regularization": 0.6, "distance": "gaussian"},
    },
    ("images-fixed", "mnist"): {
        "lda": {"regularization": 1e-05},
        "ridge": {"regularization": 1e-05},
        "qda": {"regularization": 0.3, "distance": "gaussian"},
    },
    ("images-small", "cifar10"): {
        "lda": {"regularization": 0.03},
        "ridge": {"regularization": 0.01},
        "qda": {"regularization": 0.6, "distance": "gaussian"},
    },
    ("images-small", "fashion_mnist"): {
        "lda": {"regularization": 1e-07},
        "ridge": {"regularization": 1e-07},
        "qda": {"regularization": 0.6, "distance": "gaussian"},
    },
    ("images-fast", "mnist"): {
        "lda": {"regularization": 0.0003},
        "ridge": {"regularization": 1e-05},
        "qda": {"regularization": 0.1, "distance": "gaussian"},
    },
}
"""The same on the features of a recipe, by recipe and data set; others have their defaults."""

FEATURES = tuple(name for name in FeatureSettings.names() if name != "seed")
"""What of a plan is about the features."""
_GIVEN = {"self", "classes", "input_shape", "features", "seed", "device"}


@dataclass(frozen=True)
class Entrant:
    """A method with its settings.

    Parameters
    ----------
    method : str
        A key of `NAMES`.
    plan : Plan
        Of the stream, and of the features that all methods on features share.
    settings : mapping
        What else decides its numbers, but for the seed.
    """

    method: str
    plan: Plan
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, method: str, data: str, changes: Mapping[str, Mapping[str, Any]]) -> Entrant:
        """A method with its usual settings for a data set, but for the changes.

        Parameters
        ----------
        method : str
        data : str
        changes : mapping from a method to settings
            ReduNet's changes of features hold for the closed-form methods too.
        """
        plan = PLANS.get(data, Plan(data=data))
        of_network = [
            f.name for f in fields(Plan) if f.name not in (*StreamSettings.names(), "seed")
        ]
        plan = plan.changed(known_settings("redunet", changes.get("redunet", {}), of_network))
        if method == "redunet":
            return cls(method, plan, {key: getattr(plan, key) for key in of_network})
        own = changes.get(method, {})
        if method in GRADIENT:
            settings = published_settings(method, data)
            own = known_settings(method, own, [*settings, *_parameters(GRADIENT[method])])
        else:
            settings = {
                key: value
                for key, value in CLOSED_FORM[method]().get_params().items()
                if key not in _GIVEN
            }
            own = known_settings(method, own, list(settings))
            settings |= CHOSEN.get(data, {}).get(method, {})
            settings |= {key: getattr(plan, key) for key in FEATURES}
        return cls(method, plan, {**settings, **own})

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return NAMES[self.method]

    @property
    def random(self) -> bool:
        """Whether a seed makes a difference: to weights and batches, or to the feature map."""
        return self.method in GRADIENT or self.plan.random_features

    def seeds(self, wanted: Sequence[int]) -> Sequence[int]:
        """The seeds to run with: those wanted, or 0 where none makes a difference."""
        return wanted if self.random else (0,)

    def tasks(self, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        """What it learns of a stream: all of it task by task; joint training, at once."""
        if self.method != "joint":
            return tasks
        together = [label for task in tasks for label in task.classes]
        at_once = {"tasks": [together], "n_tasks": None, "order_seed": None}
        return self.plan.changed(at_once).stream(tasks[0].data)

    def record_settings(self, tasks: tuple[Task, ...], seed: int) -> dict[str, Any]:
        """Everything that decides the numbers of a run, in plain values."""
        stream = {key: getattr(self.plan, key) for key in StreamSettings.names()}
        stream["tasks"] = [task.classes for task in tasks]
        everything = {"method": self.method, **stream, "seed": seed, **self.settings}
        plain: dict[str, Any] = json.loads(json.dumps(everything))
        return plain

    def learner(self, tasks: tuple[Task, ...], seed: int, device: str, memory: str) -> Learner:
        """One that has learnt nothing yet."""
        if self.method in GRADIENT:
            gradient: Learner = GRADIENT[self.method](
                classes=tuple(sorted(label for task in tasks for label in task.classes)),
                input_shape=tasks[0].data.x_train.shape[1:],
                seed=seed,
                device=device,
                **self.settings,
            )
            return gradient
        plan = self.plan.changed({"seed": seed})
        features = plan.feature_map(tasks, resolve_device(device))
        if self.method == "redunet":
            return plan.learner(features, device, memory)
        own = {key: value for key, value in self.settings.items() if key not in FEATURES}
        closed: Learner = CLOSED_FORM[self.method](features=features, device=device, **own)
        return closed


def check_methods(methods: Sequence[str]) -> None:
    """Complain of methods that there are not."""
    for method in methods:
        if method not in NAMES:
            raise SettingsError(f"expected methods among {', '.join(NAMES)}, got {method!r}")


def settings_for_recipe(
    method: str, recipe: str, data: str, changes: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Settings of a closed-form method on the features of a recipe, and how they came about.

    Parameters
    ----------
    method : str
        A key of `redunet.rivals.CLOSED_FORM`.
    recipe, data : str
    changes : mapping from a setting to its value
        Those set by hand.
    """
    usual = CLOSED_FORM[method]().own_settings()
    chosen = CHOSEN_FOR_RECIPES.get((recipe, data), {}).get(method)
    own = known_settings(method, changes, list(usual))
    settings = CLOSED_FORM[method](**{**usual, **(chosen or {}), **own}).own_settings()
    if not usual:
        return settings, "nothing to choose"
    if own:
        return settings, "set for this run"
    return settings, "the defaults" if chosen is None else "chosen on training data"


def known_settings(
    method: str, values: Mapping[str, Any], known: Sequence[str]
) -> Mapping[str, Any]:
    """The values themselves; an error where one is of a setting that the method has not."""
    for key in values:
        if key not in known:
            names = ", ".join(dict.fromkeys(known)) or "none"
            raise SettingsError(f"expected settings of {method} among {names}, got {key!r}")
    return values


def _parameters(kind: type) -> list[str]:
    """Names of what a learner can be made with, those of its ancestors included."""
    return [
        name
        for ancestor in kind.__mro__
        for name, one in inspect.signature(ancestor.__init__).parameters.items()  # type: ignore[misc]
        if name not in _GIVEN and one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
