"""The oracle: the paper, transcribed sample by sample in NumPy.

It shares no code with the package. Samples are columns, as in the paper; the
network is made by pushing every training sample through every layer, and a
test sample is moved on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ReferenceLayer:
    E: Array
    C: list[Array]
    gamma: list[float]
    step: float


@dataclass(frozen=True)
class ReferenceNetwork:
    labels: list[Any]
    layers: list[ReferenceLayer]
    Z: list[Array]
    """Features of each class after the last layer, (d, n_j)."""


def gridded(X: NDArray[Any]) -> Array:
    """Rows on the unit sphere, rounded to the grid; zero rows stay zero."""
    X = np.asarray(X, dtype=np.float64)
    norms = np.sqrt((X**2).sum(axis=1, keepdims=True))
    return np.asarray(np.round(X / np.where(norms > 0, norms, 1) * 2**20) / 2**20)


def train(
    X: Array, y: NDArray[Any], n_layers: int, eps: float, step: float, decay: float
) -> ReferenceNetwork:
    """Equations of "Rate Reduction Network", with every training sample in hand."""
    labels = sorted(set(y.tolist()))
    d, m = X.shape[1], len(X)
    Z = [X[y == label].T for label in labels]
    Z = [z * np.sqrt(z.shape[1] / (z**2).sum()) for z in Z]
    layers = []
    for index in range(n_layers):
        eta = step * decay**index
        alpha = d / (m * eps**2)
        everything = np.concatenate(Z, axis=1)
        E = alpha * np.linalg.inv(np.eye(d) + alpha * everything @ everything.T)
        C, gamma = [], []
        for z in Z:
            alpha_j = d / (z.shape[1] * eps**2)
            C.append(alpha_j * np.linalg.inv(np.eye(d) + alpha_j * z @ z.T))
            gamma.append(z.shape[1] / m)
        moved = []
        for z, C_j, gamma_j in zip(Z, C, gamma, strict=True):
            z_next = z + eta * (E @ z - gamma_j * C_j @ z)
            moved.append(z_next * np.sqrt(z.shape[1] / (z_next**2).sum()))
        layers.append(ReferenceLayer(E, C, gamma, eta))
        Z = moved
    return ReferenceNetwork(labels, layers, Z)


def memberships(layer: ReferenceLayer, z: Array, sharpness: float) -> Array:
    """Estimated membership of one sample."""
    k = len(layer.C)
    weights = np.array([np.exp(-sharpness * k * np.linalg.norm(C_j @ z)) for C_j in layer.C])
    return np.asarray(weights / weights.sum())


def transform(network: ReferenceNetwork, x: Array, sharpness: float) -> Array:
    """Features of one test sample."""
    z = x / np.linalg.norm(x)
    for layer in network.layers:
        pi = memberships(layer, z, sharpness)
        pull = sum(g * C_j @ z * p for g, C_j, p in zip(layer.gamma, layer.C, pi, strict=True))
        z = z + layer.step * (layer.E @ z - pull)
        z = z / np.linalg.norm(z)
    return z


def residuals(network: ReferenceNetwork, z: Array, n_components: int) -> Array:
    """Squared distance of one feature vector from each class's principal subspace."""
    out = []
    for Z_j in network.Z:
        U = np.linalg.svd(Z_j, full_matrices=True)[0][:, :n_components]
        out.append(((z - U @ (U.T @ z)) ** 2).sum())
    return np.array(out)
