"""Feature maps one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from redunet.errors import SettingsError

if TYPE_CHECKING:
    from redunet.features import FeatureMap


@dataclass(frozen=True)
class Chain:
    """The second map of what the first one gives.

    Parameters
    ----------
    first, second : feature map
        The second takes vectors as long as those of the first.

    Examples
    --------
    >>> import torch
    >>> from redunet.features import Flatten, Standardize
    >>> images = torch.tensor([[[0, 10]], [[20, 30]]], dtype=torch.uint8)
    >>> pixels = Flatten((1, 2))
    >>> chain = Chain(pixels, Standardize.learn(pixels(images), per="pixel"))
    >>> chain(images).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    kind: ClassVar[str] = "chain"

    first: FeatureMap
    second: FeatureMap

    def __post_init__(self) -> None:
        if self.second.input_shape != (self.first.n_features,):
            raise SettingsError(
                f"expected a second map of vectors of {self.first.n_features} features, "
                f"got one for {self.second.input_shape}"
            )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The first map's."""
        return self.first.input_shape

    @property
    def n_features(self) -> int:
        """The second map's."""
        return self.second.n_features

    @property
    def learnt_from_data(self) -> bool:
        """Whether either map was."""
        return self.first.learnt_from_data or self.second.learnt_from_data

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of raw samples, (n, *input_shape)."""
        return self.second(self.first(X))

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What makes this map again: the states of both."""
        values: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        for name, part in (("first", self.first), ("second", self.second)):
            own, held = part.to_state()
            values[name] = {"kind": part.kind, "values": own}
            tensors |= {f"{name}.{key}": tensor for key, tensor in held.items()}
        return values, tensors
