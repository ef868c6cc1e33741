"""Generated data that several tests share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from numpy.typing import NDArray

from redunet.features import patches
from tests.tiny_data import Tiny, shrink

# How long an example takes says nothing about whether it is right.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Filters as random as of 100,000 patches, in a fiftieth of the time; tests/features/test_patches.py
# learns from as many as are drawn outside of tests.
patches.N_PATCHES = 3_000

# In the background a shell lets its jobs ignore Ctrl-C, and so would every process of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = (
    "tests/cli/test_interrupts.py",
    "tests/cli/test_serve.py",
    "tests/distributed/test_dask.py::test_processes",
    "tests/distributed/test_flower",
    "tests/fuzz/",
    "tests/report/test_browser.py",
    "tests/safety/test_without_fcntl.py",
    "tests/serve/test_image_bombs.py",
    "tests/serve/test_page.py",
)
"""Tests that `make test-slow` runs: a browser, Flower, servers, storms of signals, attacks."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


# Nothing that is loaded to collect tests is garbage, and to look for it takes seconds.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


def classes_on_subspaces(
    k: int, d: int, per_class: int, rank: int, noise: float = 0.1, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Samples near random subspaces, one a class, shuffled."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for label in range(k):
        basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
        X.append(rng.standard_normal((per_class, rank)) @ basis.T)
        X[-1] += noise * rng.standard_normal((per_class, d))
        y.append(np.full(per_class, label))
    order = rng.permutation(k * per_class)
    return np.concatenate(X)[order], np.concatenate(y)[order]


@pytest.fixture(scope="session")
def small() -> tuple[NDArray[Any], NDArray[Any]]:
    """Five classes of 24 samples in 12 dimensions."""
    return classes_on_subspaces(k=5, d=12, per_class=24, rank=3)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices gain nothing from threads, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bytes in place of every picture of a record, as drawing takes long."""
    monkeypatch.setattr("redunet.report.figures.png", lambda figure: b"not drawn")
    monkeypatch.setattr("redunet.report.figures.svg", lambda view, name: "<svg></svg>")


@pytest.fixture
def tinies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Tiny]:
    """Stand-ins for the published data sets, small enough to write."""
    return shrink(monkeypatch, tmp_path)
