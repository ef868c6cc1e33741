"""Dark Experience Replay++ (Buzzega et al., 2020): replayed outputs and replayed labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from redunet_lab.baselines.er import ExperienceReplay


@dataclass(kw_only=True, eq=False)
class DarkExperienceReplay(ExperienceReplay):
    """Cross-entropy on the batch, plus two terms on replayed images.

    ``alpha`` times the mean squared difference between the outputs now and
    those when an image was put away, and ``beta`` times the cross-entropy on
    the labels of a second draw.

    Parameters
    ----------
    alpha, beta : float
    n_exemplars, replay_size
        As for experience replay; each of the two draws has so many images.
    """

    kind: ClassVar[str] = "derpp"
    title: ClassVar[str] = "DER++"
    color: ClassVar[str] = "#8250df"
    marker: ClassVar[str] = "^"
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.03, "n_exemplars": 200, "replay_size": 128, "alpha": 0.2, "beta": 1.0},
        "cifar10": {"lr": 0.03, "n_exemplars": 200, "replay_size": 32, "alpha": 0.1, "beta": 0.5},
    }

    kept: ClassVar[tuple[str, ...]] = ("images", "targets", "outputs")

    alpha: float
    beta: float

    def inputs(self, x: Tensor, targets: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        """The batch and its targets; a draw and its outputs; a second draw and its targets."""
        if not len(self.reservoir):
            return x, targets
        images, _, outputs = self.reservoir.draw(self.rng, self.replay_size)
        others, known, _ = self.reservoir.draw(self.rng, self.replay_size)
        return x, targets, self.replayed(images), outputs, self.replayed(others), known

    def loss(self, x: Tensor, targets: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy, and the two terms once there is something to replay."""
        outputs = self.network(x)
        loss = cross_entropy(outputs, targets)
        if more:
            replayed, remembered, others, known = more
            loss = loss + self.alpha * mse_loss(self.network(replayed), remembered)
            loss = loss + self.beta * cross_entropy(self.network(others), known)
        return loss, outputs

    def after_step(self, images: Tensor, targets: Tensor, outputs: Tensor) -> None:
        """Let the batch go by the reservoir, with the outputs it had."""
        self.reservoir.add(self.rng, images, targets, outputs)
