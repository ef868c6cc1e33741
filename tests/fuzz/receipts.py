"""Damaged and forged logs of receipts, signed and not: none verifies, and none loses a line.

``python -m tests.fuzz.receipts 1000 7`` forges a thousand logs from seed 7, and prints how many
were refused, sound, shorter by whole lines, and at fault. A fault is a log that is taken for intact
though a byte differs from the one that was written, an error of several lines, any other error, and
a byte that is lost when a line is added, other than those of one line that was cut short.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from redunet.data import withdrawing
from redunet.data.verifying import verify
from redunet.errors import ReduNetError
from redunet.estimators import NearestMean
from redunet.safety.journal import canonical
from redunet.safety.receipts import Receipts

Random = np.random.Generator
Forge = Callable[[bytes, Random], bytes]


def forge(n: int, seed: int) -> list[str]:
    """The faults among n forged logs, half of them signed."""
    return [outcome for outcome in outcomes(n, seed).elements() if outcome.startswith("fault")]


def outcomes(n: int, seed: int) -> Counter[str]:
    """What became of n forged logs: "refused", "sound", "shorter", "unfinished", "fault: ..."."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        logs = [_Log(Path(name, "plain"), signed=False), _Log(Path(name, "signed"), signed=True)]
        for index in range(n):
            random = np.random.default_rng([seed, index])
            log = logs[index % len(logs)]
            kind = list(FORGERIES)[int(random.integers(len(FORGERIES)))]
            outcome = log.outcome(FORGERIES[kind](log.whole, random))
            counts[f"{outcome} ({kind})" if outcome.startswith("fault") else outcome] += 1
    return counts


class _Log:
    """A log of two receipts in a folder of its own, beside the model that they are about."""

    def __init__(self, folder: Path, signed: bool) -> None:
        folder.mkdir()
        self.path, self.model = folder / "log", folder / "m"
        self.public = _keys(folder) if signed else None
        self.receipts = Receipts(self.path, folder / "key" if signed else None)
        X = np.arange(24.0).reshape(8, 3)
        NearestMean().fit(X, np.repeat(["ant", "bee", "cat", "dog"], 2)).save(self.model)
        for label in ("bee", "dog"):
            withdrawing.forget(self.model, [label], tell=lambda said: None, receipts=self.receipts)
        self.whole = self.path.read_bytes()

    def outcome(self, data: bytes) -> str:
        self.path.write_bytes(data)
        try:
            found = verify(self.path, self.model, key=self.public).to_dict()
            outcome = "unfinished" if found["unfinished"] else "sound"
        except ReduNetError as error:
            outcome = "refused"
            if len(str(error.args[0]).splitlines()) != 1:
                return f"fault: not one line, {error!r}"
        except Exception as error:  # noqa: BLE001 - that is the question
            return f"fault: {type(error).__name__}: {error}"
        if outcome == "sound" and data != self.whole:
            if not self.whole.startswith(data) or not data.endswith(b"\n"):
                return "fault: taken for intact"
            outcome = "shorter"
        return self._added(data) or outcome

    def _added(self, data: bytes) -> str | None:
        """What is wrong after another receipt was added."""
        journal = self.receipts.journal
        complete = data[: data.rfind(b"\n") + 1]
        try:
            journal.close(journal.plan("x", "y", {}))
        except ReduNetError:
            return None if self.path.read_bytes() == data else "fault: refused and yet changed"
        except Exception as error:  # noqa: BLE001 - that is the question
            return f"fault: adding gave {type(error).__name__}: {error}"
        now = self.path.read_bytes()
        if not now.startswith(complete) or now[len(complete) :].count(b"\n") > 3:
            return "fault: adding a line lost bytes"
        return None


def _keys(folder: Path) -> Path:
    private = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    kind, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key").write_bytes(private.private_bytes(pem, kind, plain))
    (folder / "key").chmod(0o600)
    public = private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "pub").write_bytes(public)
    return folder / "pub"


# Ways to forge a log


def _place(data: bytes, random: Random) -> int:
    return int(random.integers(len(data) + 1))


def _line(data: bytes, random: Random) -> tuple[list[bytes], int]:
    lines = data.splitlines(keepends=True)
    return lines, int(random.integers(len(lines)))


def _flipped(data: bytes, random: Random) -> bytes:
    raw = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        raw[int(random.integers(len(raw)))] ^= int(random.integers(1, 256))
    return bytes(raw)


def _cut_out(data: bytes, random: Random) -> bytes:
    begin, end = sorted((_place(data, random), _place(data, random)))
    return data[:begin] + data[end:]


def _swapped(data: bytes, random: Random) -> bytes:
    (lines, one), (_, other) = _line(data, random), _line(data, random)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _doubled(data: bytes, random: Random) -> bytes:
    lines, one = _line(data, random)
    at = int(random.integers(len(lines) + 1))
    return b"".join([*lines[:at], lines[one], *lines[at:]])


def _left_out(data: bytes, random: Random) -> bytes:
    lines, one = _line(data, random)
    return b"".join([*lines[:one], *lines[one + 1 :]])


def _inserted(data: bytes, random: Random) -> bytes:
    at = int(random.choice([0, len(data), _place(data, random), _place(data, random)]))
    junk = [b" ", b"\n", b"\r", b"\t", b"\0", b"{}", b"junk", b"junk\n", b"\xe2\x80\xa8", b"\x85"]
    more = junk[int(random.integers(len(junk)))] if random.integers(2) else random.bytes(9)
    return data[:at] + more + data[at:]


def _repeated_key(data: bytes, random: Random) -> bytes:
    """A key twice, with another value or the same, beside the body or in it."""
    lines, one = _line(data, random)
    text, names = lines[one], [b'"kind":', b'"number":', b'"sha256":', b'"body":', b'"previous":']
    name = names[int(random.integers(len(names)))]
    value = [b'"x"', b"null", b"7", b"{}", text.split(name)[-1].split(b",")[0].rstrip(b"}\n")]
    more = name + value[int(random.integers(len(value)))]
    at = text.rfind(b"}", 0, len(text) - 2 * int(random.integers(2)))
    return b"".join([*lines[:one], text[:at] + b"," + more + text[at:], *lines[one + 1 :]])


def _hashed_again(data: bytes, random: Random) -> bytes:
    """The last line written in another way, with a hash that fits."""
    *lines, text = data.splitlines(keepends=True)
    content = json.loads(text)
    body = canonical(content.pop("body"))
    ways: list[Callable[[bytes], bytes]] = [
        lambda body: body[:-1] + b',"kind":"done"}',
        lambda body: body.replace(b'"kind"', b'"kind":"change","kind"'),
        lambda body: body.replace(b":", b": ", 1),
        lambda body: body.replace(b"done", b"\\u0064one"),
        lambda body: body.replace(b'"number":3', b'"number":3.0'),
        lambda body: body.replace(b'"number":3', b'"number":30e-1'),
        lambda body: b"[" + body + b"]",
        lambda body: body[: int(random.integers(len(body)))],
    ]
    new = ways[int(random.integers(len(ways)))](body)
    beside = {**content, "sha256": hashlib.sha256(new).hexdigest()}
    return b"".join([*lines, b'{"body":', new, b",", canonical(beside)[1:], b"\n"])


def _written_again(data: bytes, random: Random) -> bytes:
    """The values that it has, as other programs write them."""
    lines, one = _line(data, random)
    indent = {"separators": (", ", ": ")} if random.integers(2) else {"sort_keys": False}
    content = dict(reversed(json.loads(lines[one]).items()))
    lines[one] = json.dumps(content, **indent).encode() + b"\n"
    return b"".join(lines)


def _another_signature(data: bytes, random: Random) -> bytes:
    """The signature or hash of another line, another letter in it, or none."""
    lines, one = _line(data, random)
    content, other = json.loads(lines[one]), json.loads(_line(data, random)[0][0])
    name = list(content)[int(random.integers(1, len(content)))]
    match int(random.integers(3)):
        case 0:
            content[name] = other[name]
        case 1:
            at = int(random.integers(len(content[name])))
            letter = "ABCDQgwxyz0123456789abcdef="[int(random.integers(27))]
            content[name] = content[name][:at] + letter + content[name][at + 1 :]
        case 2:
            del content[name]
    lines[one] = canonical(content) + b"\n"
    return b"".join(lines)


FORGERIES: dict[str, Forge] = {
    "bytes flipped": _flipped,
    "cut": lambda data, random: data[: _place(data, random)],
    "cut out": _cut_out,
    "lines swapped": _swapped,
    "a line twice": _doubled,
    "a line left out": _left_out,
    "junk": _inserted,
    "a key twice": _repeated_key,
    "hashed again": _hashed_again,
    "written again": _written_again,
    "signatures": _another_signature,
    "CRLF": lambda data, random: data.replace(b"\n", b"\r\n", int(random.integers(1, 5))),
    "a byte order mark": lambda data, random: b"\xef\xbb\xbf" + data,
    "several": lambda data, random: _flipped(_inserted(_cut_out(data, random), random), random),
}
"""How a log is forged, by name."""


if __name__ == "__main__":
    found = outcomes(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(f"{dict(found)}\n")
    sys.exit(any(outcome.startswith("fault") for outcome in found))
