"""Comparisons: who runs, what is counted, what is taken up, what is missing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
from typer.testing import CliRunner

from redunet.cli.app import main
from redunet.errors import SettingsError
from redunet_lab import baselines, datasets, paper
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.compare import compare
from redunet_lab.datasets import Samples, digits
from redunet_lab.methods import FOR_VECTORS, names
from redunet_lab.runner import Evaluation, run
from redunet_lab.streams import class_stream, pooled
from tests.means import Means, MeansOfAll

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"n_layers": 2, "n_components": 8}
CLOSED = [key for key in CLOSED_FORMS if key not in FOR_VECTORS]
NAMES = {key: name for key, name in names().items() if key not in ("subspace", *FOR_VECTORS)}


def few_digits(folder: Path | None = None) -> Samples:
    """20 training and 9 test samples of each digit."""
    tasks = class_stream(digits.load(None), train_per_class=20, test_per_class=9)
    return Samples(*pooled(tasks, "train"), *pooled(tasks, "test"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, no_pictures: None) -> None:
    """Few digits, and quick stand-ins for some gradient methods."""
    monkeypatch.setitem(datasets.LOADERS, "digits", few_digits)
    monkeypatch.setitem(paper.SETTINGS, "digits", SMALL)
    for key, rival in (("finetune", Means), ("joint", AtOnce), ("er", MeansOfAll)):
        settings = staticmethod(lambda data: {"backbone": "mlp", "epochs": 2})
        about = {"title": baselines.GRADIENT[key].title, "usual_settings": settings}
        monkeypatch.setitem(baselines.GRADIENT, key, type(rival.__name__, (rival,), about))
    monkeypatch.setattr(Means, "taught", [])


class AtOnce(Means):
    """Given all tasks as one."""

    at_once = True


FEW = ("redunet", "finetune", "joint", "er")


def call(out: Path, **options: Any) -> dict[str, Any]:
    record = compare("digits", out, device="cpu", **{"methods": FEW, **options})
    assert record == json.loads((out / "record.json").read_text())
    return record


def numbers(record: dict[str, Any]) -> Any:
    """What must not depend on interruptions: everything but times and memory."""
    kept = {key: value for key, value in record.items() if key != "seconds"} | {"methods": []}
    for method in record["methods"]:
        runs = [
            [
                (run["seed"], run["summary"]),
                [{k: v for k, v in task.items() if k != "seconds"} for task in run["tasks"]],
            ]
            for run in method["runs"]
        ]
        kept["methods"].append({**method, "runs": runs})
    return kept


def by_method(record: dict[str, Any]) -> dict[str, Any]:
    return {method["method"]: method for method in record["methods"]}


@pytest.mark.usefixtures("small")
def test_every_method_runs_over_the_same_stream(tmp_path: Path) -> None:
    record = call(tmp_path, seeds=(3, 1))
    methods = by_method(record)
    assert list(methods) == list(FEW)
    assert [task["classes"] for task in record["stream"]] == [[2 * t, 2 * t + 1] for t in range(5)]
    assert [task["train_samples"] for task in record["stream"]] == [40] * 5
    seeds = {name: [run["seed"] for run in method["runs"]] for name, method in methods.items()}
    assert seeds == {"redunet": [0], "finetune": [1, 3], "joint": [1, 3], "er": [1, 3]}
    tasks = {name: len(method["runs"][0]["tasks"]) for name, method in methods.items()}
    assert tasks == {"redunet": 5, "finetune": 5, "joint": 1, "er": 5}
    for name in ("redunet", "er"):
        folder = tmp_path / name / f"seed-{seeds[name][-1]}"
        whole = json.loads((folder / "record.json").read_text())
        last = methods[name]["runs"][-1]["tasks"][-1]
        assert last["accuracy"] == whole["tasks"][-1]["readings"]["predict"]["accuracy"]
    assert record["stream"][-1]["test_samples"] == 90
    one, other = methods["er"]["runs"]
    assert one["tasks"] != other["tasks"]
    assert set(methods["joint"]["runs"][0]["summary"]) == {"last"}
    # The last task's classes win; all classes at once do not lose the first.
    assert methods["finetune"]["runs"][0]["tasks"][-1]["accuracy_by_task"][:4] == [0, 0, 0, 0]
    assert methods["joint"]["runs"][0]["tasks"][-1]["accuracy"] > 0.7
    assert methods["redunet"]["runs"][0]["tasks"][-1]["accuracy"] > 0.85


@pytest.mark.usefixtures("small")
def test_bytes_are_those_in_the_file(tmp_path: Path) -> None:
    record = call(tmp_path)
    for name, method in by_method(record).items():
        (run,) = method["runs"]
        folder = tmp_path / ("moments" if name == "redunet" else name) / "seed-0"
        path = folder / f"after-task-{len(run['tasks'])}.safetensors"
        stored = safetensors.torch.load_file(path)
        kept = run["tasks"][-1]["bytes"]
        assert sum(kept.values()) == sum(t.numel() * t.element_size() for t in stored.values())
        assert kept["exemplars"] == (20 * 64 if name == "er" else 0)
        moments = 0
        if name == "redunet":  # of few samples: each class is held by some of its 64 columns
            ranks = stored["n_columns"].tolist()
            moments = 8 * (10 + 640 + 10 + sum(r + 64 * r - r * (r - 1) // 2 for r in ranks))
            assert max(ranks) < 32
        assert kept["moments"] == moments
        assert method["raw_data_kept"] is (name == "er")
    of_er = [task["bytes"]["exemplars"] for task in by_method(record)["er"]["runs"][0]["tasks"]]
    assert of_er == [4 * 64 * number for number in range(1, 6)]


class StopError(Exception):
    """An interruption."""


def stop_at(words: str) -> Callable[[str, float], None]:
    def tell(what: str, share: float) -> None:
        if what == words:
            raise StopError

    return tell


@pytest.mark.usefixtures("small")
def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = call(tmp_path / "a", seeds=(0, 1))
    with pytest.raises(StopError):
        call(tmp_path / "b", seeds=(0, 1), progress=stop_at("ER, seed 1, task 3 of 5, class 5"))
    assert not (tmp_path / "b" / "record.json").exists()
    Means.taught.clear()
    assert numbers(call(tmp_path / "b", seeds=(0, 1))) == numbers(whole)
    assert Means.taught == [("MeansOfAll", 1, first) for first in (4, 6, 8)]
    Means.taught.clear()
    for path in tmp_path.glob("b/*/seed-*/*.safetensors"):
        path.unlink()  # big files need not stay
    assert numbers(call(tmp_path / "b", seeds=(0, 1))) == numbers(whole)
    assert Means.taught == []


def test_a_learner_that_was_saved_runs_where_it_ran_and_tells_of_it(tmp_path: Path) -> None:
    tasks = class_stream(few_digits())
    make = partial(Means, classes=tuple(range(10)), input_shape=(8, 8), device="cpu")
    learners: list[Means] = []
    kept = {"kept": lambda learner: learners.append(learner)}
    with pytest.raises(StopError):
        run(make, tasks, [Evaluation(tmp_path, {})], tmp_path, stop_at("task 4 of 5"))
    told: list[tuple[str, float]] = []
    evaluations = [Evaluation(tmp_path, {}, at_end=kept)]
    run(make, tasks, evaluations, tmp_path, lambda *words: told.append(words))
    (learner,) = learners
    assert learner.device == learner.made_for == "cpu"
    assert [what for what, _ in told[:3]] == [
        "task 4 of 5",
        "task 4 of 5, class 6",
        "task 4 of 5, class 7",
    ]
    assert [share for _, share in told[:-1]] == pytest.approx([0.6, 0.6, 0.7, 0.8, 0.8, 0.9])


@pytest.mark.usefixtures("small")
def test_commands_side_by_side_share_a_record(tmp_path: Path) -> None:
    first = call(tmp_path, methods=("er",), seeds=(0, 1))
    assert [method["name"] for method in first["methods"]] == ["ER"]
    assert first["missing"] == []  # nothing else was asked for
    second = call(tmp_path, methods=("redunet",))
    assert [method["name"] for method in second["methods"]] == ["ReduNet", "ER"]
    assert by_method(second)["er"] == by_method(first)["er"]
    with pytest.raises(StopError):
        call(tmp_path, methods=("finetune",), progress=stop_at("fine-tuning, seed 0, task 3 of 5"))
    third = call(tmp_path, methods=("redunet",))
    started = [one for one in third["missing"] if one["name"] == "fine-tuning"]
    assert started == [
        {"name": "fine-tuning", "seed": 0, "tasks_done": 2},
        {"name": "fine-tuning", "seed": 1, "tasks_done": 0},
    ]


@pytest.mark.usefixtures("small")
def test_the_record_says_what_changed_and_what_was_typed(tmp_path: Path) -> None:
    changes = {"er": {"epochs": 5, "sharp": False}, "redunet": {"n_kernels": 1, "features": "lift"}}
    record = call(tmp_path / "a", seeds=(2, 0), changes=changes)
    assert by_method(record)["er"]["settings"] == {
        "backbone": "mlp",
        "epochs": 5,
        "sharp": False,
    }
    assert by_method(record)["er"]["changed"] == {
        "epochs": {"usual": 2, "here": 5},
        "sharp": {"usual": None, "here": False},
    }
    assert [run["seed"] for run in by_method(record)["redunet"]["runs"]] == [0, 2]
    assert record["command"] is None  # nothing was typed
    words = "compare --data digits --set features=lift --set n_kernels=1 --seeds 0,2 --device cpu "
    words += "--methods redunet,finetune,joint,er --set er.epochs=5 --set er.sharp=false"
    words += f" --out '{tmp_path}/b c'"
    done = CliRunner().invoke(main, shlex.split(words))
    assert done.exit_code == 0, done.output
    again = json.loads((tmp_path / "b c" / "record.json").read_text())
    assert again["command"] == f"redunet {words}"
    assert numbers(again | {"command": None}) == numbers(record)


@pytest.mark.usefixtures("small")
def test_a_record_lists_the_commands_of_its_folder(tmp_path: Path) -> None:
    first = call(tmp_path, methods=("ncm",), command="redunet compare --methods ncm")
    assert first["command"] == "redunet compare --methods ncm"
    for _ in range(2):
        record = call(tmp_path, methods=("lda",), command="redunet compare --methods lda")
        assert record["command"].splitlines() == [
            "redunet compare --methods ncm",
            "redunet compare --methods lda",
        ]
    (tmp_path / "record.json").write_text("{")
    assert call(tmp_path, methods=("ncm",), command="again")["command"] == "again"


@pytest.mark.usefixtures("small")
def test_the_screen_says_what_to_expect_and_why(tmp_path: Path) -> None:
    words = ["compare", "--methods", ",".join(FEW), "--seeds", "0,1", "--set", "er.epochs=4"]
    words += ["--out", str(tmp_path), "--device", "cpu", "--dtype", "float32"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "About 1/5 = 0.2 is what fine-tuning, LwF, oEWC and SI are expected to show" in said
    assert "without a task identity at test time the outputs of the last task win" in said
    assert "never compares classes that were not seen together" in said
    assert "Nothing is random in ReduNet." in said
    assert "ER: epochs 4 (usually 2)" in said
    assert "ReduNet: dtype float32 (usually float64)" in said
    assert "Missing" not in said
    *lines, last = done.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert last.startswith(f"Wrote {tmp_path}")  # a path is never broken in two
    assert "…" not in done.output
    record = json.loads((tmp_path / "record.json").read_text())
    for method in record["methods"]:
        mean = np.mean([run["tasks"][-1]["accuracy"] for run in method["runs"]])
        assert f"{mean:.3f}" in said
        counts = np.array(method["confusion"]["counts"])
        assert counts.trace() / counts.sum() == pytest.approx(mean, abs=1e-5)
    for name in ("record.json", "report.md", "report.html"):
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "redunet,erp"], "expected methods among redunet, subspace, finetune, joint"),
        (["--methods", ","], "got 'none'"),
        (["--set", "erp.epochs=3"], "got 'erp'"),
        (["--set", "epochs=3"], "expected settings among data, n_tasks"),
        (
            ["--set", "er.epoch=3"],
            "expected settings of er among backbone, epochs, n_exemplars, sharp",
        ),
        (["--set", "er.seed=3"], "got 'seed'"),
        (["--set", "er.epochs=0"], "expected epochs to be a whole number from 1 on"),
        (["--set", "redunet.n_tasks=30"], "expected 1 to 10 tasks for 10 classes, got 30"),
        (["--set", "redunet.n_layers=few"], "expected n_layers to be a whole number"),
        (["--set", "lda.features=lift"], "expected settings of lda among"),
        (["--seeds", "0,x"], "expected seeds to be a whole number from 0 on"),
        (["--data", "imagenet"], "There is no data set 'imagenet'"),
        (["--dtype", "float16"], "expected dtype to be one of float64, float32"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_left(
    tmp_path: Path, words: list[str], message: str
) -> None:
    few = ["--methods", "redunet,er,lda"]  # what is said later counts
    done = CliRunner().invoke(main, ["compare", *few, *words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("small")
def test_runs_that_cannot_stand_in_one_table_are_refused(tmp_path: Path) -> None:
    call(tmp_path, methods=("er", "ncm"))
    Means.taught.clear()
    with pytest.raises(SettingsError, match="record of a run with another epochs: name another"):
        call(tmp_path, methods=("finetune", "er"), changes={"er": {"epochs": 7}})
    with pytest.raises(SettingsError, match="er/seed-0 holds a run with another epochs than the"):
        call(tmp_path, methods=("er",), seeds=(1,), changes={"er": {"epochs": 7}})
    with pytest.raises(SettingsError, match="ncm/seed-0 holds a run with another features than"):
        call(tmp_path, methods=("redunet",), changes={"redunet": {"features": "standardize"}})
    (tmp_path / "ncm" / "seed-0" / "record.json").write_text("[]")
    with pytest.raises(SettingsError, match=r"expected .*ncm/seed-0/record\.json to be the record"):
        call(tmp_path, methods=("finetune",))
    assert Means.taught == []


@pytest.mark.usefixtures("small")
def test_runs_from_before_a_setting_was_there_are_taken_up(tmp_path: Path) -> None:
    methods = ("redunet", "er", "ncm", "lda")
    whole = call(tmp_path / "a", methods=methods)
    call(tmp_path / "b", methods=("er",))
    stop = stop_at("methods on class moments, task 3 of 5, LDA")
    with pytest.raises(StopError):
        call(tmp_path / "b", methods=methods, progress=stop)
    for path in tmp_path.glob("b/*/seed-0/record.json"):
        record = json.loads(path.read_text())
        for key in ("mirrored", "sqrt"):
            assert record["settings"].pop(key, False) is False
        path.write_text(json.dumps(record))
    with pytest.raises(SettingsError, match="holds a run with another mirrored than the others"):
        call(tmp_path / "b", methods=("ridge",), changes={"redunet": {"mirrored": True}})
    Means.taught.clear()
    assert numbers(call(tmp_path / "b", methods=methods)) == numbers(whole)
    assert Means.taught == []
    for method, known in (("ncm", True), ("er", False)):
        record = json.loads((tmp_path / "a" / method / "seed-0" / "record.json").read_text())
        assert ("sqrt" in record["settings"]) is known


def test_all_methods_on_a_few_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.LOADERS, "digits", few_digits)
    monkeypatch.setitem(paper.SETTINGS, "digits", SMALL)
    changes = {method: {"epochs": 2} for method in baselines.GRADIENT}
    record = compare("digits", tmp_path, changes=changes, device="cpu")
    assert record["missing"] == []
    assert (tmp_path / "accuracy.png").stat().st_size > 1000
    methods = by_method(record)
    assert list(methods) == list(NAMES)
    for name, method in methods.items():
        (run,) = method["runs"]
        assert len(run["tasks"]) == (1 if name == "joint" else 5)
        assert all(0 <= task["accuracy"] <= 1 for task in run["tasks"])
        kept = run["tasks"][-1]["bytes"]
        assert (kept["exemplars"] > 0) is (name in ("icarl", "er", "derpp"))
        assert (kept["moments"] > 0) is (name not in baselines.GRADIENT)
        assert (kept["parameters"] > 0) is (name in baselines.GRADIENT)
    for name in ("redunet", *CLOSED):
        assert methods[name]["runs"][0]["tasks"][-1]["accuracy"] > 0.7
