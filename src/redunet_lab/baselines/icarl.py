"""iCaRL (Rebuffi et al., 2017): exemplars chosen by herding, nearest mean of their features."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot

from redunet_lab.baselines.training import GradientLearner


@dataclass(kw_only=True, eq=False)
class ICaRL(GradientLearner):
    """Binary cross-entropy on the outputs seen, the old network's sigmoids as past targets.

    The exemplars of past classes are trained on with the new images. After a
    task each class has ``n_exemplars`` // (classes seen) exemplars, those whose
    mean feature stays nearest to the class's own; a label is that of the
    nearest mean of exemplars' features. Features have length 1 throughout.

    Parameters
    ----------
    n_exemplars : int, default=200
    """

    kind: ClassVar[str] = "icarl"
    title: ClassVar[str] = "iCaRL"
    color: ClassVar[str] = "#a01c4b"
    marker: ClassVar[str] = "s"
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mnist": {"lr": 0.1, "n_exemplars": 200},
        "cifar10": {"lr": 0.1, "weight_decay": 1e-5, "n_exemplars": 200},
    }

    n_exemplars: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        self.exemplars: dict[int, Tensor] = {}
        self._means: Tensor | None = None

    def begin(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the old network for its outputs, and add the exemplars to the new images."""
        self._seen = torch.tensor(self.seen, device=images.device)
        self._old = copy.deepcopy(self.network).eval() if self.past else None
        self._past = torch.tensor(self.past, device=images.device)
        self._new_rows = len(images)
        if self.exemplars:
            held = [(x, targets.new_full((len(x),), j)) for j, x in self.exemplars.items()]
            images = torch.cat([images, *(x for x, _ in held)])
            targets = torch.cat([targets, *(t for _, t in held)])
        return images, targets

    def loss(self, x: Tensor, targets: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        """Binary cross-entropy, mean over samples and outputs seen."""
        outputs = self.network(x)
        wanted = one_hot(targets, len(self.classes)).to(outputs.dtype)
        if self._old is not None:
            with torch.no_grad():
                old = torch.sigmoid(self._old(x).index_select(1, self._past))
                wanted.index_copy_(1, self._past, old)
        now, wanted = outputs.index_select(1, self._seen), wanted.index_select(1, self._seen)
        return binary_cross_entropy_with_logits(now, wanted), outputs

    def end(self, images: Tensor, targets: Tensor) -> None:
        """Cut the old exemplars down and choose new ones."""
        images, targets = images[: self._new_rows], targets[: self._new_rows]
        each = max(1, self.n_exemplars // len(self.seen))
        self.exemplars = {j: x[:each] for j, x in self.exemplars.items()}
        for j in self.new:
            own = images[targets == j]
            self.exemplars[j] = own[herding(self.features(own), each)]
        self._old = None
        self._means = self.means()

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """Features of length 1: Tensor of shape (n, width)."""
        self.network.eval()
        parts = [self.network.body(self.pictures.plain(part)) for part in torch.split(images, 500)]
        return normalize(torch.cat(parts))

    def means(self) -> Tensor:
        """Mean feature of each class's exemplars, of length 1: (n_outputs, width)."""
        width = self.network.head.in_features
        means = torch.full((len(self.classes), width), torch.inf, device=self._device)
        for j, images in self.exemplars.items():
            means[j] = normalize(self.features(images).mean(dim=0), dim=0)
        return means

    def scores(self, images: Tensor) -> Tensor:
        """Minus the distance to each class's mean."""
        means = self.means() if self._means is None else self._means
        distances: Tensor = torch.cdist(self.features(images), means)
        return -distances

    def state(self) -> dict[str, Tensor]:
        """The exemplars, class by class in the order they were chosen."""
        return {f"exemplars.{j}": images for j, images in self.exemplars.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """The exemplars as they were."""
        held = {int(name.removeprefix("exemplars.")): x for name, x in state.items()}
        self.exemplars = dict(sorted(held.items()))


def herding(features: Tensor, n: int) -> Tensor:
    """Rows whose running mean follows the mean of all as closely as can be, one after another.

    Parameters
    ----------
    features : Tensor of shape (m, width)
    n : int

    Returns
    -------
    Tensor of shape (min(n, m),), int64
        Distinct rows in the order they are chosen.

    Examples
    --------
    >>> herding(torch.tensor([[0.0], [1.0], [2.0], [7.0]]), 3).tolist()
    [2, 1, 3]
    """
    mean, total = features.mean(dim=0), torch.zeros_like(features[0])
    free = torch.ones(len(features), dtype=torch.bool, device=features.device)
    rows = []
    for count in range(1, min(n, len(features)) + 1):
        distance = torch.linalg.vector_norm(mean - (total + features) / count, dim=1)
        row = distance.where(free, torch.inf).argmin()
        rows.append(row)
        free[row] = False
        total = total + features[row]
    return torch.stack(rows)
