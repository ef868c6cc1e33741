"""Anything at all, given to commands on model files: never a traceback, never a changed model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redunet import ReduNetClassifier
from tests.cli.test_faults import npy, taught
from tests.own_data import IMAGES, WORDS, png, redunet, write_csv, write_npz, write_parquet

__all__ = ["taught"]  # a fixture

pytestmark = pytest.mark.usefixtures("one_thread")


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """A file with bytes changed, cut out, put in or cut off; or bytes of any kind."""
    place = st.integers(0, len(whole))

    def changed(edits: list[tuple[int, int, bytes]]) -> bytes:
        out = whole
        for start, length, new in edits:
            out = out[:start] + new + out[start + length :]
        return out

    edits = st.tuples(place, st.integers(0, 8), st.binary(max_size=8))
    return st.one_of(
        st.lists(edits, min_size=1, max_size=4).map(changed),
        place.map(lambda end: whole[:end]),
        st.binary(max_size=64),
    )


def files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        return {
            ".csv": write_csv(place / "t", range(8)).read_bytes(),
            ".parquet": write_parquet(place / "t", range(8)).read_bytes(),
            ".npz": write_npz(place / "t", range(8)).read_bytes(),
            ".npy": npy(IMAGES[:8]),
            ".png": png(IMAGES[0]),
        }


GOOD = files()


@pytest.mark.parametrize("ending", GOOD)
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_malformed_files_never_break_anything(
    tmp_path: Path, taught: dict[str, Path], ending: str, data: st.DataObject
) -> None:
    raw = data.draw(damaged(GOOD[ending]))
    model = tmp_path / "model"
    before = taught["images" if ending == ".png" else "columns"].read_bytes()
    model.write_bytes(before)
    if ending == ".png":
        path: Path = tmp_path / "folder"
        (path / "ant").mkdir(parents=True, exist_ok=True)
        (path / "ant" / "1.png").write_bytes(raw)
    else:
        path = tmp_path / f"data{ending}"
        path.write_bytes(raw)
    labels: tuple[Any, ...] = ()
    if ending == ".npy":
        np.save(tmp_path / "y.npy", WORDS[:8])
        labels = ("--label", tmp_path / "y.npy")
    command = data.draw(st.sampled_from(["learn", "unlearn", "evaluate", "predict"]))
    result = redunet(command, model, path, *labels)
    assert result.exit_code in (0, 2)
    if result.exit_code == 2:
        assert result.stderr.startswith("redunet: ")
        assert result.stderr.count("\n") == 1
    if result.exit_code == 2 or command in ("evaluate", "predict"):
        assert model.read_bytes() == before
    else:
        ReduNetClassifier.load(model)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_malformed_models_never_break_anything(
    tmp_path: Path, taught: dict[str, Path], data: st.DataObject
) -> None:
    whole = taught["columns"].read_bytes()
    raw = data.draw(damaged(whole))
    (tmp_path / "model").write_bytes(raw)
    table = write_csv(tmp_path / "t", range(8))
    commands: dict[str, Callable[[], Any]] = {
        "learn": lambda: redunet("learn", tmp_path / "model", table),
        "forget": lambda: redunet("forget", tmp_path / "model", "ant"),
        "predict": lambda: redunet("predict", tmp_path / "model", table),
        "verify": lambda: redunet("verify", tmp_path / "model"),
    }
    result = commands[data.draw(st.sampled_from(sorted(commands)))]()
    if raw != whole:
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert (tmp_path / "model").read_bytes() == raw
