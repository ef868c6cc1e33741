"""What estimators do with raw samples before anything is learnt or answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray

from redunet.encoders import EncoderId
from redunet.errors import SettingsError
from redunet.estimators.checks import checked_samples, column_names
from redunet.estimators.inputs import InputPipeline
from redunet.estimators.state import Fitted, State
from redunet.features import FeatureMap


class TakesSamples(Fitted):
    """An estimator whose samples go through a feature map and are put on the unit sphere.

    Parameters
    ----------
    features, normalize, input_range, device
        As for `ReduNetClassifier`.
    """

    features: FeatureMap | None
    normalize: str
    input_range: tuple[float, float] | None
    device: str

    _of_pipeline: ClassVar[str] = "features, normalize or input_range"
    """Parameters that cannot change once something is learnt."""

    def resize_images(self) -> Self:
        """Have commands scale and crop image files to the input shape of the feature map.

        Of no meaning to arrays. Kept in the model until the next `fit`.

        Returns
        -------
        self
        """
        self._state = replace(self._fitted(), resize=True)
        return self

    def set_encoder(self, encoder: EncoderId | None) -> Self:
        """State which encoder makes the vectors, for commands that are given texts or images.

        Of no meaning to arrays. Kept in the model until the next `fit`.

        Parameters
        ----------
        encoder : EncoderId, or None

        Returns
        -------
        self
        """
        self._state = replace(self._fitted(), encoder=encoder)
        return self

    def _pipeline(self) -> InputPipeline:
        """The parameters of the input, checked."""
        return InputPipeline.checked(self.features, self.normalize, self.input_range)

    def _full_pipeline(self, n_columns: int) -> InputPipeline:
        """What samples of so many values go through: the input, and maps of a subclass's own."""
        return self._pipeline()

    def _given_features(self, features: FeatureMap | None) -> FeatureMap | None:
        """The parameter ``features`` of a model whose samples go through a feature map."""
        return features

    def _check_pipeline(self, state: State) -> None:
        """Raise a SettingsError where the input's parameters changed since the first sample."""
        if self._full_pipeline(state.n_features_in) != state.pipeline:
            raise SettingsError(
                f"{self._of_pipeline} changed since the model was fitted: "
                f"set them back, or fit again"
            )

    def _rows_to_change(
        self, state: State, X: ArrayLike, names: tuple[str, ...] | None
    ) -> NDArray[Any]:
        """Samples to learn or withdraw, as an array of shape (n, values)."""
        self._check_pipeline(state)
        rows = checked_samples(X, self._given_features(state.pipeline.features), self)
        state.check_changing(type(self).__name__, rows.shape[1], names)
        return rows

    def _rows_to_predict(self, state: State, X: ArrayLike) -> NDArray[Any]:
        """New samples, as an array of shape (n, values)."""
        self._check_pipeline(state)
        rows = checked_samples(X, self._given_features(state.pipeline.features), self)
        state.check_new(type(self).__name__, rows.shape[1], column_names(X))
        return rows
