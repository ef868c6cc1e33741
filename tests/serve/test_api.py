"""What the server answers, and that each change is the one that the library makes."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from redunet import ReduNetClassifier
from redunet.data.verifying import verify
from redunet.estimators import Estimator, NearestMean, load
from redunet.features import Flatten
from redunet.safety.receipts import Receipts
from redunet.serve.model_store import ModelStore
from redunet.serve.options import Options
from redunet.serve.versions import Found, built
from tests.serve.running import CENTRES, RNG, TOKEN, Client, X, Y, serving, small_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.fixture
def client(path: Path) -> Iterator[Client]:
    with serving(path) as found:
        yield found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_answers_are_those_of_the_model(client: Client, path: Path) -> None:
    model = load(path)
    assert isinstance(model, ReduNetClassifier)
    status, found = client.send(
        "POST", "/v1/predict", {"samples": X[45:].tolist(), "top": 3, "novelty": True}, token=None
    )
    assert status == 200
    assert found["sha256"] == sha256(path)
    assert [one["label"] for one in found["answers"]] == model.predict(X[45:]).tolist()
    probabilities = model.predict_proba(X[45:])
    sent = [
        sorted((row["label"], row["probability"]) for row in one["top"]) for one in found["answers"]
    ]
    np.testing.assert_allclose([[p for _, p in row] for row in sent], probabilities, atol=1e-9)
    novelty = [one["novelty"] for one in found["answers"]]
    np.testing.assert_allclose(novelty, model.novelty(X[45:]), atol=1e-9)
    alone = client.send("POST", "/v1/predict", {"sample": X[0].tolist()})[1]
    assert alone["answers"][0]["label"] == "ant"


def test_novel_samples_are_rejected_where_asked(client: Client, path: Path) -> None:
    model = load(path)
    far = np.array([[0.0, 0, 0, 0, 0, 9], *X[:5]])
    found = client.send("POST", "/v1/predict", {"samples": far.tolist(), "reject": 0.1})[1]
    assert isinstance(model, ReduNetClassifier)
    assert [one["label"] for one in found["answers"]] == model.predict(far, reject=0.1).tolist()
    assert found["threshold"] == pytest.approx(model.rejection_threshold(0.1))


def test_learning_and_forgetting_is_exact_and_in_the_file(client: Client, path: Path) -> None:
    before = sha256(path)
    samples = {"samples": X[45:].tolist(), "label": "dog"}
    status, learnt = client.send("POST", "/v1/learn?wait=true", samples)
    assert (status, learnt["before"], learnt["answering"]) == (200, before, True)
    assert learnt["classes"] == [{"class": "dog", "samples": 15, "change": 15}]
    assert learnt["sha256"] == sha256(path)
    joint = ReduNetClassifier(n_layers=2, n_components=2).fit(X, Y)
    assert path.read_bytes() == joint.to_bytes()
    found = client.send("POST", "/v1/predict", {"sample": CENTRES[3].tolist()})[1]
    assert found["answers"][0]["label"] == "dog"
    gone = client.send("POST", "/v1/unlearn", {"samples": X[45:50].tolist(), "label": "dog"})[1]
    assert gone["classes"] == [{"class": "dog", "samples": 10, "change": -5}]
    forgotten = client.send("POST", "/v1/forget", {"classes": ["dog"]})[1]
    assert forgotten["sha256"] == before == sha256(path)


def test_merging_and_downloading(client: Client, path: Path, tmp_path: Path) -> None:
    other = ReduNetClassifier(n_layers=2, n_components=2).fit(X[45:], Y[45:])
    status, merged = client.send(
        "POST", "/v1/merge", other.to_bytes(), {"Content-Type": "application/octet-stream"}
    )
    assert status == 200, merged
    joint = ReduNetClassifier(n_layers=2, n_components=2).fit(X, Y)
    status, data, _ = client.raw("GET", "/v1/model/file")
    assert (status, data) == (200, joint.to_bytes())
    status, found = client.send(
        "POST", "/v1/merge", NearestMean().fit(X, Y).to_bytes(), {"Content-Type": "x/y"}
    )
    assert status == 422
    assert found["error"] == "expected a model of redunet, got nearest-mean"


def test_the_command_line_may_change_the_file_meanwhile(client: Client, path: Path) -> None:
    model = load(path)
    model.forget(["bee"])
    model.save(path)
    learnt = client.send("POST", "/v1/learn", {"samples": X[45:].tolist(), "label": "dog"})[1]
    assert learnt["before"] == hashlib.sha256(model.to_bytes()).hexdigest()
    assert client.send("GET", "/v1/model")[1]["samples"] == 45
    model = load(path)
    model.forget(["ant"])
    model.save(path)
    for _ in range(100):
        if client.send("GET", "/v1/model")[1]["sha256"] == sha256(path):
            break
        time.sleep(0.05)
    else:
        pytest.fail("the server did not see the change")


def test_the_old_network_answers_while_the_new_one_is_built(path: Path) -> None:
    go, reached = threading.Event(), threading.Event()

    def slow(model: Estimator) -> Found:
        if len(model.classes_) > 3:
            reached.set()
            go.wait(30)
        return built(model)

    store = ModelStore(path, Options(TOKEN, device="cpu"), build=slow)
    try:
        old = store.answers()
        learnt = store.change("learn", lambda model: model.partial_fit(X[50:51], Y[50:51]))
        assert learnt["sha256"] == store.stored.sha256 == sha256(path) != old.sha256
        assert reached.wait(10)
        assert store.answers() is old
        assert len(old.model.predict_proba(X[:1])[0]) == 3
        go.set()
        assert store.wait_built(learnt["version"], 30)
        assert store.answers().sha256 == learnt["sha256"]
    finally:
        store.end()


def test_events_tell_what_changed(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.request("GET", "/v1/events")
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    learnt = client.send("POST", "/v1/learn", {"sample": X[50].tolist(), "label": "dog"})[1]
    events: list[tuple[str, dict[str, object]]] = []
    while len(events) < 2:
        line = answer.fp.readline().decode().strip()
        if line.startswith("event: "):
            data = answer.fp.readline().decode().removeprefix("data: ")
            events.append((line.removeprefix("event: "), json.loads(data)))
    connection.close()
    assert [name for name, _ in events] == ["changed", "ready"]
    assert {about["sha256"] for _, about in events} == {learnt["sha256"]}
    assert events[0][1]["what"] == "learn"


def test_images_as_files(tmp_path: Path) -> None:
    def png(value: int) -> bytes:
        pixels = np.full((5, 5), 10, dtype=np.uint8)
        pixels[value % 5] = 250
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "png")
        return out.getvalue()

    images = np.stack([np.asarray(Image.open(io.BytesIO(png(i)))) for i in range(3)])
    model = ReduNetClassifier(n_layers=1, n_components=1, features=Flatten((5, 5)))
    model.fit(images, ["a", "b", "c"]).save(tmp_path / "m")
    with serving(tmp_path / "m") as client:
        status, found = client.files("/v1/predict/files", [("x.png", png(1)), ("y.png", png(0))])
        assert status == 200, found
        assert [one["label"] for one in found["answers"]] == ["b", "a"]
        before = sha256(tmp_path / "m")
        new = [("../../../etc/x.png", png(3)), ("1.PNG", png(4))]
        status, found = client.files("/v1/learn/files", new, {"labels": "d"})
        assert status == 200, found
        assert found["classes"] == [{"class": "d", "samples": 2, "change": 2}]
        status, found = client.files("/v1/unlearn/files", new, {"labels": "d"})
        assert found["sha256"] == before
        table = io.BytesIO()
        np.savez(table, x=images, y=np.array(["e"] * 3))
        status, found = client.files("/v1/learn/files", [("t.npz", table.getvalue())])
        assert (status, found["samples"]) == (200, 6)


def test_inspection_health_metrics_and_documentation(client: Client, path: Path) -> None:
    model = client.send("GET", "/v1/model")[1]
    assert model["classes"][0] == {"class": "ant", "samples": 15}
    assert len(model["answering"]["delta_R"]) == 2
    assert model["input"]["kind"] == "vectors"
    assert client.send("GET", "/health")[1]["status"] == "ok"
    metrics = client.send("GET", "/metrics")[1].decode()
    assert 'redunet_requests_total{path="/v1/model",status="200"} 1.0' in metrics
    assert "redunet_model_classes 3.0" in metrics
    schema = client.send("GET", "/openapi.json")[1]
    assert set(schema["paths"]) >= {"/v1/predict", "/v1/learn", "/v1/merge", "/v1/events"}
    page = client.send("GET", "/docs")[1].decode()
    assert "POST /v1/unlearn/files" in page
    assert "<script" not in page
    path.unlink()
    status, found = client.send("GET", "/health")
    assert (status, found["file"]) == (503, "missing")


def test_other_estimators_are_served_too(tmp_path: Path) -> None:
    NearestMean().fit(X, np.repeat([3, 1, 4, 7], 15)).save(tmp_path / "m")
    with serving(tmp_path / "m") as client:
        found = client.send("POST", "/v1/predict", {"sample": X[0].tolist(), "novelty": True})[1]
        assert found["answers"][0]["label"] == 3
        assert found["answers"][0]["novelty"] is None
        learnt = client.send("POST", "/v1/learn", {"sample": X[0].tolist(), "label": "12"})[1]
        assert learnt["classes"] == [{"class": 12, "samples": 1, "change": 1}]
        status, found = client.send("POST", "/v1/predict", {"sample": [1] * 6, "reject": 0.1})
        assert status == 422
        assert "nearest-mean does not say how novel" in found["error"]


def test_a_full_queue_refuses_and_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, go = ModelStore.change, threading.Event()

    def slow(served: ModelStore, *given: Any) -> Found:
        go.wait(30)
        return change(served, *given)

    monkeypatch.setattr(ModelStore, "change", slow)
    with serving(path, waiting=2, seconds=0.3) as client:
        found: list[tuple[int, object]] = []

        def learn(place: int) -> None:
            body = {"sample": (X[50] + place).tolist(), "label": "dog"}
            found.append(client.send("POST", "/v1/learn", body))

        threads = [threading.Thread(target=learn, args=(i,)) for i in range(6)]
        for one in threads:
            one.start()
        time.sleep(1)
        go.set()
        for one in threads:
            one.join()
        statuses = sorted(status for status, _ in found)
        assert statuses[0] == 200
        assert statuses[-1] == 429
        learnt = client.send("GET", "/v1/model")[1]["samples"] - 45
        assert learnt == statuses.count(200)


def test_many_clients_at_once_end_like_the_same_changes_in_order(path: Path) -> None:
    """Eight clients learn, ask and forget, interleaved; see also `python -m benchmarks.serve`."""
    parts = RNG.uniform(0, 8, (8, 12, 6))

    def work(client: Client, place: int) -> None:
        label = f"class {place}"
        for start in range(0, 12, 3):
            body = {"samples": parts[place, start : start + 3].tolist(), "label": label}
            assert client.send("POST", "/v1/learn", body)[0] == 200
            asked = {"samples": X[:5].tolist(), "top": 20}
            status, found = client.send("POST", "/v1/predict", asked)
            assert status == 200
            assert len({len(one["top"]) for one in found["answers"]}) == 1
        if place % 2:
            assert client.send("POST", "/v1/forget", {"classes": [label]})[0] == 200

    with serving(path) as client:
        threads = [threading.Thread(target=work, args=(client, i)) for i in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    kept = [place for place in range(8) if not place % 2]
    expected = small_model()
    for place in kept:
        expected.partial_fit(parts[place], [f"class {place}"] * 12)
    assert path.read_bytes() == expected.to_bytes()
    assert TOKEN not in path.read_bytes().decode("latin-1")


def test_a_model_file_that_is_gone_is_not_made_again(path: Path) -> None:
    with serving(path) as client:
        path.unlink()
        body = {"sample": X[50].tolist(), "label": "dog"}
        status, found = client.send("POST", "/v1/learn", body)
        assert status == 503
        assert found["error"] == "cannot read model.safetensors: No such file or directory"
        assert not path.exists()
        assert client.send("POST", "/v1/predict", {"sample": X[0].tolist()})[0] == 200


@pytest.mark.filterwarnings("ignore:.*had labelled itself:UserWarning")
def test_receipts_over_http(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "receipts.jsonl"
    model = small_model().learn_unlabelled(X[:3] + 0.01)
    model.save(path)
    assert model.self_labelled_ is not None
    own = sum(model.self_labelled_.counts)
    np.savez(tmp_path / "gone.npz", x=X[:2], y=Y[:2])
    np.savez(tmp_path / "rest.npz", x=X[2:30], y=Y[2:30])
    with serving(path) as client:
        assert client.send("GET", "/v1/receipts")[0] == 404
    with serving(path, receipts=Receipts(log)) as client:
        assert client.send("GET", "/v1/receipts") == (200, b"")
        client.raw("GET", "/v1/model/file")
        gone = {"samples": X[:2].tolist(), "label": "ant"}
        status, found = client.send("POST", "/v1/unlearn", gone)
        assert status == 200, found
        receipt = found["receipt"]
        assert receipt["superseded"][1]["what"] == "downloaded 1 time"
        assert receipt["self_labelled_withdrawn"] == own > 0
        assert found["notes"][0].startswith(f"{own} samples that the model had labelled itself")
        assert client.send("POST", "/v1/learn", gone)[1].get("receipt") is None
        assert client.send("POST", "/v1/unlearn", gone)[0] == 200
        status, found = client.send("POST", "/v1/forget", {"classes": ["cat"]})
        assert found["receipt"]["previous"] is not None
        copies = [(one["sha256"], one["what"]) for one in found["receipt"]["superseded"]]
        assert copies[1] == (receipt["before"], "downloaded 1 time")  # of a version before it
        assert client.send("POST", "/v1/forget", {"classes": ["yak"]})[0] == 422
        assert client.raw("GET", "/v1/receipts")[1] == log.read_bytes()
    found = verify(
        log,
        path,
        data=[tmp_path / "rest.npz"],
        withdrawn=[tmp_path / "gone.npz"],
        salt=receipt["salt"],
    ).found
    assert len(found["receipts"]) == 3
    assert (found["rebuilt"], found["unchanged_since"]) == (True, True)
    assert found["withdrawn"] == {"line": 1, "samples": 2}
