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

from redunet.errors import SettingsError
from redunet_lab import baselines, datasets, paper
from redunet_lab.closed_forms import CLOSED_FORMS, RanPAC
from redunet_lab.compare import compare
from redunet_lab.datasets import Samples, digits
from redunet_lab.experiment import FEATURES, Experiment
from redunet_lab.methods import FOR_VECTORS, Method, names
from redunet_lab.runner import Entry, run
from redunet_lab.streams import class_stream, pooled
from tests.means import Means, MeansOfAll
from tests.own_data import done, refused

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"n_layers": 2, "n_components": 8}
NAMES = {key: name for key, name in names().items() if key not in ("subspace", *FOR_VECTORS)}
FEW = ("redunet", "finetune", "joint", "er")


def few_digits(folder: Path | None = None) -> Samples:
    """20 training and 9 test samples of each digit."""
    tasks = class_stream(digits.load(None), train_per_class=20, test_per_class=9)
    return Samples(*pooled(tasks, "train"), *pooled(tasks, "test"))


class AtOnce(Means):
    """Given all tasks as one."""

    at_once = True


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, no_pictures: None) -> None:
    """Few digits, and quick stand-ins for some gradient methods."""
    monkeypatch.setitem(datasets.LOADERS, "digits", few_digits)
    monkeypatch.setitem(paper.SETTINGS, "digits", SMALL)
    for key, one in (("finetune", Means), ("joint", AtOnce), ("er", MeansOfAll)):
        settings = staticmethod(lambda data: {"backbone": "mlp", "epochs": 2})
        about = {"title": baselines.GRADIENT[key].title, "usual_settings": settings}
        monkeypatch.setitem(baselines.GRADIENT, key, type(one.__name__, (one,), about))
    monkeypatch.setattr(Means, "taught", [])


def call(out: Path, **options: Any) -> dict[str, Any]:
    record = compare("digits", out, device="cpu", **{"methods": FEW, **options})
    assert record == json.loads((out / "record.json").read_text())
    return record


def numbers(record: dict[str, Any]) -> Any:
    """All that must not depend on interruptions: not times and memory."""
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


class StopError(Exception):
    """An interruption."""


def stop_at(words: str) -> Callable[[str, float], None]:
    def tell(what: str, share: float) -> None:
        if what == words:
            raise StopError

    return tell


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
    one, other = methods["er"]["runs"]
    assert one["tasks"] != other["tasks"]
    assert set(methods["joint"]["runs"][0]["summary"]) == {"last"}
    # The last task's classes win; all classes at once do not lose the first.
    assert methods["finetune"]["runs"][0]["tasks"][-1]["accuracy_by_task"][:4] == [0, 0, 0, 0]
    assert methods["joint"]["runs"][0]["tasks"][-1]["accuracy"] > 0.7
    assert methods["redunet"]["runs"][0]["tasks"][-1]["accuracy"] > 0.85
    for name, method in methods.items():
        folder = "moments" if name == "redunet" else name
        (path,) = (tmp_path / folder / f"seed-{seeds[name][-1]}").glob("after-task-*.safetensors")
        stored = safetensors.torch.load_file(path)
        kept = method["runs"][-1]["tasks"][-1]["bytes"]
        assert sum(kept.values()) == sum(t.numel() * t.element_size() for t in stored.values())
        assert kept["exemplars"] == (20 * 64 if name == "er" else 0)
        assert (kept["moments"] > 0) is (name == "redunet")
        assert method["raw_data_kept"] is (name == "er")


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
    with pytest.raises(StopError):
        run(make, tasks, [Entry(tmp_path, {})], tmp_path, progress=stop_at("task 4 of 5"))
    told: list[tuple[str, float]] = []
    entry = Entry(tmp_path, {}, at_end={"kept": lambda learner: learners.append(learner)})
    run(make, tasks, [entry], tmp_path, progress=lambda *words: told.append(words))
    (learner,) = learners
    assert learner.device == learner.made_for == "cpu"
    words = ["task 4 of 5", "task 4 of 5, class 6", "task 4 of 5, class 7"]
    assert [what for what, _ in told[:3]] == words
    assert [share for _, share in told[:-1]] == pytest.approx([0.6, 0.6, 0.7, 0.8, 0.8, 0.9])


@pytest.mark.usefixtures("small")
def test_commands_side_by_side_share_a_record(tmp_path: Path) -> None:
    first = call(tmp_path, methods=("er",), seeds=(0, 1), command="redunet compare one")
    assert [method["name"] for method in first["methods"]] == ["ER"]
    assert first["missing"] == []  # nothing else was asked for
    for _ in range(2):
        second = call(tmp_path, methods=("redunet",), command="redunet compare other")
        lines = ["redunet compare one", "redunet compare other"]
        assert second["command"].splitlines() == lines
    assert [method["name"] for method in second["methods"]] == ["ReduNet", "ER"]
    assert by_method(second)["er"] == by_method(first)["er"]
    with pytest.raises(StopError):
        call(tmp_path, methods=("finetune",), progress=stop_at("fine-tuning, seed 0, task 3 of 5"))
    third = call(tmp_path, methods=("redunet",))
    assert [one for one in third["missing"] if one["name"] == "fine-tuning"] == [
        {"name": "fine-tuning", "seed": 0, "tasks_done": 2},
        {"name": "fine-tuning", "seed": 1, "tasks_done": 0},
    ]


@pytest.mark.usefixtures("small")
def test_the_record_says_what_changed_and_what_was_typed(tmp_path: Path) -> None:
    changes = {"er": {"epochs": 5, "sharp": False}, "redunet": {"n_kernels": 1, "features": "lift"}}
    record = call(tmp_path / "a", seeds=(2, 0), changes=changes)
    assert by_method(record)["er"]["settings"] == {"backbone": "mlp", "epochs": 5, "sharp": False}
    assert by_method(record)["er"]["changed"] == {
        "epochs": {"usual": 2, "here": 5},
        "sharp": {"usual": None, "here": False},
    }
    assert record["command"] is None  # nothing was typed
    words = "compare --data digits --set features=lift --set n_kernels=1 --seeds 0,2 --device cpu "
    words += "--methods redunet,finetune,joint,er --set er.epochs=5 --set er.sharp=false"
    words += f" --out '{tmp_path}/b c'"
    said = " ".join(done(*shlex.split(words)).output.split())
    again = json.loads((tmp_path / "b c" / "record.json").read_text())
    assert again["command"] == f"redunet {words}"
    assert numbers(again | {"command": None}) == numbers(record)
    assert "About 1/5 = 0.2 is what fine-tuning, LwF, oEWC and SI are expected to show" in said
    assert "ER: epochs 5 (usually 2)" in said
    assert "Missing" not in said
    for method in again["methods"]:
        mean = np.mean([run["tasks"][-1]["accuracy"] for run in method["runs"]])
        assert f"{mean:.3f}" in said
        counts = np.array(method["confusion"]["counts"])
        assert counts.trace() / counts.sum() == pytest.approx(mean, abs=1e-5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "redunet,erp"], "expected methods among redunet, subspace, finetune, joint"),
        (["--methods", ","], "got 'none'"),
        (["--set", "epochs=3"], "expected settings among data, n_tasks"),
        (
            ["--set", "er.epoch=3"],
            "expected settings of er among backbone, epochs, n_exemplars, sharp",
        ),
        (["--set", "er.epochs=0"], "expected epochs to be a whole number from 1 on"),
        (["--set", "redunet.n_tasks=30"], "expected 1 to 10 tasks for 10 classes, got 30"),
        (["--seeds", "0,x"], "expected seeds to be a whole number from 0 on"),
        (["--data", "imagenet"], "There is no data set 'imagenet'"),
        (["--dtype", "float16"], "expected dtype to be one of float64, float32"),
        (["--recipe", "soup"], "expected a recipe among vectors, tables"),
        (["--recipe", "invariant"], "that can learn shifts with shifts=true, got lda"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_left(
    tmp_path: Path, words: list[str], message: str
) -> None:
    few = ["--methods", "redunet,er,lda"]  # a later option counts
    assert message in refused("compare", *few, *words, "--out", tmp_path / "out")
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
        kept = run["tasks"][-1]["bytes"]
        assert (kept["exemplars"] > 0) is (name in ("icarl", "er", "derpp"))
        assert (kept["moments"] > 0) is (name not in baselines.GRADIENT)
        if name in CLOSED_FORMS:
            assert run["tasks"][-1]["accuracy"] > 0.7


def few_vectors(folder: Path | None = None, classes: int = 6) -> Samples:
    """A few vectors of each class, which are not negative."""
    draw = np.random.default_rng(0)
    centres = draw.random((classes, 12))
    y = np.repeat(np.arange(classes), 8)
    parts = [centres[y] + 0.3 * draw.random((len(y), 12)) for _ in range(2)]
    return Samples(parts[0], y, parts[1], y, "vectors")


@pytest.mark.usefixtures("no_pictures")
def test_vectors_in_orders_of_their_own_by_methods_with_projections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(datasets.LOADERS, "vectors", few_vectors)
    projections = {key: {"n_projections": 30} for key in ("ranpac", "klda")}
    changes = {"redunet": {"n_tasks": 3, "shuffle": True}, **projections}
    how: dict[str, Any] = {"seeds": (0, 1), "changes": changes, "device": "cpu"}
    record = compare("vectors", tmp_path / "a", **how)
    assert list(by_method(record)) == ["redunet", "subspace", *CLOSED_FORMS]
    last = {
        key: [run["tasks"][-1]["accuracy"] for run in method["runs"]]
        for key, method in by_method(record).items()
    }
    orders = [
        json.loads((tmp_path / "a" / "ncm" / f"seed-{seed}" / "record.json").read_text())
        for seed in (0, 1)
    ]
    assert orders[0]["settings"]["tasks"] != orders[1]["settings"]["tasks"]
    # The order of classes does not matter, to the last bit; projections do.
    assert last["ncm"][0] == last["ncm"][1]
    data = few_vectors()
    for seed in (0, 1):
        model = RanPAC(30, seed=seed).fit(data.x_train, data.y_train)
        assert last["ranpac"][seed] == model.score(data.x_test, data.y_test)
    monkeypatch.setitem(datasets.LOADERS, "vectors", lambda folder: few_vectors(folder, 60))
    many = compare("vectors", tmp_path / "b", **how)
    assert "pairwise" not in by_method(many)  # too many pairs, unless it is named
    assert "confusion" not in many["methods"][0]
    with pytest.raises(SettingsError, match="expected images for er, but vectors holds vectors"):
        compare("vectors", tmp_path / "c", methods=["er"], **how)


def test_who_is_random_and_has_whose_features() -> None:
    def method(key: str, data: str, **changes: Any) -> Method:
        return Method.of(key, Experiment.of(data, usual=paper.SETTINGS, changes=changes))

    fixed = [key for key in NAMES if not method(key, "mnist").random]
    assert fixed == ["redunet", "ncm", "lda", "ridge", "qda", "pairwise"]
    assert all(method(key, "cifar10").random for key in NAMES)
    assert method("redunet", "mnist", train_per_class=9).random  # the seed draws the samples
    ours = method("redunet", "cifar10", n_kernels=3).run_settings((), 0)
    for key in CLOSED_FORMS:
        theirs = method(key, "cifar10", n_kernels=3).run_settings((), 0)
        assert {k: theirs[k] for k in FEATURES} == {k: ours[k] for k in FEATURES}


def test_settings_that_were_chosen_for_features_and_data_are_taken() -> None:
    for recipe in (None, "embeddings"):  # which leaves vectors as they are
        plain = Experiment.of("clinc150", recipe=recipe)
        assert Method.of("ranpac", plain).settings == {"n_projections": 10000, "ridge": 0.03}
    changed = {"features": "random-relu"}
    lifted = Experiment.of("clinc150", recipe="embeddings", changes=changed)
    assert Method.of("ranpac", lifted).settings["n_projections"] == 2000
    for name in ("images-cpu", "images"):
        here = Method.of("lda", Experiment.of("cifar10", recipe=name))
        assert (here.settings, here.name) == ({"shrinkage": 0.003}, "LDA")
        assert here.chosen == "chosen on training or validation data"
    elsewhere = Method.of("lda", Experiment.of("mnist", recipe="images"))
    assert elsewhere.chosen == "the defaults"
