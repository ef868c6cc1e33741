"""The commands on model files: what they do, and that it is the same however data comes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import DataError, ReduNetClassifier
from redunet.cli.app import main
from redunet.estimators import LinearDiscriminant, load, storage
from redunet.features import Flatten
from tests.own_data import (
    COLUMNS,
    IMAGES,
    NAMES,
    NUMBERS,
    SHAPE,
    WORDS,
    WRITERS,
    done,
    redunet,
    refused,
    write_csv,
    write_images,
    write_npz,
)

pytestmark = pytest.mark.usefixtures("one_thread")

N = len(IMAGES)
ALL = range(N)
SET = ("--set", "n_layers=3", "--set", "n_components=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"), ALL)


@pytest.fixture
def model(tmp_path: Path, folder: Path) -> Path:
    done("learn", tmp_path / "model", folder, *SET)
    return tmp_path / "model"


def taught(**how: Any) -> ReduNetClassifier:
    return ReduNetClassifier(n_layers=3, n_components=2, **how)


# The same however data comes


@settings(max_examples=8, deadline=None)
@given(st.data(), st.sampled_from(sorted(WRITERS)))
def test_any_split_makes_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str
) -> None:
    place = tmp_path_factory.mktemp("split")
    rows = data.draw(st.permutations(ALL))
    cuts = sorted(data.draw(st.lists(st.integers(1, N - 1), min_size=1, max_size=4, unique=True)))
    parts = [part.tolist() for part in np.split(np.array(rows), cuts)]
    for index, part in enumerate(parts):
        done(
            "learn",
            place / "often",
            WRITERS[kind](place / str(index), part),
            *(SET if index == 0 else ()),
        )
    done("learn", place / "once", WRITERS[kind](place / "all", ALL), *SET)
    assert (place / "often").read_bytes() == (place / "once").read_bytes()


def test_the_batches_of_a_source_leave_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, write in WRITERS.items():
        data = write(tmp_path / kind, ALL)
        done("learn", tmp_path / f"{kind}.whole", data, *SET)
        with monkeypatch.context() as patch:
            patch.setattr("redunet.data.source.BATCH_BYTES", 8 * 12 * 7)
            done("learn", tmp_path / f"{kind}.small", data, *SET)
        assert (tmp_path / f"{kind}.whole").read_bytes() == (
            tmp_path / f"{kind}.small"
        ).read_bytes()


def test_the_file_is_that_of_the_library(tmp_path: Path, model: Path) -> None:
    taught(features=Flatten(SHAPE)).fit(IMAGES, WORDS).save(tmp_path / "library")
    assert model.read_bytes() == (tmp_path / "library").read_bytes()


def test_labels_take_the_type_that_the_model_has(tmp_path: Path) -> None:
    np.savez(tmp_path / "numbers.npz", X=IMAGES, y=NUMBERS)
    np.savez(tmp_path / "words.npz", X=IMAGES, y=NUMBERS.astype(str))
    for first, second in (("numbers", "words"), ("words", "numbers")):
        path = tmp_path / f"{first}.model"
        done("learn", path, tmp_path / f"{first}.npz", *SET)
        found = json.loads(done("learn", path, tmp_path / f"{second}.npz", "--json").stdout)
        assert found["new_classes"] == []
        assert found["samples"] == 2 * N
    (tmp_path / "text.csv").write_text("class,a,b\n007,1,2\nx,3,4\n")
    done("learn", tmp_path / "text", tmp_path / "text.csv", "--set", "n_layers=0")
    (tmp_path / "more.csv").write_text("class,a,b\n007,1,2\n")
    done("learn", tmp_path / "text", tmp_path / "more.csv")
    assert ReduNetClassifier.load(tmp_path / "text").moments_.counts == (2, 1)


# What each command does


def test_learn_says_what_it_did(tmp_path: Path, folder: Path) -> None:
    said = done("learn", tmp_path / "m", folder)
    size = (tmp_path / "m").stat().st_size
    assert said.stdout == (
        f"Learnt 60 samples of 4 classes, 4 of them new.\n"
        f"{tmp_path / 'm'} holds 4 classes, 60 samples, 12 features, {size / 1e3:.0f} kB.\n"
    )
    found = json.loads(done("learn", tmp_path / "m", folder, "--json").stdout)
    assert not found["created"]
    assert found["learnt"] == [{"class": name, "samples": 15} for name in NAMES]
    assert found["classes"] == [{"class": name, "samples": 30} for name in NAMES]
    quiet = done("learn", tmp_path / "m", folder, "--quiet")
    assert quiet.output == ""


def test_settings_are_kept_in_the_model(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "m"
    done("learn", path, folder, "--features", "standardize", "--set", "eps=0.7")
    model = ReduNetClassifier.load(path)
    assert (model.eps, model.features.kind) == (0.7, "standardize")  # type: ignore[union-attr]
    before = path.read_bytes()
    assert "keeps the settings" in refused("learn", path, folder, "--set", "eps=0.5")
    assert "got 'order_seed'" in refused("learn", tmp_path / "n", folder, "--set", "order_seed=1")
    assert "features to be one of" in refused("learn", tmp_path / "n", folder, "--features", "x")
    assert path.read_bytes() == before
    done("learn", tmp_path / "c", folder, "--set", "normalize=class", "--set", "input_range=0,255")
    assert ReduNetClassifier.load(tmp_path / "c").input_range == (0.0, 255.0)
    csv = write_csv(tmp_path / "t", ALL)
    done("learn", tmp_path / "s", csv, "--features", "standardize-pixel")
    kept = ReduNetClassifier.load(tmp_path / "s")
    assert kept.feature_names_in_.tolist() == list(COLUMNS)
    means = IMAGES.reshape(N, -1).mean(axis=0)
    assert kept.features.mean.numpy() == pytest.approx(means)  # type: ignore[union-attr]
    done("learn", tmp_path / "l", folder, "--features", "lift", "--set", "n_kernels=2")
    assert ReduNetClassifier.load(tmp_path / "l").moments_.n_features == 24


def test_predict_writes_labels_and_scores(tmp_path: Path, folder: Path, model: Path) -> None:
    library = ReduNetClassifier.load(model)
    order = [row for name in NAMES for row in ALL if WORDS[row] == name]
    labels, scores = library.predict(IMAGES[order]), library.predict_proba(IMAGES[order])
    files = [str(folder / str(WORDS[row]) / f"{row:03d}.png") for row in order]
    heads = [f"score_{name}" for name in NAMES]
    ask = ("predict", model, folder, "--scores")
    for ending in ("csv", "parquet"):
        out = tmp_path / f"out.{ending}"
        assert f"Labelled 60 samples: {out}" in done(*ask, "-o", out).stdout
        read = pyarrow.csv.read_csv if ending == "csv" else pyarrow.parquet.read_table
        found = read(out)
        assert found.column_names == ["sample", "label", "score", *heads]
        assert found["sample"].to_pylist() == files
        assert found["label"].to_pylist() == labels.tolist()
        assert found["score"].to_pylist() == scores.max(axis=1).tolist()
        assert np.array_equal(np.stack([found[head].to_numpy() for head in heads], 1), scores)
    done(*ask, "-o", tmp_path / "out.jsonl", "--quiet")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["label"] for line in lines] == labels.tolist()
    assert [list(line["scores"].values()) for line in lines] == scores.tolist()
    assert done(*ask).stdout == (tmp_path / "out.csv").read_text()
    assert done(*ask, "--json").stdout == (tmp_path / "out.jsonl").read_text()
    _, line = done("predict", model, files[0], "--scores").stdout.splitlines()
    assert line.split(",")[:2] == [files[0], labels[0]]
    assert [float(cell) for cell in line.split(",")[3:]] == pytest.approx(scores[0].tolist())


def test_predict_writes_the_best_labels(tmp_path: Path, folder: Path, model: Path) -> None:
    order = [row for name in NAMES for row in ALL if WORDS[row] == name]
    scores = ReduNetClassifier.load(model).predict_proba(IMAGES[order])
    best = np.argsort(-scores, axis=1, kind="stable")
    heads, *rows = csv.reader(io.StringIO(done("predict", model, folder).stdout))
    assert heads == ["sample", "label", "score"]
    assert [row[1] for row in rows] == [NAMES[first] for first in best[:, 0]]
    assert [float(row[2]) for row in rows] == scores.max(axis=1).tolist()
    for n, ranks in ((3, (1, 2, 3)), (9, (1, 2, 3, 4))):
        done("predict", model, folder, "--top", n, "-o", tmp_path / "top.parquet")
        found = pyarrow.parquet.read_table(tmp_path / "top.parquet")
        ends = ["" if rank == 1 else f"_{rank}" for rank in ranks]
        assert found.column_names == [
            "sample",
            *(f"{w}{e}" for e in ends for w in ("label", "score")),
        ]
        for rank, end in enumerate(ends):
            assert found[f"label{end}"].to_pylist() == [NAMES[index] for index in best[:, rank]]
            assert found[f"score{end}"].to_pylist() == (
                np.take_along_axis(scores, best, axis=1)[:, rank].tolist()
            )
    first = json.loads(done("predict", model, folder, "--top", 2, "--json").stdout.split("\n")[0])
    assert list(first) == ["sample", "label", "score", "label_2", "score_2"]
    assert "got both" in refused("predict", model, folder, "--top", 2, "--scores")
    assert "'--top'" in refused("predict", model, folder, "--top", 0)


def test_evaluate_counts_what_is_right(tmp_path: Path, folder: Path, model: Path) -> None:
    given = ReduNetClassifier.load(model).predict(IMAGES)
    found = json.loads(done("evaluate", model, folder, "--json").stdout)
    assert found["accuracy"] == np.mean(given == WORDS)
    assert found["labels"] == list(NAMES)
    for i, true in enumerate(NAMES):
        of_class = true == WORDS
        assert found["classes"][i]["recall"] == np.mean(given[of_class] == true)
        assert found["classes"][i]["precision"] == np.mean(WORDS[given == true] == true)
        assert found["confusion"][i] == [int((given[of_class] == name).sum()) for name in NAMES]
    words = done("evaluate", model, folder).stdout
    assert f"Accuracy {found['accuracy']:.4f}: {found['correct']} of 60 samples." in words
    assert "Confusion matrix" in words
    done("forget", model, "dog")
    less = redunet("evaluate", model, folder)
    assert "the model has not learnt 'dog'" in less.stderr
    assert "count as wrong; without them accuracy is " in less.stderr
    assert less.exit_code == 0


def test_forget_unlearn_and_merge_are_exact(tmp_path: Path, folder: Path, model: Path) -> None:
    whole = model.read_bytes()
    of = {name: [row for row in ALL if WORDS[row] == name] for name in NAMES}
    dogs = write_images(tmp_path / "dogs", of["dog"])
    rest = write_images(tmp_path / "rest", [*of["ant"], *of["bee"], *of["cat"]])
    done("learn", tmp_path / "never", rest, *SET)
    said = done("forget", model, "dog")
    assert said.stdout.startswith("Forgot dog.\n")
    assert model.read_bytes() == (tmp_path / "never").read_bytes()
    done("learn", model, dogs)
    assert model.read_bytes() == whole
    assert "Unlearnt 15 samples." in done("unlearn", model, dogs).stdout
    assert model.read_bytes() == (tmp_path / "never").read_bytes()
    done("learn", tmp_path / "dogs.model", dogs, *SET)
    done("merge", tmp_path / "never", tmp_path / "dogs.model", "-o", tmp_path / "merged")
    assert (tmp_path / "merged").read_bytes() == whole
    np.savez(tmp_path / "n.npz", X=IMAGES, y=NUMBERS)
    done("learn", tmp_path / "numbers", tmp_path / "n.npz", *SET)
    assert json.loads(done("forget", tmp_path / "numbers", "3", "--json").stdout)["forgotten"] == [
        3
    ]


def forge(path: Path, name: str, place: tuple[int, ...], value: int) -> None:
    """Change one number of a model's moments, with a checksum that is right."""
    tensors, content = storage.load(path)
    changed = {key: tensor.clone() for key, tensor in tensors.items()}
    changed[name][place] += value
    storage.save(path, changed, content)


def test_verify_says_which_class_and_entry_no_samples_can_have(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((60, 4))
    taught().fit(X, np.array(["ant", "bee"] * 30)).save(tmp_path / "model")
    good = (tmp_path / "model").read_bytes()
    start = f"{tmp_path / 'model'} is not a model of this version: class 'bee': expected "
    for name, place, value, said in (
        ("counts", (1,), -31, "1 to 8,388,607 samples in a class, got -1"),
        ("sums", (1, 2), 1, "got second_moment[2, 2] = "),
        ("sums", (1, 2), 2**40, "grid values of at most 1,048,576 in size"),
        ("second_moments", (1, 3), 2**45, "got second_moment[2, 0] = "),
        ("second_moments", (1, 5), -(2**60), "grid values of at most 1,048,576 in size"),
        ("second_moments", (1, 5), 2**40, "got a second moment of trace 31"),
    ):
        (tmp_path / "model").write_bytes(good)
        forge(tmp_path / "model", name, place, value)
        found = refused("verify", tmp_path / "model")
        assert found.startswith(start + said) or said in found
        assert found.startswith(start)


def test_a_merge_that_cannot_be_built_changes_nothing(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((60, 4))
    taught().fit(X, np.array(["ant", "bee"] * 30)).save(tmp_path / "one")
    X[1::2] = 0
    for kind in (taught, LinearDiscriminant):
        kind().fit(X, np.array(["ant", "cat"] * 30)).save(tmp_path / "zeros")
        kind().fit(X[::2], np.array(["ant", "bee"] * 15)).save(tmp_path / "one")
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        said = refused("merge", tmp_path / "one", tmp_path / "zeros", "-o", tmp_path / "both")
        assert said.startswith("class 'cat': expected at least one sample that is not zero in each")
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
        one = load(tmp_path / "one")
        held = one.moments_
        with pytest.raises(DataError, match="class 'cat': expected at least one sample"):
            one.merge(load(tmp_path / "zeros"))
        assert one.moments_ is held


LEARNT = {
    "standardize": "means and deviations",
    "lift": "a mean image",
    "patches": "filters made of patches of images",
    "stacked-patches": "filters made of patches of images",
    "patches-kmeans": "filters made of patches of images, and means and deviations",
}


@pytest.mark.parametrize("features", LEARNT)
def test_a_learnt_map_is_said_to_stay(tmp_path: Path, folder: Path, features: str) -> None:
    path, held = tmp_path / "m", f"({LEARNT[features]})"
    small = ("n_filters=2", "patch_size=2", f"standardized={features == 'patches-kmeans'}")
    how = [word for setting in small for word in ("--set", setting)]
    stays = (
        f"redunet: the feature map was learnt from data: what it holds of that data {held} stays "
        f"when classes or samples are withdrawn\n"
    )
    gone = (
        f"redunet: the feature map was learnt from data and stays as it is: what it holds of that "
        f"data {held} is not withdrawn\n"
    )
    assert done("learn", path, folder, "--features", features, *how, *SET).stderr == stays
    assert done("learn", path, folder).stderr == ""  # told once, when the map is made
    assert stays in done("inspect", path).stderr
    assert json.loads(done("inspect", path, "--json").stdout)["notes"][-1] in stays
    assert done("unlearn", path, write_images(tmp_path / "some", range(20))).stderr == gone
    assert done("forget", path, "dog").stderr == gone
    assert json.loads(done("forget", path, "cat", "--json").stdout)["notes"] == [gone[9:-1]]


def test_inspect_says_what_a_model_holds(tmp_path: Path, model: Path) -> None:
    library = ReduNetClassifier.load(model)
    found = json.loads(done("inspect", model, "--json").stdout)
    assert found["delta_R"] == [layer.rate.delta_R for layer in library.network_.layers]
    assert found["settings"]["n_layers"] == 3
    assert found["bytes"] == model.stat().st_size
    assert found["feature_map"]["learnt_from_data"] is False
    angles = np.array(found["closeness"]["last"]["mean"])
    assert angles.shape == (4, 4)
    np.testing.assert_allclose(angles, angles.T, atol=1e-9)
    words = done("inspect", model)
    assert "60 samples, 12 features" in words.stdout
    assert "n_components=2" in words.stdout
    assert f"{found['delta_R'][2]:.4f}" in words.stdout
    assert words.stderr == ""
    done("learn", tmp_path / "few", write_npz(tmp_path / "few", range(30)), *SET)
    few = redunet("inspect", tmp_path / "few")
    assert "4 of 4 classes have fewer samples than features" in few.stderr
    assert "come close to the samples themselves" in few.stderr


def test_verify_reads_every_byte(tmp_path: Path, model: Path) -> None:
    said = done("verify", model).stdout
    assert f"{model} is intact: 4 classes, 60 samples, 12 features, format 1." in said
    assert done("verify", model, "--quiet").output == ""
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    assert "altered" in refused("verify", tmp_path / "damaged", "--quiet")


# Words


def test_shells_complete_commands() -> None:
    from typer.testing import CliRunner

    environment = {
        "_REDUNET_COMPLETE": "complete_bash",
        "COMP_WORDS": "redunet un",
        "COMP_CWORD": "1",
    }
    result = CliRunner().invoke(main, [], prog_name="redunet", env=environment)
    assert result.stdout.split() == ["unlearn"]
