"""Avalanche: an estimator over class moments as a strategy, without an optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from redunet.errors import SettingsError, not_installed
from redunet.estimators import Estimator, ReduNetClassifier

try:
    from avalanche.training.plugins.evaluation import default_evaluator
    from avalanche.training.templates import SupervisedTemplate
except ImportError as error:
    raise not_installed("Avalanche", "avalanche", error) from error

__all__ = ["ReduNetStrategy"]

_NEVER = 1e-12
"""The probability of a class that was not learnt: its logarithm keeps losses finite."""


class ReduNetStrategy(SupervisedTemplate):
    """A strategy of Avalanche that learns each experience by adding class moments.

    An experience is passed once: nothing is trained, there is no optimizer, and no order of
    experiences makes a difference. Then it is passed once more for Avalanche's metrics of training,
    which are those of the model that has learnt it. Outputs are logarithms of probabilities, one
    for each label from 0 to the largest. Plugins that replay samples would have them count twice,
    and are not for this strategy.

    Parameters
    ----------
    estimator : estimator of redunet, default=ReduNetClassifier()
        Learns in place: `forget` classes of it, `save` it. Its feature map, if any, is given images
        with channels last; without one, samples are flattened.
    encoder : torch.nn.Module, default=None
        A frozen network before it, from a mini-batch to vectors.
    train_mb_size, eval_mb_size : int, default=256
    device : str, default="cpu"
        Of the encoder and the mini-batches; the estimator has its own.
    plugins, evaluator, **kwargs
        As for every strategy of Avalanche, but ``train_epochs`` is 1.
    """

    def __init__(
        self,
        *,
        estimator: Estimator | None = None,
        encoder: nn.Module | None = None,
        train_mb_size: int = 256,
        eval_mb_size: int = 256,
        device: str | torch.device = "cpu",
        plugins: Any = None,
        evaluator: Any = default_evaluator,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("train_epochs", 1) != 1:
            raise SettingsError(
                "expected train_epochs=1, as samples that are learnt again count again"
            )
        super().__init__(
            model=nn.Identity() if encoder is None else encoder,
            optimizer=None,
            criterion=nn.NLLLoss(),
            train_mb_size=train_mb_size,
            eval_mb_size=eval_mb_size,
            device=device,
            plugins=plugins,
            evaluator=evaluator,
            **kwargs,
        )
        self.estimator: Estimator = ReduNetClassifier() if estimator is None else estimator

    def training_epoch(self, **kwargs: Any) -> None:
        """Learn an experience, then measure the model on it."""
        self.estimator.partial_fit_batches(self._learnt())
        for batch in self.dataloader:
            self.mbatch = batch
            self._unpack_minibatch()
            self._before_training_iteration(**kwargs)
            self._before_forward(**kwargs)
            self.mb_output = self.forward()
            self._after_forward(**kwargs)
            self.loss = self.criterion()
            self._after_training_iteration(**kwargs)

    def forward(self) -> Tensor:
        """Logarithms of probabilities: Tensor of shape (n, largest label + 1)."""
        shares = torch.from_numpy(self.estimator.predict_proba(self._samples()))
        classes = torch.from_numpy(self.estimator.classes_)
        width = 1 + max(int(classes.max()), int(self.mb_y.max()))
        out = torch.full((len(shares), width), _NEVER, dtype=torch.float64)
        out[:, classes] = shares.clamp_(min=_NEVER)
        return out.log_().to(self.device)

    def make_optimizer(self, **kwargs: Any) -> None:
        """There is none."""

    def _learnt(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """The mini-batches of an experience."""
        for batch in self.dataloader:
            self.mbatch = batch
            self._unpack_minibatch()
            yield self._samples(), self.mb_y.cpu().numpy()

    @torch.no_grad()
    def _samples(self) -> NDArray[np.float64]:
        """The current mini-batch as the estimator takes it."""
        self.model.eval()
        vectors: Tensor = self.model(self.mb_x).cpu().to(torch.float64)
        if self.estimator.features is None:
            return vectors.flatten(1).numpy()
        return (vectors.movedim(1, -1) if vectors.ndim == 4 else vectors).numpy()
