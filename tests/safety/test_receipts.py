"""Receipts of deletions: what they say, how they are chained, and how they are verified."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from redunet import DataError, ModelFileError, ReduNetClassifier, SettingsError
from redunet.cli.app import main
from redunet.data import withdrawing
from redunet.data.model_file import ModelFile
from redunet.data.source import ReadOptions
from redunet.data.verifying import verify as verified
from redunet.estimators import load
from redunet.features import Standardize
from redunet.safety.journal import DONE, NOT_DONE, Journal, canonical
from redunet.safety.receipts import Receipts, sample_hashes
from redunet.safety.untrusted import file_sha256

pytestmark = pytest.mark.usefixtures("one_thread")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 5))
Y = np.repeat(["ant", "bee", "cat", "dog"], 10)


def model() -> ReduNetClassifier:
    return ReduNetClassifier(n_layers=1, n_components=2, device="cpu").fit(X, Y)


def verify(*given: Any, **more: Any) -> dict[str, Any]:
    return verified(*given, **more).to_dict()


def say(text: str) -> None:
    """Nobody needs to hear it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    model().save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def data(tmp_path: Path, rows: slice, name: str = "data") -> Path:
    np.savez(tmp_path / f"{name}.npz", x=X[rows], y=Y[rows])
    return tmp_path / f"{name}.npz"


def key(tmp_path: Path, name: str = "key") -> Path:
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (tmp_path / f"{name}.pem").write_bytes(pem)
    (tmp_path / f"{name}.pem").chmod(0o600)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / f"{name}.pub").write_bytes(public)
    return tmp_path / f"{name}.pem"


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in words])
    return done.exit_code, done.output


def test_a_receipt_in_python(tmp_path: Path) -> None:
    one, log = model(), tmp_path / "r.jsonl"
    before = hashlib.sha256(one.to_bytes()).hexdigest()
    receipt = Receipts(log).forget(one, ["bee"])
    assert one.classes_.tolist() == ["ant", "cat", "dog"]
    assert receipt["before"] == before
    assert receipt["after"] == hashlib.sha256(one.to_bytes()).hexdigest()
    assert receipt["withdrawn"] == {"by": "class", "classes": [{"class": "bee", "samples": 10}]}
    assert receipt["remaining"] == {"classes": 3, "samples": 30}
    second = Receipts(log).unlearn(one, X[:3], Y[:3])
    assert second["withdrawn"]["hashes"] == sorted(sample_hashes(X[:3], Y[:3], second["salt"]))
    assert second["salt"] not in log.read_text()
    lines = list(Journal(log).read())
    assert [line.body["kind"] for line in lines] == ["change", DONE, "change", DONE]
    assert lines[2].body["previous"] == lines[1].sha256
    one.save(tmp_path / "m")
    assert verify(log, tmp_path / "m")["unchanged_since"]


def test_the_command_line_writes_and_verifies(path: Path, tmp_path: Path) -> None:
    log, private = tmp_path / "r.jsonl", key(tmp_path)
    code, said = run("forget", path, "dog", "--receipt", log, "--sign-key", private)
    assert code == 0, said
    assert "Receipt " in said
    gone = data(tmp_path, slice(0, 2), "gone")
    code, said = run("unlearn", path, gone, "--receipt", log, "--sign-key", private, "--json")
    assert code == 0, said
    salt = json.loads(said)["receipt"]["salt"]
    rest = data(tmp_path, slice(2, 30), "rest")
    code, said = run(
        *("receipts", "verify", log, path, "--data", rest, "--withdrawn", gone),
        *("--salt", salt, "--public-key", tmp_path / "key.pub", "--json"),
    )
    assert code == 0, said
    found = json.loads(said)
    assert (found["rebuilt"], found["signed"], found["lines"]) == (True, 4, 4)
    assert found["withdrawn"] == {"line": 3, "samples": 2}
    assert [row["outcome"] for row in found["receipts"]] == [DONE, DONE]
    code, said = run("receipts", "verify", log, path)
    assert code == 0, said
    assert "The chain is intact: 4 lines" in said
    key(tmp_path, "other")
    code, said = run("receipts", "verify", log, path, "--public-key", tmp_path / "other.pub")
    assert code == 2
    assert "signed with another key" in said


def test_more_or_less_data_than_remains_is_found(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "r.jsonl"
    withdrawing.forget(path, ["dog"], tell=say, receipts=Receipts(log))
    for rows, what in (
        (slice(0, 40), "'dog' has 0 samples in the model and 10"),
        (slice(0, 29), "'cat' has 10"),
    ):
        with pytest.raises(ModelFileError, match=what):
            verify(log, path, data=[data(tmp_path, rows)])
    X2 = X[:30].copy()
    X2[0] += 1
    np.savez(tmp_path / "other.npz", x=X2, y=Y[:30])
    with pytest.raises(ModelFileError, match="the samples differ"):
        verify(log, path, data=[tmp_path / "other.npz"])
    verify(log, path, data=[data(tmp_path, slice(0, 30))])


def test_a_copy_that_was_put_back_is_found(path: Path, tmp_path: Path) -> None:
    log, old = tmp_path / "r.jsonl", path.read_bytes()
    withdrawing.forget(path, ["dog"], tell=say, receipts=Receipts(log))
    new = path.read_bytes()
    path.write_bytes(old)
    with pytest.raises(ModelFileError, match="what was withdrawn is in it"):
        verify(log, path)
    path.write_bytes(new)
    grown = load(path)
    grown.partial_fit(X[:4], ["elk"] * 4)
    grown.save(path)
    with pytest.raises(ModelFileError, match=r"is the file of no line of .*; then pass all rem"):
        verify(log, path)
    np.savez(
        tmp_path / "more.npz",
        x=np.concatenate([X[:30], X[:4]]),
        y=np.array([*Y[:30], *["elk"] * 4]),
    )
    found = verify(log, path, data=[tmp_path / "more.npz"])
    assert (found["unchanged_since"], found["rebuilt"]) == (False, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [lines[0].replace(b'"bee"', b'"boa"'), *lines[1:]], "line 1 was altered"),
        (lambda lines: [lines[0], *lines[2:]], "line 2 does not follow"),
        (lambda lines: lines[1:], "line 1 does not follow"),
        (lambda lines: [*lines[:2], lines[3], lines[2]], "line 3 does not follow"),
        (lambda lines: [lines[0], b"{}\n"], "line 2: expected a line of a log"),
        (lambda lines: [b"\xff\n"], "line 1: expected a line of a log"),
        (lambda lines: [b"[" * 100_000 + b"\n"], "line 1: expected a line of a log"),
        (lambda lines: [], "expected receipts in"),
    ],
)
def test_an_altered_log_is_found(path: Path, tmp_path: Path, change: object, message: str) -> None:
    log = tmp_path / "r.jsonl"
    for label in ("bee", "dog"):
        withdrawing.forget(path, [label], tell=say, receipts=Receipts(log))
    lines = log.read_bytes().splitlines(keepends=True)
    assert callable(change)
    log.write_bytes(b"".join(change(lines)))
    with pytest.raises(DataError, match=message):
        verify(log, path)


def test_a_forged_signature_is_found(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "r.jsonl"
    withdrawing.forget(path, ["bee"], tell=say, receipts=Receipts(log, key(tmp_path)))
    content = [json.loads(line) for line in log.read_bytes().splitlines()]
    content[0]["signature"] = content[1]["signature"]
    log.write_bytes(b"".join(canonical(one) + b"\n" for one in content))
    with pytest.raises(DataError, match="line 1 has a signature that is not valid"):
        verify(log, path)
    for one in content:
        del one["signature"], one["public_key"]
    log.write_bytes(b"".join(canonical(one) + b"\n" for one in content))
    assert verify(log, path)["signed"] == 0
    with pytest.raises(DataError, match="line 1 of the log is not signed"):
        verify(log, path, key=tmp_path / "key.pub")


@pytest.mark.parametrize("stage", ["before", "after", "torn"])
def test_a_process_that_ends_leaves_a_line_that_is_settled(
    path: Path, tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the receipt and the file, after the file, or in the middle of a line."""
    log, receipts = tmp_path / "r.jsonl", Receipts(tmp_path / "r.jsonl")

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if stage == "before":
            patch.setattr(ReduNetClassifier, "save", killed)
        else:
            patch.setattr(Journal, "close", killed)
        with pytest.raises(KilledError):
            withdrawing.forget(path, ["bee"], tell=say, receipts=receipts)
    if stage == "torn":
        with open(log, "ab") as file:
            file.write(b'{"body":{"change":"4f')
    expected = NOT_DONE if stage == "before" else DONE
    assert [row["outcome"] for row in verify(log, path)["receipts"]] == [expected]
    withdrawing.forget(path, ["dog"], tell=say, receipts=Receipts(log))
    rows = verify(log, path)["receipts"]
    assert [row["outcome"] for row in rows] == [expected, DONE]


def test_receipts_name_what_they_do_not_reach(path: Path, tmp_path: Path) -> None:
    os.link(path, tmp_path / "copy.safetensors")
    log = tmp_path / "r.jsonl"
    features = Standardize.learn(np.asarray(X))
    learnt = ReduNetClassifier(n_layers=1, n_components=2, features=features).fit(X, Y)
    learnt.save(tmp_path / "learnt")
    found = withdrawing.forget(path, ["bee"], tell=say, receipts=Receipts(log))
    assert found.found["receipt"]["superseded"][1]["what"] == "hard link, kept"
    assert any("1 known copies" in note for note in verify(log, path)["notes"])
    with_map = withdrawing.forget(
        tmp_path / "learnt", ["bee"], tell=say, receipts=Receipts(tmp_path / "s.jsonl")
    )
    assert with_map.found["receipt"]["feature_map"]["still_holds"] == "means and deviations"


def test_an_error_leaves_no_receipt(path: Path, tmp_path: Path) -> None:
    log, before = tmp_path / "r.jsonl", path.read_bytes()
    with pytest.raises(DataError):
        withdrawing.forget(path, ["yak"], tell=say, receipts=Receipts(log))
    with pytest.raises(DataError):
        withdrawing.unlearn(
            ModelFile(path, [data(tmp_path, slice(0, 40))], ReadOptions()), receipts=Receipts(log)
        )
    assert path.read_bytes() == before
    assert not log.exists()
    log.write_text("my shopping list\n")
    with pytest.raises(DataError, match="expected a line of a log that redunet wrote"):
        withdrawing.forget(path, ["bee"], tell=say, receipts=Receipts(log))
    assert (path.read_bytes(), log.read_text()) == (before, "my shopping list\n")
    assert run("forget", path, "bee", "--sign-key", "x")[0] == 2
    (tmp_path / "bad.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    (tmp_path / "bad.pem").chmod(0o600)
    with pytest.raises(DataError, match="Ed25519"):
        Receipts(log, tmp_path / "bad.pem")


# Logs that are something else


def copies(path: Path, tmp_path: Path) -> list[Path]:
    """A file under its own name and two others."""
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    return [path, tmp_path / "link", tmp_path / "hard"]


@pytest.mark.parametrize("command", ["forget", "unlearn", "serve", "python"])
def test_a_model_is_no_log_by_any_name(path: Path, tmp_path: Path, command: str) -> None:
    before, gone = path.read_bytes(), data(tmp_path, slice(0, 2))
    for log in copies(path, tmp_path):
        if command == "python":
            with pytest.raises(DataError, match="line 1: expected a line of a log"):
                Receipts(log).forget(model(), ["bee"])
            with pytest.raises(SettingsError, match="got the model"):
                withdrawing.forget(path, ["bee"], tell=say, receipts=Receipts(log))
        else:
            option = "--receipts" if command == "serve" else "--receipt"
            words = {"forget": ["bee"], "unlearn": [str(gone)], "serve": ["--port", "0"]}[command]
            code, said = run(command, path, *words, option, log)
            assert (code, said) == (
                2,
                f"redunet: expected a log of receipts, got the model, {path}: name another file\n",
            )
        assert path.read_bytes() == before


def test_a_key_that_others_may_read_is_refused(path: Path, tmp_path: Path) -> None:
    private, before = key(tmp_path), path.read_bytes()
    for mode in (0o644, 0o640, 0o604):
        private.chmod(mode)
        code, said = run("forget", path, "bee", "--receipt", tmp_path / "r", "--sign-key", private)
        assert (code, said) == (
            2,
            f"redunet: expected that nobody else may read {private}, which holds a private key: "
            f"chmod 600 {private}\n",
        )
    assert path.read_bytes() == before
    assert not (tmp_path / "r").exists()


# What verifies too much


def test_a_sample_is_in_a_receipt_as_often_as_it_was_withdrawn(path: Path, tmp_path: Path) -> None:
    log, rows = tmp_path / "r.jsonl", [0, 1, 1, 2]
    twice = load(path).partial_fit(X[1:2], Y[1:2])
    twice.save(path)
    np.savez(tmp_path / "gone.npz", x=X[rows], y=Y[rows])
    found = withdrawing.unlearn(
        ModelFile(path, [tmp_path / "gone.npz"], ReadOptions()), receipts=Receipts(log)
    )
    salt = found.found["receipt"]["salt"]

    def matched(*rows: int) -> object:
        np.savez(tmp_path / "w.npz", x=X[list(rows)], y=Y[list(rows)])
        return verify(log, path, withdrawn=[tmp_path / "w.npz"], salt=salt)["withdrawn"]

    assert matched(0, 1, 1, 2) == {"line": 1, "samples": 4}
    assert matched(1, 2, 1) == {"line": 1, "samples": 3}
    assert matched(2) == {"line": 1, "samples": 1}
    for wrong in ((0, 0, 0), (1,), (0, 1, 1, 1), (2, 9)):
        with pytest.raises(DataError, match=f"expected all {len(wrong)} samples in one receipt"):
            matched(*wrong)


PARTS = ("withdrawn", "time", "superseded", "feature_map")


def rewritten(log: Path, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Write a log again with a line changed, and with hashes that fit."""
    previous, texts = None, []
    for index, line in enumerate(log.read_bytes().splitlines()):
        body = json.loads(line)["body"]
        if index == number:
            change(body)
        body["previous"] = previous
        previous = hashlib.sha256(canonical(body)).hexdigest()
        texts.append(canonical({"body": body, "sha256": previous}) + b"\n")
    log.write_bytes(b"".join(texts))


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.pop("before"),
        *(lambda body, name=name: body.update({name: [7]}) for name in PARTS),
        *(lambda body, name=name: body.pop(name) for name in PARTS),
        lambda body: body["withdrawn"]["classes"][0].pop("samples"),
        lambda body: body["withdrawn"].update(hashes=[[]]),
        lambda body: body["superseded"][0].pop("what"),
        lambda body: body.update(kind="done", change="x"),
    ],
)
def test_a_line_without_what_receipts_have_is_refused_in_one_line(
    path: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    log = tmp_path / "r.jsonl"
    withdrawing.forget(path, ["bee"], tell=say, receipts=Receipts(log))
    rewritten(log, 0, lambda body: None)
    assert run("receipts", "verify", log, path)[0] == 0
    rewritten(log, 0, change)
    code, said = run("receipts", "verify", log, path)
    assert code == 2
    assert said.startswith("redunet: ")
    assert said.count("\n") == 1
    assert "line 1" in said or "line 2 is about a change that is not in the log" in said


def test_models_are_hashed_part_by_part(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is ever in memory as a whole: to hash it, to verify it, to write a receipt."""

    def whole(*_: object) -> NoReturn:
        raise AssertionError("read as a whole")

    one = model()
    assert one.sha256() == hashlib.sha256(one.to_bytes()).hexdigest() == file_sha256(path)
    monkeypatch.setattr(Path, "read_bytes", whole)
    monkeypatch.setattr(ReduNetClassifier, "to_bytes", whole)
    assert run("verify", path)[0] == 0
    assert run("card", path, "-o", tmp_path / "card.md")[0] == 0
    assert run("forget", path, "bee", "--receipt", tmp_path / "r")[0] == 0
    Receipts(tmp_path / "s").forget(one, ["bee"])
