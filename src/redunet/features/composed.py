"""Feature maps made of others: one after another, side by side, and of mirror images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from redunet.errors import DataError, SettingsError
from redunet.features import exact
from redunet.features.base import FeatureMap, register, state_of_parts
from redunet.features.checks import check_nesting
from redunet.features.standardize import Standardize

_BATCH = 512
"""Images whose features are computed at a time, to learn from them."""


class Composed(ABC):
    """A feature map that is a frozen dataclass of other maps; the first one takes the samples."""

    def __post_init__(self) -> None:
        check_nesting(self)

    @property
    def parts(self) -> tuple[FeatureMap, ...]:
        """The maps that it is made of."""
        return tuple(getattr(self, one.name) for one in fields(self))  # type: ignore[arg-type]

    @classmethod
    def from_parts(cls, parts: Mapping[str, FeatureMap]) -> Self:
        """The map of its parts, by name."""
        return cls(**parts)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """That of the first part."""
        return self.parts[0].input_shape

    @property
    def n_features(self) -> int:
        """That of the last part."""
        return self.parts[-1].n_features

    @property
    def learnt_from_data(self) -> bool:
        """Whether any part was."""
        return any(part.learnt_from_data for part in self.parts)

    @abstractmethod
    def combined(self, X: Tensor, maps: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """Feature vectors of samples, with these functions for the parts."""

    def __call__(self, X: Tensor) -> Tensor:
        """Feature vectors, (n, d), of raw samples, (n, *input_shape)."""
        return self.combined(X, self.parts)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The states of all parts."""
        names = (one.name for one in fields(self))  # type: ignore[arg-type]
        return state_of_parts(dict(zip(names, self.parts, strict=True)))


@register
@dataclass(frozen=True)
class Chain(Composed):
    """The second map of what the first one gives.

    Parameters
    ----------
    first, second : feature map
        The second takes vectors as long as those of the first.

    Examples
    --------
    >>> from redunet.features import Flatten
    >>> images = torch.tensor([[[0, 10]], [[20, 30]]], dtype=torch.uint8)
    >>> Chain.standardized(Flatten((1, 2)), images)(images).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    kind: ClassVar[str] = "chain"

    first: FeatureMap
    second: FeatureMap

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.second.input_shape != (self.first.n_features,):
            raise SettingsError(
                f"expected a second map of vectors of {self.first.n_features} features, "
                f"got one for {self.second.input_shape}"
            )

    @classmethod
    def standardized(cls, first: FeatureMap, images: Any, device: str = "cpu") -> Chain:
        """A map, each feature then shifted and scaled by its mean and deviation over images.

        Parameters
        ----------
        first : feature map
        images : array or Tensor of shape (n, *input_shape)
            Images of the first task, so that nothing leaks from later ones.
        device : str, default="cpu"
            Where the features of the images are computed.
        """
        if len(images) == 0:
            raise DataError("expected images to learn mean and deviation from, got none")
        parts = torch.split(torch.as_tensor(images), _BATCH)
        vectors = [first(part.to(device)).cpu() for part in parts]
        return cls(first, Standardize.learn(torch.cat(vectors), per="pixel"))

    def combined(self, X: Tensor, maps: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """The second of the first."""
        return maps[1](maps[0](X))


@register
@dataclass(frozen=True)
class Concatenate(Composed):
    """The vectors of several maps one after another, each on the unit sphere.

    So all maps count the same, whatever the size of their features.

    Parameters
    ----------
    maps : tuple of feature maps
        Of samples of one shape.

    Examples
    --------
    >>> from redunet.features import Flatten
    >>> both = Concatenate((Flatten((2,)), Flatten((2,))))
    >>> both(torch.tensor([[0.0, 4.0]])).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """

    kind: ClassVar[str] = "together"

    maps: tuple[FeatureMap, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        shapes = {part.input_shape for part in self.parts}
        if len(shapes) != 1:
            raise SettingsError(
                f"expected feature maps of samples of one shape, got "
                f"{', '.join(map(str, sorted(shapes))) or 'none'}"
            )

    @property
    def parts(self) -> tuple[FeatureMap, ...]:
        """The maps side by side."""
        return self.maps

    @classmethod
    def from_parts(cls, parts: Mapping[str, FeatureMap]) -> Self:
        """The map of its parts, in order."""
        return cls(tuple(parts.values()))

    @property
    def n_features(self) -> int:
        """Those of all parts."""
        return sum(part.n_features for part in self.parts)

    def combined(self, X: Tensor, maps: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """The vectors of all maps side by side."""
        return torch.cat([exact.unit_rows(one(X)) for one in maps], dim=1)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The states of all parts, by their numbers."""
        return state_of_parts({str(number): part for number, part in enumerate(self.parts)})


@dataclass(frozen=True)
class OfImages(Composed):
    """A map of images around another one, of images of the same shape."""

    plain: FeatureMap

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.plain.input_shape) not in (2, 3):
            raise SettingsError(
                f"expected a map of images, got one for samples of shape {self.plain.input_shape}"
            )


@register
@dataclass(frozen=True)
class Mirrored(OfImages):
    """The features of an image and of its left-right mirror image, added up.

    Parameters
    ----------
    plain : feature map
        Of images.

    Examples
    --------
    >>> import torch
    >>> from redunet.features import Flatten
    >>> Mirrored(Flatten((1, 3)))(torch.tensor([[[1, 2, 5]]])).tolist()
    [[6.0, 4.0, 6.0]]
    """

    kind: ClassVar[str] = "mirrored"

    def combined(self, X: Tensor, maps: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
        """The sum over both images."""
        return maps[0](X) + maps[0](X.flip(2))
