"""Who may not come in, and what may not be sent: refused, and nothing changed."""

from __future__ import annotations

import io
import json
import socket
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redunet.errors import FileAccessError, SettingsError
from redunet.serve.http import new_token, token_in
from tests.serve.running import TOKEN, Client, X, serving, small_model

pytestmark = pytest.mark.usefixtures("one_thread")
SAMPLE = {"sample": X[0].tolist(), "label": "ant"}
CHANGES = {
    "/v1/learn": SAMPLE,
    "/v1/unlearn": SAMPLE,
    "/v1/forget": {"classes": ["ant"]},
    "/v1/merge": {},
    "/v1/learn/files": {},
    "/v1/unlearn/files": {},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("served") / "model.safetensors"
    small_model().save(found)
    return found


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Client]:
    with serving(path, seconds=1.0, body_bytes=100_000) as found:
        yield found


@pytest.fixture
def client(server: Client, path: Path) -> Iterator[Client]:
    """A client of a server whose file and answers must not have changed afterwards."""
    before, facts = path.read_bytes(), server.send("GET", "/v1/model")
    yield server
    assert path.read_bytes() == before
    assert server.send("GET", "/v1/model") == facts
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", "é" * 20], ids=str)
def test_changes_take_the_token(client: Client, change: str, token: str | None) -> None:
    headers = (
        {} if token is None else {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
    )
    status, found = client.send("POST", change, CHANGES[change], headers, token=None)
    assert status == 401
    assert found["error"].startswith("expected the token")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.", "", "0"]
)
@pytest.mark.parametrize("path_asked", ["/", "/v1/model", "/v1/model/file", "/v1/learn"])
def test_other_hosts_are_refused(client: Client, host: str, path_asked: str) -> None:
    """DNS rebinding: the name of another site that leads to this machine."""
    method = "POST" if path_asked == "/v1/learn" else "GET"
    status, _ = client.send(
        method, path_asked, SAMPLE if method == "POST" else None, {"Host": host}
    )
    assert status == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost", "http://127.0.0.1:1", "https://x"]
)
@pytest.mark.parametrize("asked", ["/v1/learn", "/v1/predict", "/v1/forget"])
def test_other_origins_are_refused(client: Client, origin: str, asked: str) -> None:
    status, found = client.send("POST", asked, SAMPLE, {"Origin": origin})
    assert status == 403
    assert "another Origin" in found["error"]


def test_a_form_of_another_site_is_refused(client: Client) -> None:
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
    for kind in kinds:
        body = json.dumps(SAMPLE).encode()
        status, _ = client.send("POST", "/v1/learn", body, {"Content-Type": kind})
        assert status == 422
    status, _ = client.send("POST", "/v1/learn", SAMPLE, {"Sec-Fetch-Site": "cross-site"})
    assert status == 403


def test_the_own_origin_is_let_in(server: Client) -> None:
    own = {"Origin": f"http://127.0.0.1:{server.port}"}
    asked = {"sample": X[0].tolist()}
    assert server.send("POST", "/v1/predict", asked, own, token=None)[0] == 200


@pytest.mark.parametrize(
    "asked",
    [
        "/../pyproject.toml",
        "/assets/../server.py",
        "/assets/..%2fserver.py",
        "/assets/%2e%2e/server.py",
        "/assets//etc/passwd",
        "//etc/passwd",
        "/assets/",
        "/assets/page.css%00.py",
        "/v1/model/file/../../x",
        "/etc/passwd",
        "/.git/config",
        "/%5c..%5cserver.py",
    ],
)
def test_no_path_leads_to_a_file(client: Client, asked: str) -> None:
    status, found = client.send("GET", asked)
    assert (status, found) == (404, {"error": "Not Found"})


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    assert client.send(method, "/v1/model")[0] == 405


def test_oversized_bodies(client: Client) -> None:
    big = b"0" * 100_001
    assert client.send("POST", "/v1/learn", big, {"Content-Type": "application/json"})[0] == 413
    assert client.send("POST", "/v1/predict", big, {"Content-Type": "application/json"})[0] == 413
    assert client.send("POST", "/v1/merge", big)[0] == 413
    lied = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    chunks = b"".join(b"2710\r\n" + b"0" * 10_000 + b"\r\n" for _ in range(11)) + b"0\r\n\r\n"
    assert _spoken(client, "POST", "/v1/learn", lied, chunks).startswith(b"HTTP/1.1 413")
    many = {"samples": [[0.0] * 6] * 10_001}
    status, _found = client.send("POST", "/v1/predict", many)
    assert status in (413, 422)


def test_bodies_that_are_too_much_together(client: Client) -> None:
    """Each is allowed, and they wait for their ends; then there is room again."""
    head = (
        f"POST /v1/merge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: 99999\r\n\r\n"
    )
    with ExitStack() as stack:
        open_ones = []
        for _ in range(12):
            one = socket.create_connection(("127.0.0.1", client.port), timeout=20)
            stack.enter_context(one)
            one.sendall(head.encode() + b"0" * 90_000)
            open_ones.append(one)
        answers = [one.recv(65536)[:12] for one in open_ones]
    assert answers.count(b"HTTP/1.1 429") >= 1
    assert set(answers) <= {b"HTTP/1.1 429", b"HTTP/1.1 408"}
    assert client.send("POST", "/v1/predict", {"sample": X[0].tolist()})[0] == 200


def test_slow_bodies(client: Client) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": "500"}
    answer = _spoken(client, "POST", "/v1/learn", headers, b'{"sample": [')
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"expected the whole body within 1 s" in answer


def _spoken(client: Client, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """The answer to exactly these bytes, while nothing more is sent."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as one:
        one.sendall(head.encode() + body)
        answer = b""
        while part := one.recv(65536):
            answer += part
    return answer


def bomb() -> bytes:
    """A small .npz of a gigabyte of zeros."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        head = io.BytesIO()
        shape = {"descr": "|u1", "fortran_order": False, "shape": (2**23, 6)}
        np.lib.format.write_array_header_1_0(head, shape)
        archive.writestr("x.npy", head.getvalue() + bytes(6 * 2**23))
        archive.writestr("y.npy", head.getvalue())
    return out.getvalue()


def image_bomb() -> bytes:
    """A small PNG that claims 60,000 × 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.npz", bomb()),
        ("bomb.png", image_bomb()),
        ("x.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 40),
        ("x.jpg", b"no image"),
        ("x.gif", b"GIF89a" + b"\xff" * 30),
        ("x.npz", b"PK\x03\x04" + b"\0" * 50),
        ("x.npy", b"\x93NUMPY\x01\x00" + b"\xff" * 20),
        ("x.csv", b"a,b\n1\n"),
        ("x.parquet", b"PAR1" + b"\xff" * 30 + b"PAR1"),
        ("x.jsonl", b"{"),
        ("x.py", b"print(1)"),
        ("x", b""),
        ("x.safetensors", b"1234"),
        ("x\x01.png/..", b"1"),
        (
            "pickled.npy",
            np.lib.format.magic(1, 0)
            + b"v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
            + b" " * 60
            + b"\n",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("asked", ["/v1/learn/files", "/v1/predict/files"])
def test_malformed_files(client: Client, asked: str, name: str, data: bytes) -> None:
    status, found = client.files(asked, [(name, data)], {"labels": "ant"})
    assert status == 422, found
    assert "\n" not in found["error"]
    assert "/tmp" not in found["error"]
    assert "Traceback" not in found["error"]
    assert not name.endswith("parquet") or "got another ending" in found["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1, 2",
        b"null",
        b"[" * 20_000,
        b'{"sample": ' + b"[" * 30_000,
        b'{"sample": [NaN, 1, 2, 3, 4, 5], "label": "ant"}',
        b'{"sample": [1e999, 1, 2, 3, 4, 5], "label": "ant"}',
        b'{"sample": [1, 2], "label": "ant"}',
        b'{"samples": [[1, 2, 3, 4, 5, 6], [1]], "label": "ant"}',
        b'{"sample": [1, 2, 3, 4, 5, 6]}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": ""}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": 1.5}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": null}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": "a\\u0000b"}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": "\\ud800"}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": "' + b"x" * 300 + b'"}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": "ant", "more": 1}',
        b'{"sample": ["1", "x", 3, 4, 5, 6], "label": "ant"}',
        b'{"text": "hello", "label": "ant"}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "text": "hello", "label": "ant"}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "labels": ["ant", "bee"]}',
        b'{"sample": [1' + b"0" * 400 + b', 2, 3, 4, 5, 6], "label": "ant"}',
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": 1' + b"0" * 4000 + b"}",
        b'{"sample": [1, 2, 3, 4, 5, 6], "label": 1' + b"0" * 5000 + b"}",
        b'{"text": "\\ud800", "label": "ant"}',
        b'{"text": "a"} {}',
        b"\xff\xfe\x00",
    ],
)
def test_malformed_json(client: Client, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    for asked in ("/v1/learn", "/v1/unlearn"):
        status, found = client.send("POST", asked, body, headers)
        assert status == 422, found
        assert "\n" not in found["error"]


def test_what_cannot_be_withdrawn_changes_nothing(client: Client) -> None:
    far = {"sample": [900.0, 0, 0, 0, 0, 1], "label": "ant"}
    assert client.send("POST", "/v1/unlearn", far)[0] == 422
    assert client.send("POST", "/v1/forget", {"classes": ["ant", "bee", "cat"]})[0] == 422
    assert client.send("POST", "/v1/forget", {"classes": ["yak"]})[0] == 422


def test_every_answer_says_what_a_browser_may_do(server: Client) -> None:
    import http.client

    for asked in ("/", "/docs", "/v1/model", "/nowhere", "/assets/page.js"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", asked)
        headers = connection.getresponse().headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        connection.close()


def test_read_only_refuses_changes(path: Path) -> None:
    before = path.read_bytes()
    with serving(path, read_only=True) as client:
        for change, body in CHANGES.items():
            status, found = client.send("POST", change, body)
            assert (status, found["error"]) == (403, "this server is read-only")
        assert client.send("POST", "/v1/predict", {"sample": X[0].tolist()})[0] == 200
    assert path.read_bytes() == before
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]


def test_beyond_this_machine_everything_takes_the_token(path: Path) -> None:
    with serving(path, host="0.0.0.0", read_only=True) as client:
        asked: dict[str, Any] = {"sample": X[0].tolist()}
        for method, where, body in (
            ("POST", "/v1/predict", asked),
            ("GET", "/v1/model", None),
            ("GET", "/v1/model/file", None),
            ("GET", "/v1/events", None),
            ("GET", "/metrics", None),
        ):
            assert client.send(method, where, body, token=None)[0] == 401
        assert client.send("POST", "/v1/predict", asked)[0] == 200
        assert client.send("GET", "/health", token=None)[0] == 200


def test_tokens_in_files(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o644)
    with pytest.raises(FileAccessError, match="chmod 600"):
        token_in(file)
    file.chmod(0o600)
    assert token_in(file) == "0123456789abcdef"
    file.write_text("short")
    with pytest.raises(SettingsError, match="at least 16"):
        token_in(file)
    assert len({new_token() for _ in range(10)}) == 10
    assert len(new_token()) >= 40


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=7),
    max_leaves=12,
)
NAMES = (
    *("sample", "samples", "text", "texts", "label", "labels", "classes"),
    *("top", "novelty", "reject", "other"),
)


@given(
    asked=st.sampled_from(["/v1/predict", "/v1/learn", "/v1/unlearn", "/v1/forget"]),
    body=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4) | VALUES,
    key=st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=9),
)
def test_whatever_is_asked_is_answered_in_one_line(
    server: Client, path: Path, asked: str, body: Any, key: str | None
) -> None:
    before = path.read_bytes()
    headers = {} if key is None else {"Idempotency-Key": key}
    status, found = server.send("POST", asked, body, headers)
    assert status in (200, 422), found
    if status == 422:
        assert path.read_bytes() == before
        assert found["error"]
        assert "\n" not in found["error"]
