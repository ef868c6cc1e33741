"""What an experiment is: the settings of a model and of the stream that it learns."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from typing import Any

from redunet.estimators.model_settings import ModelSettings
from redunet.estimators.recipes import find
from redunet.estimators.settings import InputSettings, Settings
from redunet.experiments.streams import LabelledImages, StreamSettings, Task, class_stream
from redunet.features import FeatureMap, FeatureSettings
from redunet.validation import documented


@documented(StreamSettings, FeatureSettings, Settings, InputSettings)
@dataclass(frozen=True)
class Plan(ModelSettings, StreamSettings):
    """All that decides the numbers of an experiment.

    Two runs of one plan on one machine give the same numbers.

    Parameters
    ----------
    {settings}
    """

    def stream(self, data: LabelledImages) -> tuple[Task, ...]:
        """The tasks of a data set."""
        return class_stream(
            data,
            self.n_tasks,
            tasks=self.tasks,
            order_seed=self.order_seed,
            train_per_class=self.train_per_class,
            test_per_class=self.test_per_class,
            subset_seed=self.seed,
        )

    def feature_map(self, tasks: tuple[Task, ...], device: str = "cpu") -> FeatureMap:
        """The feature map, learnt from the training images that ``statistics_from`` names."""
        first = tasks[0]
        of_first = self.statistics_from == "first-task"
        return self.features_from(first.x_train if of_first else first.data.x_train, device)


def planned(recipe: str | None = None, **changes: Any) -> Plan:
    """The plan with the settings of a recipe, or the defaults, with single ones replaced."""
    settings = {} if recipe is None else find(recipe).settings
    return Plan().changed({**settings, **changes})


def completed(recorded: Mapping[str, Any], wanted: Container[str]) -> dict[str, Any]:
    """Recorded settings, with those wanted that were added since, at their defaults."""
    added = {
        one.name: one.default
        for one in fields(Plan)
        if one.name in wanted and one.name not in recorded
    }
    return {**recorded, **added}
