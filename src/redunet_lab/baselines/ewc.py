"""Online Elastic Weight Consolidation (Schwarz et al., 2018): important weights are held back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import log_softmax

from redunet_lab.baselines.anchor import Anchor
from redunet_lab.baselines.backbones import Backbone
from redunet_lab.baselines.training import GradientLearner

_FISHER_BATCH = 32


@dataclass(kw_only=True, eq=False)
class OnlineEWC(GradientLearner):
    """Cross-entropy plus ``penalty`` · Σ F (θ − θ*)².

    θ* are the weights after the last task, and F the diagonal of the Fisher
    information there: the mean over the task's samples of the squared gradient
    of the true label's log-likelihood, added to ``decay`` times the former F.
    (With the sum in place of the mean, the published penalties make plain SGD diverge.)

    Parameters
    ----------
    penalty : float
    decay : float, default=1.0
    """

    kind: ClassVar[str] = "ewc"
    title: ClassVar[str] = "oEWC"
    color: ClassVar[str] = "#D55E00"
    marker: ClassVar[str] = "P"
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.03, "penalty": 90.0, "decay": 1.0},
        "cifar10": {"lr": 0.03, "penalty": 10.0, "decay": 1.0},
    }

    penalty: float
    decay: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.anchor = Anchor(self.network)

    def regularize(self) -> None:
        """Pull the weights back to θ*, the important ones harder."""
        self.anchor.pull(self.network, self.penalty)

    def end(self, images: Tensor, targets: Tensor) -> None:
        """Add the task's Fisher information, and take the weights as the new θ*."""
        self.network.eval()
        new = fisher(self.network, self.pictures.plain(images), targets)
        self.anchor.importance = [
            self.decay * old + information
            for old, information in zip(self.anchor.importance, new, strict=True)
        ]
        self.anchor.drop_here(self.network)

    def state(self) -> dict[str, Tensor]:
        """θ* and F."""
        return self.anchor.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        """θ* and F as they were."""
        self.anchor.restore(state)


def fisher(network: Backbone, x: Tensor, targets: Tensor) -> list[Tensor]:
    """Mean over samples of the squared gradient of log p(target | x), parameter by parameter.

    Parameters
    ----------
    network : Backbone
    x : Tensor of shape (n, channels, height, width)
    targets : Tensor of shape (n,)

    Returns
    -------
    list of Tensor
        Of the shapes of the parameters.
    """
    fixed = {name: buffer.detach() for name, buffer in network.named_buffers()}
    parameters = {name: p.detach() for name, p in network.named_parameters()}

    def log_likelihood(parameters: dict[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
        outputs = functional_call(network, (parameters, fixed), (x[None],))
        return log_softmax(outputs, dim=1)[0].gather(0, target[None]).sum()

    each = vmap(grad(log_likelihood), in_dims=(None, 0, 0))
    total = [torch.zeros_like(p) for p in parameters.values()]
    batches = zip(torch.split(x, _FISHER_BATCH), torch.split(targets, _FISHER_BATCH), strict=True)
    for batch, wanted in batches:
        gradients = each(parameters, batch, wanted)
        for sum_so_far, gradient in zip(total, gradients.values(), strict=True):
            sum_so_far += gradient.square().sum(dim=0)
    return [sum_so_far / len(x) for sum_so_far in total]
