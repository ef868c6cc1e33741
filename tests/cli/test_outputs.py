"""Where commands write: never over their inputs, through links, into pipes, with the old mode."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from redunet import ReduNetClassifier
from tests.own_data import IMAGES, WORDS, done, refused, write_csv, write_npz
from tests.safety.test_kills import listing

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
