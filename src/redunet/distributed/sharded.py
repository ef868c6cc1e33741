"""A network whose classes are spread over processes, for layers that do not fit one of them.

Classes know of each other by three sums only, so each process builds and applies the operators of
its own classes: the sum of all second moments, which gives E; the normaliser of the memberships;
and the sum of the pulls that move a sample. The second moment of a class with few samples is kept
as a factor B, (r, d) with Bᵀ B = Σ_j, see `redunet.core.low_rank`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import normalize

from redunet.core.covariance import covariance_of_sum, overall_mean, with_ridge
from redunet.core.discriminants import LinearScores, normal_scores, regression_scores
from redunet.core.layer import sharpness_of
from redunet.core.linalg import add_identity, spd_inverse
from redunet.core.rate import Coding
from redunet.core.readouts import NearestSubspace
from redunet.core.subspaces import rounding
from redunet.core.whitening import Whitening
from redunet.distributed.group import Ranks
from redunet.errors import SettingsError
from redunet.estimators import ReduNetClassifier

FACTORED_UP_TO = 0.4
"""Classes of a rank up to this share of d are kept as factors, as in one process."""

BATCH_BYTES = 2**25
"""Memory for the products of a batch of samples with all classes of a process."""


@dataclass(frozen=True, eq=False)
class _Moments:
    """Second moment and mean of a class before a layer."""

    root: Tensor  # (d, d), Σ_j, or a factor B of it, (r, d)
    mean: Tensor  # (1, d)
    count: int

    @property
    def is_factor(self) -> bool:
        return len(self.root) < self.root.shape[1]

    @property
    def Sigma(self) -> Tensor:
        return self.root.mT @ self.root if self.is_factor else self.root

    def compression(self, alpha: float) -> _Compression:
        """C_j = (Σ_j + I/α_j)⁻¹; of a factor, the inverse of B Bᵀ + I/α_j."""
        A = self.root @ self.root.mT if self.is_factor else self.root.clone()
        inverse, log_det = spd_inverse(add_identity(A, 1 / alpha))
        volume = float(log_det) + len(A) * math.log(alpha)
        return _Compression(inverse, self.root if self.is_factor else None, alpha, volume)

    def moved(self, E: Tensor, C: _Compression, step: float, gamma: float) -> _Moments:
        """The class after a layer, with its second moment scaled to trace n_j."""

        def L(rows: Tensor) -> Tensor:
            return rows + step * (rows @ E - gamma * C.times(rows))

        root = L(self.root) if self.is_factor else L(L(self.root).mT)
        trace = root.square().sum() if self.is_factor else root.diagonal().sum()
        scale = self.count / trace
        return replace(
            self,
            root=root * scale.sqrt() if self.is_factor else (root + root.mT) * (scale / 2),
            mean=L(self.mean) * scale.sqrt(),
        )

    def directions(self, n: int) -> Tensor:
        """At most n leading eigenvectors of Σ_j, (d, n), beyond what rounding can make."""
        if self.is_factor:
            _, values, vectors = torch.linalg.svd(self.root.double(), full_matrices=False)
            values, vectors = values.square(), vectors.mT
        else:
            values, vectors = torch.linalg.eigh(self.root.double())
            values, vectors = values.flip(0), vectors.flip(1)
        least = self.root.shape[1] * rounding(self.root.dtype) * values[0]
        found: Tensor = vectors[:, : min(n, int((values > least).sum()))].to(self.root)
        return found


@dataclass(frozen=True, eq=False)
class _Compression:
    """C_j as a matrix, or as α_j (I − Bᵀ M B) by the inverse M."""

    inverse: Tensor
    B: Tensor | None
    alpha: float
    volume: float  # log det(I + α_j Σ_j)

    def times(self, Z: Tensor) -> Tensor:
        """C_j z of each row of Z, (n, d)."""
        if self.B is None:
            return Z @ self.inverse
        return self.alpha * (Z - Z @ self.B.mT @ self.inverse @ self.B)


class _Layer(NamedTuple):
    """E, the compression of this process's classes, and the step η."""

    E: Tensor
    compressions: list[_Compression]
    step: float

    @property
    def n_bytes(self) -> int:
        of_classes = (
            C.inverse.nbytes + (0 if C.B is None else C.B.nbytes) for C in self.compressions
        )
        return self.E.nbytes + sum(of_classes)


class ShardedClassifier:
    """The answers of a `ReduNetClassifier`, computed by several processes with some classes each.

    Each process needs the samples, and gets all answers. Layers are kept where those of each
    process fit its ``memory``, and built again for every call otherwise. Labels and scores are
    those of one process up to the rounding of sums in another order.

    Parameters
    ----------
    model : ReduNetClassifier
        The same in all processes; read it within `redunet.offload` where its moments do not fit
        into memory. Its read-out is "subspace", "discriminant" or "regression".
    ranks : Ranks
        As `group` gives them.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from redunet import ReduNetClassifier
    >>> from redunet.distributed import ShardedClassifier, group
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ReduNetClassifier(n_layers=5, n_components=12).fit(X[:1500], y[:1500])
    >>> with group() as ranks:  # one process, as it was not started by torchrun
    ...     labels = ShardedClassifier(model, ranks).predict(X[1500:])
    >>> bool((labels == model.predict(X[1500:])).all())
    True
    """

    def __init__(self, model: ReduNetClassifier, ranks: Ranks) -> None:
        self._use, self._ranks = model._predictor(), ranks
        self._settings, state = self._use.settings, self._use.state
        self._moments = state.total
        labels, counts = self._moments.labels, self._moments.counts
        if ranks.size > len(labels):
            raise SettingsError(
                f"expected at most as many processes as classes, {len(labels):,}, got "
                f"{ranks.size:,}: start fewer processes"
            )
        if self._settings.readout not in ("subspace", "discriminant", "regression"):
            raise SettingsError(
                f"expected the read-out subspace, discriminant or regression in a group of "
                f"processes, got {self._settings.readout!r}: choose one with set_params(readout=)"
            )
        d = self._moments.n_features
        # Work grows with the rank, so that the classes of most samples are dealt first.
        order = sorted(range(len(labels)), key=lambda j: -min(counts[j], d))
        self.classes_: NDArray[Any] = np.asarray(labels)
        self._places = sorted(order[ranks.rank :: ranks.size])
        self._coding = Coding(counts, d, self._settings.eps)
        self._whitening = None
        if self._settings.whitening is not None:
            self._whitening = Whitening.from_moments(
                self._moments, self._settings.whitening, self._use.device
            )
        # All processes move batches of the same size.
        wide = -(-len(labels) // ranks.size) * d * self._settings.torch_dtype.itemsize
        self._batch = max(1, BATCH_BYTES // wide)
        self._kept: list[_Layer] | None = None
        self._last: list[_Moments] | None = None
        self._readout: LinearScores | NearestSubspace | None = None
        self.rates_: list[float] = []

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample: ndarray of shape (n,)."""
        labels: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return labels

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The score of each class by the read-out, highest wins: ndarray of shape (n, k)."""
        scores: NDArray[np.float64] = torch.cat([self._scores(Z) for Z in self._moved(X)]).numpy()
        return scores

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The network's features, on the unit sphere: ndarray of shape (n, d)."""
        features: NDArray[Any] = torch.cat([Z.cpu() for Z in self._moved(X)]).numpy()
        return features

    def _moved(self, X: ArrayLike) -> Iterator[Tensor]:
        """Features of samples after the last layer, as many rows at a time as memory allows."""
        for rows in self._use.passes(X):
            Z = self._use.vectors(rows)
            Z = Z if self._whitening is None else self._whitening.samples(Z)
            for layer in self._layers():
                for part in torch.split(Z, self._batch):
                    part.copy_(self._move(part, layer))
            yield Z

    def _move(self, Z: Tensor, layer: _Layer) -> Tensor:
        """A batch of samples after a layer."""
        of_classes = sharpness_of(self._settings.confidence).of_classes(self._coding)
        alphas = Z.new_tensor([self._coding.alphas[j] for j in self._places])
        gamma = Z.new_tensor([self._coding.gamma[j] for j in self._places])
        sharpness = Z.new_tensor([of_classes[j] for j in self._places])
        compressed = torch.stack([C.times(Z) for C in layer.compressions], dim=1)
        logits = torch.linalg.vector_norm(compressed, dim=2) / alphas * -sharpness
        highest = self._ranks.max_(logits.amax(dim=1))
        memberships = (logits - highest[:, None]).exp_()
        memberships /= self._ranks.sum_(memberships.sum(dim=1))[:, None]
        pulled = self._ranks.sum_(torch.bmm((memberships * gamma)[:, None], compressed)[:, 0])
        return normalize(Z + layer.step * (Z @ layer.E - pulled), dim=1)

    def _layers(self) -> Iterator[_Layer]:
        """The layers, kept or built one after another from the moments."""
        if self._kept is not None:
            yield from self._kept
            return
        own, layers, rates = self._first(), list[_Layer](), list[float]()
        coding, schedule = self._coding, self._settings.schedule
        keep = True
        for index in range(schedule.n_layers):
            layer, rate = self._layer(own, schedule.at(index, coding.alpha))
            if schedule.tol is not None and rates and rate - rates[-1] < schedule.tol:
                break
            rates.append(rate)
            if index == 0:  # all processes keep their layers, or none does
                largest = int(self._ranks.max_(torch.tensor([layer.n_bytes])))
                keep = schedule.n_layers * largest <= self._use.memory
            if keep:
                layers.append(layer)
            yield layer
            pairs = zip(self._places, own, layer.compressions, strict=True)
            own = [one.moved(layer.E, C, layer.step, coding.gamma[j]) for j, one, C in pairs]
        self._last, self.rates_ = own, rates
        self._kept = layers if keep else None

    def _first(self) -> list[_Moments]:
        """The moments of this process's classes before the first layer."""
        moments, dtype, device = self._moments, self._settings.torch_dtype, self._use.device
        own = []
        for j in self._places:
            label, n = moments.labels[j], moments.counts[j]
            if self._whitening is not None:
                Sigma, mean = self._whitening.moments(moments.select([label]), dtype)
                own.append(_Moments(Sigma[0], mean, n))
                continue
            F = moments.factor_of(label, int(FACTORED_UP_TO * moments.n_features), device)
            root = moments.Sigma_of(label, device) if F is None else F.mT
            mean = moments[label].mean().to(device, dtype)
            own.append(_Moments(root.to(dtype), mean[None], n))
        return own

    def _layer(self, own: Sequence[_Moments], step: float) -> tuple[_Layer, float]:
        """The layer that raises the rate reduction of the moments, and ΔR before it."""
        coding = self._coding
        total = self._ranks.sum_(sum((one.Sigma for one in own), torch.zeros(())))
        E, log_det = spd_inverse(add_identity(total, 1 / coding.alpha))
        R = float(log_det) + coding.d * math.log(coding.alpha)
        pairs = list(zip(self._places, own, strict=True))
        compressions = [one.compression(coding.alphas[j]) for j, one in pairs]
        volumes = zip(self._places, compressions, strict=True)
        R_c = sum(coding.gamma[j] * C.volume for j, C in volumes)
        # R of one process: other processors may have other last bits.
        first = R if self._ranks.rank == 0 else 0.0
        delta = self._ranks.sum_(torch.tensor([first - R_c], dtype=torch.float64))
        return _Layer(E, compressions, step), 0.5 * float(delta)

    def _scores(self, Z: Tensor) -> Tensor:
        """Scores of all classes, (n, k), float64, from features after the last layer."""
        if self._readout is None:
            self._readout = self._read_out()
        found = self._readout.scores(Z)
        if isinstance(self._readout, LinearScores):
            return found.cpu()
        scores = Z.new_zeros(len(Z), len(self.classes_), dtype=torch.float64)
        scores[:, self._places] = found
        return self._ranks.sum_(scores).cpu()

    def _read_out(self) -> LinearScores | NearestSubspace:
        """The read-out of all classes; "subspace" that of this process's classes."""
        own, counts, d = self._last or [], self._coding.counts, self._coding.d
        if self._settings.readout == "subspace":
            n = self._settings.components(d)
            U = own[0].root.new_zeros(len(own), d, n)
            for row, one in zip(U, own, strict=True):
                directions = one.directions(n)
                row[:, : directions.shape[1]] = directions
            return NearestSubspace(U)
        means = own[0].mean.new_zeros(len(counts), d, dtype=torch.float64)
        means[self._places] = torch.cat([one.mean for one in own]).double()
        self._ranks.sum_(means)
        total = self._ranks.sum_(sum((one.Sigma.double() for one in own), torch.zeros(())))
        least, ridge = rounding(own[0].root.dtype), self._settings.ridge
        if self._settings.readout == "discriminant":
            W = with_ridge(covariance_of_sum(total, means, counts), ridge, least)
            return LinearScores(*normal_scores(W, means, counts, "raise ridge"))
        centres = overall_mean(means, counts).expand_as(means)
        T = with_ridge(covariance_of_sum(total, centres, counts), ridge, least)
        return LinearScores(*regression_scores(T, means, counts, "raise ridge"))
