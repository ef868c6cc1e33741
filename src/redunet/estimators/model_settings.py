"""What a model is, as one value: its features, network, read-out and input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from redunet.errors import SettingsError
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.settings import InputSettings, Settings
from redunet.features import FeatureMap, FeatureSettings
from redunet.validation import documented


@documented(FeatureSettings, Settings, InputSettings)
@dataclass(frozen=True)
class ModelSettings(InputSettings, Settings, FeatureSettings):
    """All settings of a model.

    Parameters
    ----------
    {settings}
    """

    def network(self) -> Settings:
        """The settings of the network and its read-out alone."""
        return Settings.of(self)

    def features_for(self, samples: NDArray[Any] | None, device: str = "cpu") -> FeatureMap | None:
        """The feature map for samples of any kind.

        Parameters
        ----------
        samples : ndarray of shape (n, …), or None
            Images, or vectors. None stands for vectors that are not at hand.
        device : str, default="cpu"

        Returns
        -------
        FeatureMap, or None where samples are vectors and taken as they are
        """
        if self.features == "pixels" and (samples is None or samples.ndim == 2):
            return None
        if samples is None:
            raise SettingsError(
                f"expected samples for the features {self.features!r} to be made from, got none: "
                f"pass those of the first task, as in from_recipe(name, X)"
            )
        return self.features_from(samples, device)

    def learner(
        self, features: FeatureMap | None, device: str = "auto", memory: str | int = "2GB"
    ) -> ReduNetClassifier:
        """A model that has learnt nothing yet, with a feature map made before."""
        own = {name: getattr(self, name) for name in (*Settings.names(), *InputSettings.names())}
        return ReduNetClassifier(**own, features=features, device=device, memory=memory)
