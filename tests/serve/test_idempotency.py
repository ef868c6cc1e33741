"""Keys of requests: each counts once, also after the end of a server, in files closed to others."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet.errors import FileAccessError
from redunet.safety.transaction import Change
from redunet.serve.errors import ReusedKeyError, UnsettledKeyError
from redunet.serve.idempotency import KeyRecord, RepeatedError
from tests.serve.running import X, serving, small_model

pytestmark = pytest.mark.usefixtures("one_thread")
BEFORE, AFTER, OTHER = "b" * 64, "a" * 64, "c" * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def folder_of(path: Path) -> Path:
    return next(path.parent.glob(".redunet-requests-*"))


class Keys:
    """The keys of a model file that is not there."""

    def __init__(self, path: Path, hours: float = 24.0) -> None:
        self.path, self.hours = path, hours

    def record(self, key: str = "one", content: bytes = b"x") -> KeyRecord:
        return KeyRecord(self.path, key, [content], self.hours)

    def plan(self, before: str, after: str, key: str = "one") -> None:
        model = small_model()
        self.record(key).plan(Change(self.path, model, model, before, after))

    def settle(self, present: str) -> None:
        KeyRecord(self.path, hours=self.hours).settle(self.path, present)

    def find(self, key: str = "one", content: bytes = b"x") -> dict[str, Any] | None:
        try:
            self.record(key, content).check()
        except RepeatedError as found:
            return found.answer
        return None


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "m")


def test_a_key_counts_once_and_survives_the_server(path: Path) -> None:
    body = {"samples": X[45:].tolist(), "label": "dog"}
    key = {"Idempotency-Key": "a-key-of-a-client"}
    with serving(path) as client:
        first = client.send("POST", "/v1/learn", body, key)[1]
        again = client.send("POST", "/v1/learn", body, key)[1]
        assert (first["repeated"], again["repeated"]) == (False, True)
        assert again["sha256"] == first["sha256"]
        other = client.send("POST", "/v1/learn", {**body, "label": "elk"}, key)
        assert other[0] == 409
    with serving(path) as client:
        again = client.send("POST", "/v1/learn", body, key)[1]
        assert again["repeated"]
        assert client.send("GET", "/v1/model")[1]["samples"] == 60
        assert client.send("POST", "/v1/learn", body, {"Idempotency-Key": "two"})[0] == 200
        assert client.send("GET", "/v1/model")[1]["samples"] == 75
    files = list(folder_of(path).iterdir())
    assert files
    for one in files:
        assert b"dog" not in one.read_bytes()
        assert key["Idempotency-Key"].encode() not in one.read_bytes()


def test_uploads_with_a_key_count_once(path: Path) -> None:
    def table(label: str) -> bytes:
        out = io.BytesIO()
        np.savez(out, x=X[45:50], y=[label] * 5)
        return out.getvalue()

    with serving(path) as client:
        found = [
            client.files("/v1/learn/files", [("t.npz", data)], headers={"Idempotency-Key": "one"})
            for data in (table("dog"), table("dog"), table("elk"))
        ]
        assert [status for status, _ in found] == [200, 200, 409]
        assert [answer["repeated"] for _, answer in found[:2]] == [False, True]
        assert client.send("GET", "/v1/model")[1]["samples"] == 50


@pytest.mark.parametrize(
    ("present", "found"), [(BEFORE, None), (AFTER, {"before": BEFORE, "sha256": AFTER})]
)
def test_the_file_says_what_became_of_an_open_request(
    keys: Keys, present: str, found: object
) -> None:
    keys.plan(BEFORE, AFTER)
    keys.settle(present)
    assert keys.find() == found
    keys.settle(OTHER)  # settled once
    assert keys.find() == found


def test_what_nobody_can_know_is_refused(keys: Keys) -> None:
    keys.plan(BEFORE, AFTER)
    keys.settle(OTHER)
    with pytest.raises(UnsettledKeyError, match="the server ended during this change"):
        keys.find()
    with pytest.raises(ReusedKeyError, match="expected the same request"):
        keys.find(content=b"y")


def test_a_change_that_leaves_the_file_as_it_was_is_done(keys: Keys) -> None:
    keys.plan(BEFORE, BEFORE)
    keys.settle(BEFORE)
    assert keys.find() == {"before": BEFORE, "sha256": BEFORE}


def test_keys_are_dropped_after_their_time(tmp_path: Path) -> None:
    for hours, kept in ((24.0, True), (0.0, False)):
        keys = Keys(tmp_path / "m", hours)
        keys.plan(BEFORE, AFTER, str(hours))
        keys.settle(AFTER)
        assert (keys.find(str(hours)) is not None) == kept


def test_files_are_closed_to_others(keys: Keys, tmp_path: Path) -> None:
    assert keys.find() is None
    keys.settle(BEFORE)
    assert list(tmp_path.iterdir()) == []  # nothing is made before the first key
    keys.plan(BEFORE, AFTER)
    folder = folder_of(tmp_path / "m")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("planted", ["link to a file", "link to a folder", "file", "open folder"])
def test_what_others_put_in_the_place_of_the_folder_is_refused(
    tmp_path: Path, planted: str
) -> None:
    """A foreseeable name: nothing behind it is followed, read or written."""
    keys = Keys(tmp_path / "m")
    keys.plan(BEFORE, AFTER)
    folder, elsewhere = folder_of(tmp_path / "m"), tmp_path / "elsewhere"
    folder.rename(elsewhere)
    (tmp_path / "file").write_bytes(b"something of mine")
    if planted == "file":
        folder.write_bytes(b"")
    elif planted == "open folder":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.symlink_to(tmp_path / "file" if planted == "link to a file" else elsewhere)
    before = {one.name: one.read_bytes() for one in [*elsewhere.iterdir(), tmp_path / "file"]}
    said = "closed to others, got something else: remove"
    with pytest.raises(FileAccessError, match=said):
        keys.settle(AFTER)
    with pytest.raises(FileAccessError, match=said):
        keys.plan(BEFORE, AFTER, "two")
    after = {one.name: one.read_bytes() for one in [*elsewhere.iterdir(), tmp_path / "file"]}
    assert before == after


def test_what_is_no_database_is_refused(keys: Keys, tmp_path: Path) -> None:
    keys.plan(BEFORE, AFTER)
    (folder_of(tmp_path / "m") / "keys.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(FileAccessError, match="got something else"):
        keys.plan(BEFORE, AFTER)


def test_a_database_that_is_removed_is_made_again(keys: Keys, tmp_path: Path) -> None:
    keys.plan(BEFORE, AFTER)
    folder_of(tmp_path / "m").rename(tmp_path / "away")
    keys.plan(BEFORE, AFTER)
    keys.record().close()
    assert keys.find() is not None
