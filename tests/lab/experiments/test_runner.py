"""Records of runs, and resuming them wherever they stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from redunet import ReduNetClassifier, SettingsError
from redunet.features import FeatureMap
from redunet.progress import Progress, silent
from redunet_lab.datasets import load
from redunet_lab.experiment import Plan
from redunet_lab.record import peak_memory
from redunet_lab.runner import Entry, run

PLAN = Plan(
    data="digits", n_layers=6, train_per_class=40, test_per_class=20, features="standardize"
)


def stream(plan: Plan = PLAN) -> tuple[Any, FeatureMap]:
    tasks = plan.stream(load("digits"))
    return tasks, plan.feature_map(tasks)


def over(
    make: Callable[[], Any],
    tasks: Any,
    out: Path,
    settings: dict[str, Any] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """The record of a learner run over tasks."""
    (record,) = run(make, tasks, [Entry(out, settings or PLAN.to_dict())], out, progress=progress)
    return record


def network(plan: Plan = PLAN) -> Callable[[], Any]:
    return lambda: plan.learner(stream(plan)[1], "cpu", "2GB")


def numbers(record: dict[str, Any]) -> Any:
    """All that must not depend on interruptions: not times, memory and date."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in record["tasks"]]
    return rows, record["settings"]


class StopError(Exception):
    """An interruption."""


def stopping(words: str) -> Progress:
    def stop(what: str, share: float) -> None:
        if what == words:
            raise StopError

    return stop


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_the_peak_of_memory_is_that_of_the_process_itself() -> None:
    large = np.ones(2**28, dtype=np.uint8)  # the parent's, which no child must be charged with
    assert peak_memory() > large.nbytes
    program = (
        "from redunet_lab.record import peak_memory; "
        "print(peak_memory()); x = bytearray(2**27); print(peak_memory())"
    )
    few, many = map(int, subprocess.check_output([sys.executable, "-c", program]).split())
    assert many - few == pytest.approx(2**27, rel=0.1)


def test_a_record_holds_the_whole_story(tmp_path: Path) -> None:
    tasks, _ = stream()
    models: list[ReduNetClassifier] = []
    at_end = {"model": lambda model: models.append(model)}
    (record,) = run(network(), tasks, [Entry(tmp_path, PLAN.to_dict(), at_end=at_end)], tmp_path)
    (model,) = models
    assert record == json.loads((tmp_path / "record.json").read_text())
    assert record["settings"]["n_layers"] == 6
    assert set(record["versions"]) == {"redunet", "python", "torch", "numpy", "scikit-learn"}
    assert record["machine"]["cores"] >= 1
    assert record["peak_memory_bytes"] > 1e7
    last = record["tasks"][-1]["readings"]["predict"]
    x_test = np.concatenate([task.x_test for task in tasks])
    y_test = np.concatenate([task.y_test for task in tasks])
    assert last["accuracy"] == model.score(x_test, y_test)
    assert last["accuracy_by_task"][2] == model.score(tasks[2].x_test, tasks[2].y_test)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["after-task-5.safetensors", "record.json"]


def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path: Path) -> None:
    tasks, _ = stream()
    whole = over(network(), tasks, tmp_path / "a")
    with pytest.raises(StopError):
        over(network(), tasks, tmp_path / "b", progress=stopping("task 4 of 5"))
    (tmp_path / "c").mkdir()
    for name in ("record.json", "after-task-3.safetensors"):
        (tmp_path / "c" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    learnt: list[str] = []
    resumed = over(network(), tasks, tmp_path / "b", progress=lambda what, _: learnt.append(what))
    assert learnt == ["task 4 of 5", "task 5 of 5"]
    assert numbers(resumed) == numbers(whole)
    assert over(lambda: pytest.fail("made a learner"), tasks, tmp_path / "b") == resumed
    learnt.clear()
    (tmp_path / "c" / "after-task-3.safetensors").write_bytes(b"cut off")
    again = over(network(), tasks, tmp_path / "c", progress=lambda what, _: learnt.append(what))
    assert learnt == [*(f"task {n} once more" for n in (1, 2, 3)), "task 4 of 5", "task 5 of 5"]
    assert numbers(again) == numbers(whole)


KILLED = """
import os, signal, sys
from pathlib import Path
from redunet_lab import runner
from tests.lab.experiments.test_runner import network, over, stream
write = runner.write_record
for when in ("before", "after"):
    def dying(path, record):
        if len(record["tasks"]) == 3 and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, record)
        if len(record["tasks"]) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    child = os.fork()
    if not child:
        runner.write_record = dying
        over(network(), stream()[0], Path(sys.argv[1], when))
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def test_a_killed_run_goes_on_from_the_last_finished_task(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    paths = filter(None, (root, os.environ.get("PYTHONPATH")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [str(int(signal.SIGKILL))] * 2, done.stderr
    tasks, _ = stream()
    whole = numbers(over(network(), tasks, tmp_path / "whole"))
    for when, first in (("before", "task 3 of 5"), ("after", "task 4 of 5")):
        learnt: list[str] = []

        def tell(what: str, share: float, learnt: list[str] = learnt) -> None:
            learnt.append(what)

        resumed = over(network(), tasks, tmp_path / when, progress=tell)
        assert learnt[0] == first
        assert numbers(resumed) == whole


class Bayes(GaussianNB):  # type: ignore[misc]
    """Somebody else's learner, with nothing but partial_fit and predict that this asks for."""

    def partial_fit(self, X: Any, y: Any) -> Any:
        return super().partial_fit(X.reshape(len(X), -1) + 1e-3, y, classes=range(10))

    def predict(self, X: Any) -> Any:
        return super().predict(X.reshape(len(X), -1))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_entries_of_one_learner_learn_each_task_once(tmp_path: Path) -> None:
    """Each entry has its own record, and is resumed by itself, whatever the learner is."""
    tasks, _ = stream()
    taught: list[int] = []

    class Counted(Bayes):
        def partial_fit(self, X: Any, y: Any) -> Any:
            taught.append(int(min(y)))
            return super().partial_fit(X, y)

    def entries(*names: str) -> list[Entry]:
        return [Entry(tmp_path / name, {"name": name}, name) for name in names]

    with pytest.raises(StopError):
        run(Counted, tasks, entries("a", "b"), tmp_path, progress=stopping("task 2 of 5, b"))
    assert taught == [0, 2]
    taught.clear()
    first, second = run(Counted, tasks, entries("a", "b"), tmp_path)
    assert taught == [0, 2, 4, 6, 8]
    assert [row["readings"] for row in first["tasks"]] == [r["readings"] for r in second["tasks"]]
    (third,) = run(Counted, tasks, entries("c"), tmp_path)
    assert numbers(third)[0] == numbers(first)[0]


def test_a_record_of_other_settings_is_not_mixed_in(tmp_path: Path) -> None:
    tasks, _ = stream()
    over(network(), tasks[:1], tmp_path)
    other = PLAN.changed({"eps": 0.25})
    with pytest.raises(SettingsError, match="record of a run with another eps: name another"):
        over(network(other), tasks, tmp_path, other.to_dict())
    (tmp_path / "record.json").write_text("not a record")
    with pytest.raises(SettingsError, match="cannot be read"):
        over(network(), tasks, tmp_path)
