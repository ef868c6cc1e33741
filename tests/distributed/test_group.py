"""Processes of a group answer together, by gloo, and end together."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier
from redunet.distributed import group
from tests.conftest import classes_on_subspaces

X, Y = load_digits(return_X_y=True)
MANY = classes_on_subspaces(k=60, d=48, per_class=12, rank=3, noise=0.05)
PROGRAM = Path(__file__).with_name("ranks_program.py")


def torchrun(n: int, *words: Any) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n)]
    return [*launcher, *map(str, words)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, one of matrices and one of factors, and samples for them."""
    path = tmp_path_factory.mktemp("ranks")
    model = ReduNetClassifier(n_layers=10, device="cpu").fit(X[:900], Y[:900])
    model.save(path / "digits.safetensors")
    np.save(path / "digits.npy", X[900:1500])
    x, y = MANY
    rows = np.arange(len(x)) % 12 < 6
    model = ReduNetClassifier(n_layers=3, device="cpu", n_components=3, temperature=0.06)
    model.set_params(step=0.3, step_kind="relative", sharpness=30, sharpness_kind="relative")
    model.fit(x[rows], y[rows]).save(path / "many.safetensors")
    np.save(path / "many.npy", x[~rows])
    return path


@pytest.mark.parametrize(("n", "device"), [(2, "cpu"), (2, "cuda")])
def test_answers_are_those_of_one_process(n: int, device: str, folder: Path) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    result = subprocess.run(torchrun(n, PROGRAM, folder, device), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for name in ("digits", "many"):
        model = ReduNetClassifier.load(folder / f"{name}.safetensors")
        model.set_params(device=device, exact=True)
        new = np.load(folder / f"{name}.npy")
        processes = [np.load(folder / f"{name}-{rank}-of-{n}.npz") for rank in range(n)]
        for one in processes:
            assert np.array_equal(one["labels"], model.predict(new))
            np.testing.assert_allclose(one["features"], model.transform(new), atol=1e-10)
            np.testing.assert_allclose(one["scores"], model.decision_function(new), atol=1e-9)
            for what in ("scores", "features", "delta_R"):  # the same to the last bit
                assert np.array_equal(one[what], processes[0][what])


def test_without_torchrun_a_group_is_one_process() -> None:
    with group() as ranks:
        assert (ranks.rank, ranks.size) == (0, 1)


def test_a_group_that_loses_a_process_ends_with_one_error(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, torch\n"
        "from redunet.distributed import group\n"
        "with group() as ranks:\n"
        "    if ranks.rank == 1:\n"
        "        os._exit(9)\n"
        "    ranks.sum_(torch.zeros(1))\n"
    )
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    first, other = (
        subprocess.Popen(
            [sys.executable, str(program)],
            env={**os.environ, **meeting, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    )
    assert "expected 2 processes to work together, but one has ended" in first.communicate()[1]
    other.communicate()
    assert (first.returncode, other.returncode) == (1, 9)


def free_port() -> int:
    """A port below those that systems hand out: no other test is given it meanwhile."""
    for port in random.Random(os.getpid()).sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no free port was found")
