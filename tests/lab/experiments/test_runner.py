"""Records, resuming, and the choice of settings without test data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

from redunet import ReduNetClassifier, SettingsError
from redunet.features import (
    FeatureMap,
)
from redunet.progress import Progress, silent
from redunet_lab.datasets import load
from redunet_lab.experiment import Experiment, Plan
from redunet_lab.record import peak_memory
from redunet_lab.runner import Evaluation, run
from redunet_lab.tune_experiment import tune_experiment
from redunet_lab.tuning import held_out_rows, labels_by_components
from tests.lab.experiments.searches import tune

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
    (record,) = run(make, tasks, [Evaluation(out, settings or PLAN.to_dict())], out, progress)
    return record


def network(plan: Plan = PLAN) -> Callable[[], ReduNetClassifier]:
    return lambda: plan.learner(stream(plan)[1], "cpu", "2GB")


def numbers(record: dict[str, Any]) -> Any:
    """What must not depend on interruptions: everything but times, memory and date."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in record["tasks"]]
    return rows, record["settings"]


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


class StopError(Exception):
    """An interruption."""


def test_a_record_holds_the_whole_story(tmp_path: Path) -> None:
    tasks, _ = stream()
    models: list[ReduNetClassifier] = []
    at_end = {"model": lambda model: models.append(model)}
    evaluation = Evaluation(tmp_path, PLAN.to_dict(), at_end=at_end)
    (record,) = run(network(), tasks, [evaluation], tmp_path)
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


def stopping(words: str) -> Progress:
    def stop(what: str, share: float) -> None:
        if what == words:
            raise StopError

    return stop


@pytest.mark.parametrize("stop_at", [1, 2, 5])
def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path: Path, stop_at: int) -> None:
    tasks, _ = stream()
    whole = over(network(), tasks, tmp_path / "a")
    with pytest.raises(StopError):
        over(network(), tasks, tmp_path / "b", progress=stopping(f"task {stop_at} of 5"))
    learnt: list[str] = []
    resumed = over(network(), tasks, tmp_path / "b", progress=lambda what, _: learnt.append(what))
    assert learnt == [f"task {n} of 5" for n in range(stop_at, 6)]
    assert numbers(resumed) == numbers(whole)
    again = over(lambda: pytest.fail("made a learner"), tasks, tmp_path / "b")
    assert again == resumed


KILLED = """
import os, signal, sys
from pathlib import Path
from redunet_lab import runner
from tests.lab.experiments.searches import tune
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


def test_a_damaged_checkpoint_is_learnt_again(tmp_path: Path) -> None:
    tasks, _ = stream()
    whole = over(network(), tasks, tmp_path / "a")
    with pytest.raises(StopError):
        over(network(), tasks, tmp_path / "b", progress=stopping("task 3 of 5"))
    (tmp_path / "b" / "after-task-2.safetensors").write_bytes(b"cut off")
    learnt: list[str] = []
    again = over(network(), tasks, tmp_path / "b", progress=lambda what, _: learnt.append(what))
    assert learnt[:3] == ["task 1 once more", "task 2 once more", "task 3 of 5"]
    assert numbers(again) == numbers(whole)


class Bayes(GaussianNB):  # type: ignore[misc]
    """Somebody else's learner, with nothing but partial_fit and predict that this asks for."""

    def partial_fit(self, X: Any, y: Any) -> Any:
        return super().partial_fit(X.reshape(len(X), -1) + 1e-3, y, classes=range(10))

    def predict(self, X: Any) -> Any:
        return super().predict(X.reshape(len(X), -1))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_learner_can_be_run_and_resumed(tmp_path: Path) -> None:
    tasks, _ = stream()
    settings = {"learner": "bayes"}

    def bayes() -> Bayes:
        return Bayes(var_smoothing=1e-2)

    whole = over(bayes, tasks, tmp_path / "a", settings)
    with pytest.raises(StopError):
        over(bayes, tasks, tmp_path / "b", settings, stopping("task 4 of 5"))
    assert numbers(over(bayes, tasks, tmp_path / "b", settings)) == numbers(whole)


def test_a_record_of_other_settings_is_not_mixed_in(tmp_path: Path) -> None:
    tasks, _ = stream()
    over(network(), tasks[:1], tmp_path)
    other = PLAN.changed({"eps": 0.25})
    with pytest.raises(SettingsError, match="record of a run with another eps: name another"):
        over(network(other), tasks, tmp_path, other.to_dict())
    (tmp_path / "record.json").write_text("not a record")
    with pytest.raises(SettingsError, match="cannot be read"):
        over(network(), tasks, tmp_path)


def test_a_record_from_before_a_setting_was_there_is_taken_up(tmp_path: Path) -> None:
    tasks, _ = stream()
    whole = over(network(), tasks, tmp_path / "a")
    with pytest.raises(StopError):
        over(network(), tasks, tmp_path / "b", progress=stopping("task 3 of 5"))
    path = tmp_path / "b" / "record.json"
    record = json.loads(path.read_text())
    for key in ("mirrored", "sqrt", "whitening"):
        del record["settings"][key]
    path.write_text(json.dumps(record))
    other = PLAN.changed({"root": True})
    with pytest.raises(SettingsError, match="record of a run with another sqrt: name another"):
        over(network(other), tasks, tmp_path / "b", other.to_dict())
    assert numbers(over(network(), tasks, tmp_path / "b")) == numbers(whole)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_evaluations_of_one_learner_learn_each_task_once(tmp_path: Path) -> None:
    """Each evaluation has its own record, and is resumed by itself."""
    tasks, _ = stream()
    taught: list[int] = []

    class Counted(Bayes):
        def partial_fit(self, X: Any, y: Any) -> Any:
            taught.append(int(min(y)))
            return super().partial_fit(X, y)

    def evaluations(*names: str) -> list[Evaluation]:
        return [Evaluation(tmp_path / name, {"name": name}, name=name) for name in names]

    with pytest.raises(StopError):
        run(Counted, tasks, evaluations("a", "b"), tmp_path, stopping("task 2 of 5, b"))
    assert taught == [0, 2]
    taught.clear()
    first, second = run(Counted, tasks, evaluations("a", "b"), tmp_path)
    assert taught == [0, 2, 4, 6, 8]
    assert [row["readings"] for row in first["tasks"]] == [r["readings"] for r in second["tasks"]]
    (third,) = run(Counted, tasks, evaluations("c"), tmp_path)
    assert numbers(third)[0] == numbers(first)[0]


class Untouchable:
    """Test data that must not be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("test data was touched")

    def __getitem__(self, rows: Any) -> Any:
        raise AssertionError("test data was touched")


def digits_train(n: int = 60) -> tuple[NDArray[Any], NDArray[Any]]:
    data = load("digits")
    rows = np.concatenate([np.flatnonzero(data.y_train == c)[:n] for c in range(10)])
    return data.x_train[rows].reshape(len(rows), -1), data.y_train[rows]


def test_tuning_finds_the_better_settings_and_says_on_what() -> None:
    X, y = digits_train()
    found = tune(
        ReduNetClassifier(n_layers=4),
        X,
        y,
        {"eps": [0.5, 30.0], "sharpness": [1.0]},
        n_components=[1, 10, 64],
        per_class=15,
    )
    assert found["chosen_on"] == "150 training samples, at most 15 of each class"
    assert len(found["candidates"]) == 4  # 64 components are not below 64 features
    best = found["chosen"]["held_out"]
    assert best == found["candidates"][0]
    assert best["n_components"] == 10
    assert found["candidates"][-1]["n_components"] == 1
    paper = found["chosen"]["paper"]
    assert paper["estimated_label_accuracy"] == max(
        c["estimated_label_accuracy"] for c in found["candidates"]
    )


def test_tuning_compares_read_outs() -> None:
    X, y = digits_train()
    grid: dict[str, list[Any]] = {"readout": ["subspace", "discriminant"], "ridge": [0.01, 1e3]}
    found = tune(ReduNetClassifier(n_layers=1), X, y, grid, n_components=[2, 4], per_class=15)[
        "candidates"
    ]
    of = {name: [c for c in found if c["readout"] == name] for name in grid["readout"]}
    assert {name: len(some) for name, some in of.items()} == {"subspace": 4, "discriminant": 2}
    assert of["subspace"][0]["held_out_accuracy"] == of["subspace"][1]["held_out_accuracy"]
    assert [c["ridge"] for c in of["discriminant"]] == [0.01, 1e3]
    model = ReduNetClassifier(n_layers=1, readout="discriminant").fit(X, y)
    assert np.array_equal(labels_by_components(model, X, [2])[2], model.predict(X))


def test_held_out_accuracy_is_that_of_a_model_that_never_saw_them() -> None:
    X, y = digits_train()
    mask = held_out_rows(y, 15, seed=3)
    found = tune(
        ReduNetClassifier(n_layers=4), X, y, {"eps": [0.4]}, n_components=[8], per_class=15, seed=3
    )
    never = ReduNetClassifier(n_layers=4, eps=0.4, n_components=8).fit(X[~mask], y[~mask])
    assert found["candidates"][0]["held_out_accuracy"] == never.score(X[mask], y[mask])
    whole = ReduNetClassifier(n_layers=4, eps=0.4).fit(X, y)
    estimated = whole.classes_[whole.memberships(X[mask])[-1].argmax(axis=1)]
    assert found["candidates"][0]["estimated_label_accuracy"] == np.mean(estimated == y[mask])


def test_labels_by_components_are_those_of_predict() -> None:
    X, y = digits_train()
    model = ReduNetClassifier(n_layers=4).fit(X, y)
    by_components = labels_by_components(model, X, [3, 12])
    for r, labels in by_components.items():
        assert np.array_equal(labels, model.set_params(n_components=r).predict(X))


def test_tuning_never_touches_test_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load("digits")
    blind = SimpleNamespace(
        name="digits",
        x_train=data.x_train,
        y_train=data.y_train,
        x_test=Untouchable(),
        y_test=data.y_test,
    )
    monkeypatch.setattr(Experiment, "load", lambda self, folder: blind)
    changes = {"n_layers": 2, "train_per_class": 30, "features": "standardize"}
    experiment = Experiment.of("digits", changes=changes)
    how: dict[str, Any] = {"n_components": [4], "per_class": 8, "device": "cpu"}
    record = tune_experiment(experiment, tmp_path, "redunet tune", {"eps": [0.5]}, **how)
    assert record == json.loads((tmp_path / "tune.json").read_text())
    assert (record["kind"], record["version"], record["command"]) == ("tune", 2, "redunet tune")
    assert record["settings"]["data"] == "digits"
    assert record["candidates"][0]["held_out_accuracy"] > 0.8
