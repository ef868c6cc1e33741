"""Learning without Forgetting (Li and Hoiem, 2016): the old outputs on the new images are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, softmax

from redunet_lab.baselines.pictures import send
from redunet_lab.baselines.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class LearningWithoutForgetting(GradientLearner):
    """Cross-entropy on the classes seen, plus distillation of the past outputs.

    Before a task the new outputs are warmed up with everything else frozen;
    then the past outputs on the task's images are recorded, and training
    keeps to them.

    Parameters
    ----------
    alpha : float
        Weight of the distillation.
    temperature : float, default=2.0
    """

    kind: ClassVar[str] = "lwf"
    title: ClassVar[str] = "LwF"
    color: ClassVar[str] = "#E69F00"
    marker: ClassVar[str] = "v"
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.03, "alpha": 1.0, "temperature": 2.0, "weight_decay": 5e-4},
        "cifar10": {"lr": 0.01, "alpha": 3.0, "temperature": 2.0, "weight_decay": 5e-4},
    }

    alpha: float
    temperature: float = 2.0

    def begin(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Warm the new outputs up, then record the past ones."""
        self._seen = torch.tensor(self.seen, device=images.device)
        self._past = torch.tensor(self.past, device=images.device)
        self._recorded: Tensor | None = None
        if self.past:
            self._warm_up(images, targets)
            parts = [self.scores(part)[:, self._past] for part in torch.split(images, 500)]
            self._recorded = torch.cat(parts)
        return images, targets

    def inputs(self, x: Tensor, targets: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        """A batch, its targets among the classes seen, and its recorded outputs."""
        among = torch.searchsorted(self._seen, targets)
        if self._recorded is None:
            return x, among
        return x, among, self._recorded[rows]

    def loss(self, x: Tensor, targets: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy on the classes seen, and distillation from the second task on."""
        outputs = self.network(x)
        loss = cross_entropy(outputs.index_select(1, self._seen), targets)
        for recorded in more:
            now = outputs.index_select(1, self._past)
            loss = loss + self.alpha * distillation(recorded, now, self.temperature)
        return loss, outputs

    def _warm_up(self, images: Tensor, targets: Tensor) -> None:
        """Train the outputs of the new classes alone, with the features as they are."""
        self.network.eval()
        with torch.no_grad():
            parts = [
                self.network.body(self.pictures.plain(part)) for part in torch.split(images, 500)
            ]
            features = torch.cat(parts)
        head = self.network.head
        new = torch.tensor(self.new, device=images.device)
        among = torch.searchsorted(new, targets)
        weight = head.weight[new].detach().requires_grad_()
        bias = head.bias[new].detach().requires_grad_()
        optimizer = torch.optim.SGD((weight, bias), lr=self.lr)
        for _ in range(self.epochs):
            order = send(self.rng.permutation(len(images)), images.device)
            for rows in torch.split(order, self.batch_size):
                optimizer.zero_grad()
                loss = cross_entropy(features[rows] @ weight.mT + bias, among[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        with torch.no_grad():
            head.weight[new], head.bias[new] = weight, bias


def distillation(old: Tensor, new: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of new outputs against old ones, both softened; mean over samples.

    Parameters
    ----------
    old, new : Tensor of shape (n, classes)
    temperature : float

    Examples
    --------
    >>> old = torch.tensor([[0.0, 0.0]])
    >>> round(float(distillation(old, torch.tensor([[2.0, 0.0]]), temperature=2.0)), 4)
    0.8133
    """
    wanted = softmax(old / temperature, dim=1)
    return -(wanted * log_softmax(new / temperature, dim=1)).sum(dim=1).mean()
