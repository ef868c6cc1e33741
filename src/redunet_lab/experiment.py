"""An experiment: the settings of a model, the stream of tasks it learns, and the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError
from redunet.estimators.model_settings import ModelSettings, ShiftSettings
from redunet.estimators.predictor import covering
from redunet.estimators.settings import InputSettings, Settings
from redunet.features import FeatureMap, FeatureSettings, known_names
from redunet.shift_invariant.classifier import components as of_shifts
from redunet.validation import documented
from redunet_lab import datasets, own_data, recipes
from redunet_lab.datasets.dataset import Samples
from redunet_lab.streams import StreamSettings, Task, class_stream

NETWORK = (*Settings.names(), *ShiftSettings.names())
"""Settings of the network and its read-out."""

FEATURES = (*(name for name in FeatureSettings.names() if name != "seed"), *InputSettings.names())
"""Settings of the vectors that the network, and every method on class moments, is given."""


@documented(StreamSettings, FeatureSettings, Settings, ShiftSettings, InputSettings)
@dataclass(frozen=True)
class Plan(ModelSettings, StreamSettings):
    """All that decides the numbers of an experiment.

    Two runs of one plan on one machine give the same numbers.

    Parameters
    ----------
    {settings}
    """

    def stream(self, data: Samples) -> tuple[Task, ...]:
        """The tasks of a data set."""
        return class_stream(
            data,
            self.n_tasks,
            tasks=self.tasks,
            order_seed=self.seed if self.shuffle else self.order_seed,
            train_per_class=self.train_per_class,
            test_per_class=self.test_per_class,
            subset_seed=self.seed,
            test_shift=self.test_shift,
        )

    def feature_map(self, tasks: tuple[Task, ...], device: str = "cpu") -> FeatureMap:
        """The feature map, learnt from the training images that ``fit_features_on`` names."""
        first = tasks[0]
        of_first = self.fit_features_on == "first-task"
        return self.features_from(first.x_train if of_first else first.data.x_train, device)


@dataclass(frozen=True)
class Experiment:
    """The settings of a model and of a stream."""

    plan: Plan
    recipe: str | None = None
    usual: Plan = Plan()  # with which settings that were changed are compared
    label: str | None = None  # of a person's own data: the column or array of labels,
    test: str | None = None  # and the test data

    @classmethod
    def of(
        cls,
        data: str | None = None,
        *,
        recipe: str | None = None,
        usual: Mapping[str, Mapping[str, Any]] | None = None,
        config: Path | None = None,
        changes: Mapping[str, Any] | None = None,
        label: str | None = None,
        test: str | None = None,
    ) -> Experiment:
        """Settings from a recipe or the usual ones, then from a file, then single ones."""
        given = {**({} if data is None else {"data": data}), **(changes or {})}
        name = given.get("data") or _with_file(Plan(), config).data
        start = (usual or {}).get(name, {}) if recipe is None else recipes.settings(recipe)
        base = Plan().changed(start)
        plan = _with_file(base, config).changed(given)
        name = None if recipe is None else recipes.current_name(recipe)
        return cls(plan, name, base, label, test)

    @property
    def data(self) -> str:
        """The name of the data set, or the path of a person's own data."""
        return self.plan.data

    @property
    def title(self) -> str:
        """The name of the data in tables."""
        return datasets.title(self.data) if self._is_known else Path(self.data).name

    @property
    def _is_known(self) -> bool:
        """Whether the data is a data set that has a name, rather than a file."""
        return self.data.partition("+")[0] in datasets.LOADERS

    @property
    def seed(self) -> int:
        """Of random features and of subsets."""
        return self.plan.seed

    @property
    def random(self) -> bool:
        """Whether the seed makes a difference to features or stream."""
        plan = self.plan
        drawn = plan.train_per_class or plan.test_per_class or plan.test_shift
        return plan.random_features or plan.shuffle or bool(drawn)

    @property
    def model_settings(self) -> dict[str, Any]:
        """The settings of features and network."""
        return {key: getattr(self.plan, key) for key in (*FEATURES, *NETWORK)}

    @property
    def feature_settings(self) -> dict[str, Any]:
        """The settings of the features."""
        return {key: getattr(self.plan, key) for key in FEATURES}

    @property
    def stream_settings(self) -> dict[str, Any]:
        """The settings of the stream, and of a person's own data."""
        own = {"label": self.label, "test": self.test}
        return {key: getattr(self.plan, key) for key in StreamSettings.names()} | {
            key: value for key, value in own.items() if value is not None
        }

    def changed(self, values: Mapping[str, Any]) -> Experiment:
        """The experiment with some settings replaced."""
        return replace(self, plan=self.plan.changed(values))

    def load(self, data_dir: Path | None = None) -> Samples:
        """The data set."""
        if self._is_known or not own_data.is_file(self.data):
            if self.label is not None or self.test is not None:
                raise SettingsError(
                    f"expected --label and --test with a file of your own, got the data set "
                    f"{self.data!r}"
                )
            return datasets.load(self.data, data_dir)
        return own_data.load(Path(self.data), self.label, Path(self.test) if self.test else None)

    def tasks(self, data: Samples) -> tuple[Task, ...]:
        """The stream."""
        return self.plan.stream(data)

    def features(self, tasks: tuple[Task, ...], device: str = "cpu") -> FeatureMap | None:
        """The feature map; None where samples are vectors to be taken as they are."""
        if self.plan.features == "pixels" and tasks[0].data.x_train.ndim == 2:
            return None
        return self.plan.feature_map(tasks, device)

    def estimator(
        self, features: FeatureMap | None, device: str, memory: str, **changes: Any
    ) -> Any:
        """A model that has learnt nothing yet."""
        plan = self.plan.changed(changes) if changes else self.plan
        return plan.learner(features, device, memory)

    def components(self, n_features: int) -> int:
        """The dimension of the subspaces of the read-out; too large a number is an error."""
        network, of_each = self.plan.network(), n_features // self.plan.n_ensemble
        return (of_shifts if self.plan.shifts else Settings.components)(network, of_each)

    def diagnostics(self, data: Samples) -> list[str]:
        """Why ReduNet's settings cannot work on data whose values are its features."""
        x_train = data.x_train
        if (self.plan.features, self.plan.readout, x_train.ndim) != ("pixels", "subspace", 2):
            return []
        return covering(self.components(x_train.shape[1]), x_train.shape[1])

    def changes(self) -> dict[str, Any]:
        """The settings that are not the usual ones, but for data and seed."""
        here, usual = self.plan.to_dict(), self.usual.to_dict()
        return {k: v for k, v in here.items() if v != usual[k] and k not in ("data", "seed")}


def _with_file(plan: Plan, config: Path | None) -> Plan:
    return plan.changed_by_file(config) if config else plan


def settings_help() -> str:
    """The names of all settings, for the help of commands."""
    stream = ", ".join(name for name in StreamSettings.names() if name != "data")
    model = ", ".join(ModelSettings.names())
    kinds = ", ".join(known_names())
    return (
        f"Settings of the stream: {stream}. Of the model: {model}. Features: {kinds}, "
        f"patches-N, stacked-patches-N, upright- before scattering or patches, or several with + "
        f"between them."
    )
