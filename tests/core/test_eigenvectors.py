"""Leading eigenvectors by products are those of the full decomposition, up to rounding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from redunet.core import eigenvectors
from redunet.core.eigenvectors import top_eigenvectors

pytestmark = pytest.mark.usefixtures("one_thread")

D, N = 800, 8
DRAW = torch.Generator().manual_seed(1)


def gram(rows: int, decay: float = 0.0, rectified: bool = False) -> Tensor:
    X = torch.randn(rows, D, dtype=torch.float64, generator=DRAW)
    X = (X.relu() if rectified else X) * torch.arange(1, D + 1) ** -decay
    return X.mT @ X


MATRICES = {
    "slow decay": gram(1200, 0.25),
    "fast decay": gram(1200, 2.0),
    "noise around one direction": gram(1200, rectified=True),
    "few samples": gram(60, 0.5),
    "rank above a block": gram(N + 20),
    "rank below what is wanted": gram(5),
    "identity": torch.eye(D, dtype=torch.float64),
    "zero": torch.zeros(D, D, dtype=torch.float64),
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let matrices count as large that are not."""
    monkeypatch.setattr(eigenvectors, "_LARGE", 64)


@pytest.mark.parametrize("name", MATRICES)
def test_products_find_the_leading_ones(name: str, large: None) -> None:
    A = MATRICES[name]
    exact, every = torch.linalg.eigh(A)
    exact, every = exact.flip(0), every.flip(1)
    found = eigenvectors._by_products(A, N)
    assert found is not None
    values, vectors = found
    scale = float(exact[0])
    assert torch.allclose(values, exact[:N], rtol=0, atol=1e-13 * scale)
    assert torch.allclose(vectors.mT @ vectors, torch.eye(N, dtype=torch.float64), atol=1e-12)
    assert float((A @ vectors - vectors * values).norm()) <= 1e-12 * scale
    if exact[N - 1] - exact[N] > 1e-3 * scale:  # otherwise the span itself is a matter of rounding
        inside = every[:, :N].mT @ vectors
        assert float(inside.square().sum()) == pytest.approx(N, abs=1e-12)
    given = top_eigenvectors(A.to(torch.float64), N)
    assert all(torch.equal(one, other) for one, other in zip(given, found, strict=True))


@pytest.mark.parametrize("change", [{"_MOST_BLOCKS": 1}, {"_FEW": 1 / 128}, {"_LARGE": D + 1}])
def test_otherwise_all_are_computed(
    change: dict[str, float], large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in change.items():
        monkeypatch.setattr(eigenvectors, name, value)
    A = MATRICES["slow decay"]
    exact, every = torch.linalg.eigh(A)
    values, vectors = top_eigenvectors(A, N)
    assert torch.equal(values, exact.flip(0)[:N])
    assert torch.equal(vectors, every.flip(1)[:, :N])
