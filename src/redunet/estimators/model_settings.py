"""All settings of a model as one value: its features, network, read-out and input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from redunet import registry
from redunet.errors import SettingsError
from redunet.estimators.classifier import ReduNetClassifier
from redunet.estimators.closed_form import ClosedForm
from redunet.estimators.ensemble import EnsembleClassifier
from redunet.estimators.settings import InputSettings, Settings
from redunet.features import FeatureMap, FeatureSettings
from redunet.validation import Declared, documented, flag, one_of, setting


@dataclass(frozen=True)
class ShiftSettings(Declared):
    """Whether a model is the network of all shifts."""

    shifts: bool = setting(
        False,
        flag,
        """Whether all circular shifts of a sample are learnt with it, so that no shift changes a
        label: a `ShiftInvariantClassifier`, for features that lie on a grid.""",
        "bool",
        always_saved=False,
    )


Learner: TypeAlias = Any
"""A model that settings describe: a `MomentEstimator` of a kind that depends on them."""


@documented(FeatureSettings, Settings, ShiftSettings, InputSettings)
@dataclass(frozen=True)
class ModelSettings(InputSettings, ShiftSettings, Settings, FeatureSettings):
    """All settings of a model.

    Parameters
    ----------
    {settings}
    """

    def _check_together(self) -> None:
        super()._check_together()
        if not self.shifts:
            return
        one_of("readout", self.readout, _of_shifts().readouts)
        if self.whitening is not None:
            raise SettingsError(
                "expected whitening=none with shifts=true: the network of all shifts has none"
            )
        if self.n_ensemble > 1:
            raise SettingsError(
                f"expected n_ensemble=1 with shifts=true, got {self.n_ensemble}: the network of "
                f"all shifts is one"
            )

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
    ) -> Learner:
        """A model that has learnt nothing yet, with a feature map made before."""
        if self.shifts:
            learner: ClosedForm = _of_shifts().of_settings(self, features, device)
            return learner
        own, of_input = self.network().to_dict(), InputSettings.of(self).to_dict()
        if self.n_ensemble > 1:
            where: dict[str, Any] = {"features": features, "device": device, "memory": memory}
            return EnsembleClassifier(ReduNetClassifier(**own), **of_input, **where)
        return ReduNetClassifier(**own, **of_input, features=features, device=device, memory=memory)


def _of_shifts() -> Any:
    """The estimator of the network of all shifts."""
    return registry.find("estimators", "shift-invariant")
