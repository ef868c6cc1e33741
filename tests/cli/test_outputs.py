"""Where commands write: never over their inputs, through links, into pipes, with the old mode."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest

from redunet import ReduNetClassifier
from tests.own_data import IMAGES, WORDS, done, refused, write_csv, write_npz
from tests.safety.test_kills import listing, powerless

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = range(20)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model, and the data that it learnt."""
    data = write_npz(tmp_path / "d", ROWS)
    done("learn", tmp_path / "model.csv", data, "--set", "n_layers=2")
    return tmp_path / "model.csv"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names_of(path: Path) -> list[Path]:
    """Other names of a file."""
    link, hard = path.with_name(f"link-{path.name}"), path.with_name(f"hard-{path.name}")
    link.symlink_to(path.name)
    os.link(path, hard)
    return [path, link, hard, path.parent / "." / ".." / path.parent.name / path.name]


def test_no_command_overwrites_its_inputs(tmp_path: Path, model: Path) -> None:
    data, record = tmp_path / "d.npz", tmp_path / "record.json"
    table, samples = write_csv(tmp_path / "t", ROWS), tmp_path / "s.npz"
    np.savez(samples, x=IMAGES, y=WORDS)
    record.write_text("{}")
    other = tmp_path / "other"
    done("learn", other, data, "--set", "n_layers=2")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    commands: list[tuple[Path, tuple[object, ...]]] = [
        (model, ("report", model)),
        (other, ("report", model, other)),
        (record, ("report", record)),
        (samples, ("report", model, "--samples", samples)),
        (model, ("predict", model, data)),
        (table, ("predict", model, table)),
        (table, ("predict", model, data, "--label", table)),
        (other, ("merge", model, other)),
        (model, ("export", model)),
        (samples, ("export", model, "--samples", samples)),
    ]
    for path in {path for path, _ in commands}:
        names = names_of(path)
        for words in (words for one, words in commands if one == path):
            for name in names:
                assert f"the output {name} is one of the inputs (" in refused(*words, "-o", name)
    assert {path: path.read_bytes() for path in before} == before


def test_a_link_to_a_model_stays_and_the_model_changes(tmp_path: Path, model: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "there" / "link"
    link.symlink_to("../model.csv")
    done("forget", link, "ant")
    assert link.is_symlink()
    assert "ant" not in ReduNetClassifier.load(model).classes_
    done("learn", link, write_npz(tmp_path / "a", range(15)))
    assert "ant" in ReduNetClassifier.load(model).classes_
    done("unlearn", link, tmp_path / "a.npz")
    assert "ant" not in ReduNetClassifier.load(model).classes_
    assert listing(tmp_path / "there") == ["link"]
    new = tmp_path / "there" / "new"
    new.symlink_to("../made")
    done("learn", new, tmp_path / "d.npz", "--set", "n_layers=2")
    assert new.is_symlink()
    assert (tmp_path / "made").is_file()


def test_a_model_with_another_name_is_told(tmp_path: Path, model: Path) -> None:
    os.link(model, tmp_path / "copy")
    result = done("forget", model, "ant")
    assert result.stderr == (
        f"redunet: {model} had another name (a hard link): the file there is unchanged and holds "
        f"what the model held before\n"
    )
    assert "ant" in ReduNetClassifier.load(tmp_path / "copy").classes_
    assert "ant" not in ReduNetClassifier.load(model).classes_


def test_files_keep_their_mode(tmp_path: Path, model: Path) -> None:
    data = tmp_path / "d.npz"
    outputs = {path: tmp_path / path for path in ("p.csv", "p.jsonl", "p.parquet", "page.html")}
    for path in (model, *outputs.values()):
        path.touch()
        path.chmod(0o600)
    done("forget", model, "ant")
    done("learn", model, data)
    done("unlearn", model, write_npz(tmp_path / "a", range(3)))
    for name, path in outputs.items():
        words = ("report", model) if name == "page.html" else ("predict", model, data)
        done(*words, "-o", path)
        assert path.stat().st_size > 0
    assert {mode(path) for path in (model, *outputs.values())} == {0o600}
    done("merge", model, model, "-o", tmp_path / "both")
    umask = os.umask(0)
    os.umask(umask)
    assert mode(tmp_path / "both") == 0o666 & ~umask


def test_links_stay_and_only_files_are_written(tmp_path: Path, model: Path) -> None:
    (tmp_path / "null.csv").symlink_to("/dev/null")
    (tmp_path / "far.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("far.csv")
    data = tmp_path / "d.npz"
    for words in (
        ("predict", model, data, "-o", tmp_path / "null.csv"),
        ("report", model, "-o", "/dev/null"),
    ):
        assert "expected a regular file, got a device" in refused(*words)
    assert Path("/dev/null").is_char_device()
    done("predict", model, data, "-o", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "far.csv").read_text().startswith("sample,label,")
    assert not list(tmp_path.glob(".*"))


def commands_on(place: Path, model: Path, data: Path) -> list[tuple[object, ...]]:
    """Each command with a model, data or an output at a place that cannot be used."""
    asked = ("learn", "unlearn", "predict", "evaluate")
    return [
        *((command, model, place.with_suffix(".npz")) for command in asked),
        ("learn", place, data),
        ("forget", place, "ant"),
        ("unlearn", place, data),
        ("merge", model, place, "-o", model.with_name("both")),
        ("merge", model, model, "-o", place),
        ("predict", place, data),
        ("predict", model, data, "-o", place.with_name(f"{place.name[:-4]}.csv")),
        ("evaluate", place, data),
        ("export", place, "-o", model.with_name("m.onnx")),
        ("export", model, "-o", place, "--format", "onnx"),
        ("export", model, "-o", model.with_name("m.onnx"), "--samples", place.with_suffix(".npz")),
        ("inspect", place),
        ("verify", place),
        ("report", place),
        ("report", model, "-o", place),
        ("report", model, "--samples", place),
    ]


def test_folders_that_may_not_be_entered(model: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        known, data, closed = (Path(name, one) for one in ("model", "d.npz", "closed"))
        known.write_bytes(model.read_bytes())
        data.write_bytes(model.with_name("d.npz").read_bytes())
        closed.mkdir(0o600)
        Path(name).chmod(0o777)
        for words in commands_on(Path(name, "x" * 300), known, data):
            refused(*words)  # loads the modules of each command while it may
        with powerless():
            for words in commands_on(closed / "model", known, data):
                assert "Permission denied" in refused(*words), words
        assert listing(Path(name)) == ["closed", "d.npz", "model"]
        assert listing(closed) == []


def test_names_that_are_too_long(tmp_path: Path, model: Path) -> None:
    for words in commands_on(tmp_path / ("x" * 300), model, tmp_path / "d.npz"):
        assert "File name too long" in refused(*words), words
    csv = tmp_path / f"{'x' * 251}.csv"
    done("predict", model, tmp_path / "d.npz", "-o", csv)
    assert csv.read_text().count("\n") == 1 + len(ROWS)


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
def test_report_reads_regular_files_only(tmp_path: Path, kind: str) -> None:
    path = {"a device": Path("/dev/zero")}.get(kind, tmp_path / "source")
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    said = refused("report", path, "-o", tmp_path / "page.html")
    assert said == f"cannot read {path}: expected a regular file, got {kind}"
    assert not (tmp_path / "page.html").exists()
