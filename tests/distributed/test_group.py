"""Building and answering on real processes, most started by torchrun, that talk by gloo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier
from redunet.distributed import group
from redunet.estimators import load
from redunet.estimators.settings import Settings
from tests.conftest import classes_on_subspaces
from tests.own_data import done, refused

psutil = pytest.importorskip("psutil")

X, Y = load_digits(return_X_y=True)
MANY = classes_on_subspaces(k=60, d=48, per_class=12, rank=3, noise=0.05)
SECONDS = 60
"""Within which a group ends, whatever happened to one of its processes."""


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


@pytest.fixture(scope="module", params=[(2, "cpu"), (4, "cpu"), (2, "cuda")], ids=str)
def answers(request: pytest.FixtureRequest, folder: Path) -> tuple[int, str, dict[str, Any]]:
    """What each of several ranks answers; on a GPU they share it, unless there are several."""
    program = Path(__file__).with_name("ranks_program.py")
    n, device = request.param
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    words = torchrun(n, program, folder, device)
    if n == 4:  # not by torchrun: by processes that set what PyTorch reads, as documented
        words = [sys.executable, str(program), str(folder), device, str(n)]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    names = [f"{name}-{rank}-of-{n}" for name in ("digits", "many") for rank in range(n)]
    return n, device, {name: np.load(folder / f"{name}.npz") for name in names}


@pytest.mark.parametrize("name", ["digits", "many"])
def test_answers_are_those_of_one_process(
    name: str, answers: tuple[int, str, dict[str, Any]], folder: Path
) -> None:
    n, device, found = answers
    model = load(folder / f"{name}.safetensors", device).set_params(exact=True)
    assert isinstance(model, ReduNetClassifier)
    samples = np.load(folder / f"{name}.npy")
    labels = load(folder / f"{name}.safetensors", device).predict(samples)
    k = len(model.classes_)
    for rank in range(n):
        one = found[f"{name}-{rank}-of-{n}"]
        assert np.array_equal(one["labels"], labels)
        np.testing.assert_allclose(one["probabilities"], model.predict_proba(samples), atol=1e-9)
        np.testing.assert_allclose(one["features"], model.transform(samples), atol=1e-10)
        np.testing.assert_allclose(one["novelty"], model.novelty(samples), rtol=1e-5)
        rates = [rate.delta_R for rate in model.network_.rates()]
        np.testing.assert_allclose(one["delta_R"], rates, rtol=1e-10)
        # The same in every process, to the last bit.
        for what in ("probabilities", "features", "delta_R", "messages", "bytes"):
            assert np.array_equal(one[what], found[f"{name}-0-of-{n}"][what])
        assert one["own"] in (k // n, k // n + 1)


def test_messages_are_as_many_and_as_long_as_documented(
    answers: tuple[int, str, dict[str, Any]],
) -> None:
    size, _, found = answers
    n, d, layers, k = 600, 64, Settings.of(ReduNetClassifier(n_layers=10)).n_layers, 10
    one = found[f"digits-0-of-{size}"]
    build = layers * (8 * d * d + 16)
    # predict, predict_proba and transform; the temperature sends 1,024 drawn samples through.
    samples = 3 * n + 1030
    answer = layers * samples * 8 * (d + 2) + samples * 8 * k
    assert build + answer <= one["bytes"] <= 1.05 * (build + answer)


def test_without_torchrun_a_group_is_one_process() -> None:
    with group() as ranks:
        assert (ranks.rank, ranks.size) == (0, 1)


def test_the_command_answers_as_one_process_does(folder: Path) -> None:
    data = folder / "many.npy"
    model = folder / "many.safetensors"
    done("predict", model, data, "-o", folder / "one.csv", "--scores", "--reject", "0.1", "--exact")
    words = ("-m", "redunet", "predict", model, data, "--scores", "--reject", "0.1")
    result = subprocess.run(
        torchrun(2, *words, "-o", folder / "two.csv", "--json"), capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    one, two = ((folder / f"{n}.csv").read_text().splitlines() for n in ("one", "two"))
    assert one[0] == two[0]
    rows = [[line.split(",") for line in lines[1:]] for lines in (one, two)]
    assert [row[:2] for row in rows[0]] == [row[:2] for row in rows[1]]
    mine, theirs = (np.array([[float(x) for x in row[5:]] for row in some]) for some in rows)
    assert mine.shape == (360, 60)
    np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("how", ["kill -9 of the first", "kill -9 of the last", "Ctrl-C"])
def test_a_group_that_loses_a_process_ends_with_one_line(
    how: str, folder: Path, tmp_path: Path
) -> None:
    model = folder / "digits.safetensors"
    before = model.read_bytes()
    np.save(tmp_path / "X.npy", np.tile(X, (120, 1)))
    out = tmp_path / "out.csv"
    words = torchrun(2, "-m", "redunet", "predict", model, tmp_path / "X.npy", "-o", out)
    started = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not any(one.suffix == ".tmp" for one in tmp_path.iterdir()):  # writing has begun
        assert started.poll() is None
        time.sleep(0.05)
    workers = psutil.Process(started.pid).children(recursive=True)
    ranks = sorted(workers, key=lambda one: one.environ().get("RANK", "9"))[:2]
    end = time.monotonic() + SECONDS
    if how == "Ctrl-C":
        os.killpg(started.pid, signal.SIGINT)
    else:
        ranks[0 if "first" in how else -1].kill()
    printed, errors = started.communicate(timeout=SECONDS)
    assert time.monotonic() < end
    assert started.returncode != 0
    assert printed == ""
    lines = [line for line in errors.splitlines() if line.startswith("redunet: ")]
    lines = [line for line in lines if " done after " not in line]  # progress, on a slow machine
    assert len(lines) == 1
    assert "stopped" in lines[0] or "has ended" in lines[0]
    assert "nothing was changed" in lines[0] or "is as it was" in lines[0]
    assert model.read_bytes() == before
    assert not out.exists()
    psutil.wait_procs(workers, timeout=10)
    assert not any(one.is_running() for one in workers)


def test_commands_that_change_a_model_are_for_one_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "2", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    for command in ("learn", "unlearn", "forget", "merge", "calibrate", "demo"):
        assert refused(command, folder / "digits.safetensors", "x", "-q").startswith(
            f"expected predict, evaluate or inspect under torchrun, got {command}: "
        )
