"""A served file that is damaged, cannot be built, is held by others, or cannot be written about."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from redunet import ReduNetClassifier
from redunet.data.verifying import verify
from redunet.errors import BusyError
from redunet.estimators import Estimator, load
from redunet.safety.journal import DONE, Journal, Line, changes
from redunet.safety.lock import changing
from redunet.safety.receipts import Receipts
from redunet.serve.idempotency import KeyRecord
from redunet.serve.model_store import ModelStore
from redunet.serve.options import Options
from redunet.serve.versions import NO_FACTS
from tests.fuzz.serving import process
from tests.serve.running import X, Y, serving, small_model

pytestmark = pytest.mark.usefixtures("one_thread")
DOG = {"sample": X[50].tolist(), "label": "dog"}
ASKED = {"sample": X[0].tolist()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@contextmanager
def held(path: Path) -> Iterator[None]:
    with changing(path, lambda said: None):
        yield


@contextmanager
def served_file(path: Path, receipts: Receipts | None = None) -> Iterator[ModelStore]:
    served = ModelStore(path, Options("", device="cpu", receipts=receipts))
    try:
        yield served
    finally:
        served.end()


def learn_dog(model: Estimator) -> None:
    model.partial_fit(X[45:50], Y[45:50])


def forget_ant(model: Estimator) -> None:
    model.forget(["ant"])


def zeros_learnt(model: ReduNetClassifier) -> ReduNetClassifier:
    """A model that no network can be built of: it has a class of zero vectors only."""
    return model.partial_fit(np.zeros((3, X.shape[1])), ["zero"] * 3)


def test_a_model_that_cannot_be_built_is_served_and_repaired(path: Path) -> None:
    before = path.read_bytes()
    zeros_learnt(small_model()).save(path)
    with serving(path) as client:
        status, found = client.send("GET", "/health")
        assert (status, found["answering"], found["file"]) == (503, None, "there")
        assert "zero" in found["failed"]
        model = client.send("GET", "/v1/model")[1]
        assert model["failed"] == found["failed"]
        assert model["answering"].keys() == {"version", "sha256", *NO_FACTS}
        assert set(model["answering"].values()) == {None}
        assert client.send("GET", "/metrics")[0] == 200
        for asked in (ASKED, {**ASKED, "reject": 0.1}):
            status, answer = client.send("POST", "/v1/predict", asked)
            assert (status, answer["error"].count("\n")) == (503, 0)
            assert found["failed"] in answer["error"]
        forgotten = client.send("POST", "/v1/forget?wait=true", {"classes": ["zero"]})[1]
        assert forgotten["answering"]
        assert path.read_bytes() == before
        assert client.send("GET", "/health")[1]["answering"] == 2
        assert client.send("POST", "/v1/predict", ASKED)[0] == 200


def test_a_network_that_fails_later_says_so_and_the_one_before_answers(path: Path) -> None:
    zeros = {"samples": [[0.0] * X.shape[1]], "label": "zero"}
    with serving(path) as client:
        status, found = client.send("POST", "/v1/learn?wait=true", zeros)
        assert (status, found["answering"]) == (200, False)
        status, health = client.send("GET", "/health")
        assert (status, health["version"], health["answering"]) == (503, 2, 1)
        assert client.send("POST", "/v1/predict", ASKED)[0] == 200
        assert client.send("POST", "/v1/unlearn?wait=true", zeros)[1]["answering"]
        assert client.send("GET", "/health")[0] == 200


def test_a_merge_that_cannot_be_built_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    other = zeros_learnt(small_model()).forget(["ant", "bee", "cat"])
    with serving(path) as client:
        status, found = client.send("POST", "/v1/merge", other.to_bytes())
        assert status == 422
        assert "class 'zero'" in found["error"]
        assert path.read_bytes() == before
        assert client.send("GET", "/v1/model")[1]["version"] == 1


@pytest.mark.parametrize(
    "planted", ["garbage", "folder", "pipe", "link", "link to a copy", "nothing", "other version"]
)
def test_what_is_not_the_model_is_said_and_not_served(
    path: Path, tmp_path: Path, planted: str
) -> None:
    good, away = path.read_bytes(), tmp_path / "away"
    with serving(path) as client:
        path.rename(away)
        if planted == "garbage":
            path.write_bytes(b"garbage" + good)
        elif planted == "other version":
            path.write_bytes(good[:-8] + bytes(8))
        elif planted == "folder":
            path.mkdir()
        elif planted == "pipe":
            os.mkfifo(path)
        elif planted == "link":
            (tmp_path / "secret").write_bytes(b"a secret of another user")
            path.symlink_to(tmp_path / "secret")
        elif planted == "link to a copy":
            path.symlink_to(away)
        for _ in range(2):  # the second time it is known
            status, found = client.send("GET", "/health")
            assert status == 503
            assert found["file"] == ("missing" if planted == "nothing" else "wrong")
            assert "model.safetensors" in found["failed"]
            assert str(tmp_path) not in found["failed"]
        status, found = client.send("GET", "/v1/model/file")
        assert (status, list(found)) == (503, ["error"])
        assert client.send("POST", "/v1/learn", DOG)[0] == 503
        assert client.send("POST", "/v1/predict", ASKED)[0] == 200
        if path.is_dir():
            path.rmdir()
        away.replace(path)
        assert client.send("GET", "/health")[0] == 200
        assert client.raw("GET", "/v1/model/file")[1] == good


def test_a_link_is_followed_when_the_server_starts_and_not_later(
    path: Path, tmp_path: Path
) -> None:
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(path)
    small_model().forget(["ant"]).save(other)
    untouched = other.read_bytes()
    with serving(link) as client:
        learnt = client.send("POST", "/v1/learn", DOG)[1]
        assert learnt["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        link.unlink()
        link.symlink_to(other)
        assert client.send("POST", "/v1/forget", {"classes": ["dog"]})[0] == 200
        assert load(path).moments_.labels == ("ant", "bee", "cat")
        path.rename(tmp_path / "away")
        path.symlink_to(other)
        assert client.send("POST", "/v1/learn", DOG)[0] == 503
        assert client.send("GET", "/health")[0] == 503
    assert other.read_bytes() == untouched


def test_a_download_is_booked_under_its_own_hash(path: Path) -> None:
    with served_file(path) as served:
        other = small_model().forget(["ant"])
        other.save(path)  # not yet noticed
        with served.download() as file:
            data = file.read()
        sha256 = hashlib.sha256(other.to_bytes()).hexdigest()
        assert hashlib.sha256(data).hexdigest() == sha256 == served.stored.sha256
        assert served.downloads == {sha256: 1}


def test_a_file_with_a_forged_time_is_not_handed_out(path: Path) -> None:
    with served_file(path) as served:
        found = path.stat()
        with path.open("r+b") as file:
            file.seek(-8, os.SEEK_END)
            file.write(bytes(8))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        served.refresh()
        assert served.problem is not None
        with pytest.raises(Exception, match="altered"):
            served.download()


def test_every_earlier_download_is_named(path: Path, tmp_path: Path) -> None:
    with served_file(path, Receipts(tmp_path / "log")) as served:
        handed = []
        for label in ("dog", "elk"):
            served.download().close()
            handed.append(served.stored.sha256)
            served.change("learn", lambda model, y=label: model.partial_fit(X[45:50], [y] * 5))  # type: ignore[misc]
        receipt = served.change("forget", forget_ant)["receipt"]
        named = [one["sha256"] for one in receipt["superseded"] if "downloaded" in one["what"]]
        assert named == handed


def test_a_wait_for_the_file_is_bounded(path: Path) -> None:
    with serving(path, seconds=0.2) as client:
        with held(path):
            status, found = client.send("POST", "/v1/learn", DOG)
            assert status == 429
            assert "is still changing" in found["error"]
            assert client.send("GET", "/health")[0] == 200
        assert client.send("POST", "/v1/learn", DOG)[0] == 200
        assert client.send("GET", "/v1/model")[1]["samples"] == 46


def test_a_wait_ends_with_the_server(path: Path) -> None:
    with served_file(path) as served, held(path):
        ended: list[Exception] = []

        def wait() -> None:
            try:
                served.change("learn", learn_dog)
            except BusyError as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        served.stop()
        thread.join(10)
        assert len(ended) == 1


def test_sigterm_ends_a_server_whose_change_waits(path: Path) -> None:
    before = path.read_bytes()
    with process(path, "--timeout", "600") as (running, client), held(path):
        found: list[int] = []
        thread = threading.Thread(
            target=lambda: found.append(client.send("POST", "/v1/learn", DOG)[0])
        )
        thread.start()
        time.sleep(0.5)
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(30) == 0
        thread.join()
        assert found == [429]
    assert path.read_bytes() == before


class FullJournal(Journal):
    """A log on a disk that is full once a change is made."""

    def close(self, change: Line, outcome: str = DONE) -> None:
        raise OSError("no space left")


def test_a_change_that_cannot_be_closed_is_answered_with_a_note(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(record: KeyRecord) -> None:
        raise OSError("no space left")

    log, request = tmp_path / "log", ("one", [b"x"])
    receipts = Receipts(log)
    receipts.journal = FullJournal(log)
    with served_file(path, receipts) as served, monkeypatch.context() as patched:
        patched.setattr(KeyRecord, "close", full)
        found = served.change("forget", forget_ant, request)
        assert [note.count("\n") for note in found["notes"]] == [0, 0]
        assert "not yet written down as done with the receipt" in found["notes"][0]
        assert "with the Idempotency-Key" in found["notes"][1]
        assert found["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert served.stored.sha256 == found["sha256"]
    assert [outcome for _, outcome in changes(list(Journal(log).read()))] == [None]
    with served_file(path, Receipts(log)) as served:
        assert [outcome for _, outcome in changes(list(Journal(log).read()))] == [DONE]
        again = served.change("forget", forget_ant, request)
        assert (again["repeated"], again["sha256"]) == (True, found["sha256"])
    assert verify(log, path).found["unchanged_since"]


def test_the_next_change_settles_what_could_not_be_closed(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    receipts = Receipts(log)
    with served_file(path, receipts) as served:
        working, receipts.journal = receipts.journal, FullJournal(log)
        assert served.change("forget", forget_ant)["notes"]
        receipts.journal = working
        assert not served.change("learn", learn_dog)["notes"]
        assert [outcome for _, outcome in changes(list(Journal(log).read()))] == [DONE]


def test_an_unforeseen_error_of_the_builder_is_seen_and_survived(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ReduNetClassifier.predict_proba

    def fails(model: ReduNetClassifier, X: NDArray[np.float64]) -> NDArray[np.float64]:
        if "dog" in model.moments_.labels:
            raise KeyError("nobody\nforesaw")
        return answer(model, X)

    monkeypatch.setattr(ReduNetClassifier, "predict_proba", fails)
    with serving(path) as client:
        learnt = client.send("POST", "/v1/learn?wait=true", DOG)[1]
        assert not learnt["answering"]
        status, found = client.send("GET", "/health")
        assert status == 503
        assert found["failed"].startswith("KeyError: ")
        assert [one.message.count("\n") for one in caplog.records] == [0]
        assert caplog.records[0].levelno == logging.ERROR
        assert client.send("POST", "/v1/forget?wait=true", {"classes": ["dog"]})[1]["answering"]
        assert client.send("GET", "/health")[0] == 200


def test_an_unforeseen_error_of_the_watcher_is_seen_and_survived(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: object) -> Estimator:
        raise KeyError("nobody foresaw")

    with serving(path) as client:
        with monkeypatch.context() as patched:
            patched.setattr("redunet.serve.model_store.load", fails)
            small_model().forget(["ant"]).save(path)
            status, found = client.send("GET", "/health")
            assert (status, found["failed"]) == (503, "KeyError: 'nobody foresaw'")
            assert caplog.records
        small_model().forget(["bee"]).save(path)
        for _ in range(200):  # the watcher goes on
            if client.send("GET", "/v1/model")[1]["answering"]["version"] == 2:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the server did not see the change")
        assert client.send("GET", "/health")[0] == 200


def test_receipts_are_sent_without_a_line_that_was_cut_short(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(path, receipts=Receipts(log)) as client:
        client.send("POST", "/v1/forget", {"classes": ["ant"]})
        whole = log.read_bytes()
        with log.open("ab") as file:
            file.write(whole[:20])
        assert client.raw("GET", "/v1/receipts")[:2] == (200, whole)
        log.write_bytes(whole.replace(b"ant", b"bee"))
        status, found = client.send("GET", "/v1/receipts")
        assert status == 422
        assert "was altered" in found["error"]
