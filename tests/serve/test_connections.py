"""Connections that wait, crowd, send too much or stop in the middle keep nobody else out."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from redunet import ReduNetClassifier
from tests.serve.running import TOKEN, Client, X, serving, small_model

pytestmark = pytest.mark.usefixtures("one_thread")
HELLO = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
LEARN = (
    f"POST /v1/learn HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    "Content-Type: application/json\r\n"
).encode()
ASKED = {"sample": X[0].tolist()}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("served") / "model.safetensors"
    small_model().save(found)
    return found


@pytest.fixture(scope="module")
def client(path: Path) -> Iterator[Client]:
    with serving(path) as found:
        yield found


@pytest.fixture(autouse=True)
def silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Check that the server prints nothing, whatever it is sent."""
    yield
    assert capfd.readouterr().err == ""


@contextmanager
def connected(client: Client, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as one:
        one.sendall(sent)
        yield one


def answer(one: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    while part := one.recv(65536):
        found += part
    return found


def flooded(one: socket.socket, part: bytes) -> int:
    """How many bytes of a repeated part are sent until the server closes, 50 million at most."""
    sent = 0
    with suppress(ConnectionError):
        while sent < 50_000_000:
            one.sendall(part)
            sent += len(part)
    return sent


def dropped(one: socket.socket) -> bool:
    """Whether the server drops a connection over which only line ends come."""
    for _ in range(100):
        try:
            one.sendall(b"\r\n")
        except ConnectionError:
            return True
        time.sleep(0.05)
    return False


def said(client: Client, sent: bytes) -> bytes:
    """The answer to these bytes, after which the client closes its side."""
    with connected(client, sent) as one:
        return answer(one)


def test_idle_connections_lock_nobody_out(path: Path) -> None:
    with serving(path, connections=40) as client, ExitStack() as stack:
        idle = [stack.enter_context(connected(client, HELLO[:9] * (i % 2))) for i in range(100)]
        assert client.send("GET", "/health", token=None)[0] == 200
        assert client.send("POST", "/v1/predict", ASKED)[0] == 200
        idle[-1].sendall(HELLO[9:] + b"Connection: close\r\n\r\n")
        assert answer(idle[-1]).startswith(b"HTTP/1.1 200")


def test_a_header_has_to_come_in_time(path: Path) -> None:
    with serving(path, header_seconds=0.2) as client:
        with connected(client) as nothing:
            assert answer(nothing) == b""
        with connected(client, HELLO) as half:
            found = answer(half)
        assert found.startswith(b"HTTP/1.1 408 ")
        assert found.endswith(b'\r\n\r\n{"error": "expected the whole header within 0.2 s"}')
        with connected(client, HELLO + b"\r\n") as kept:  # an idle line is not kept by line ends
            assert dropped(kept)


def test_connections_at_work_make_no_room(path: Path) -> None:
    listening = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(path, connections=4) as client, ExitStack() as stack:
        for _ in range(4):
            one = stack.enter_context(connected(client, listening))
            assert one.recv(100).startswith(b"HTTP/1.1 200")
        with connected(client) as one:
            assert answer(one).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize(
    "begun",
    [b"GET /", HELLO + b"X: ", HELLO + b"X", HELLO],
    ids=["address", "value", "name", "many"],
)
def test_headers_are_bounded(client: Client, begun: bytes) -> None:
    part = b"X: 1\r\n" * 600 if begun == HELLO else b"x" * 4_000
    with connected(client, begun) as one:
        assert flooded(one, part) < 10_000_000  # the kernel still takes some
    whole = {b"GET /": b" HTTP/1.1\r\nHost: localhost", HELLO + b"X": b": 1"}.get(begun, b"")
    with connected(client, begun + part * 5) as one:
        assert answer(one).startswith(b"HTTP/1.1 431 ")
    with connected(client, begun + part + whole + b"\r\nConnection: close\r\n\r\n") as one:
        assert answer(one)[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 404", b"HTTP/1.1 405")


def test_what_comes_after_a_body_is_bounded_and_no_header(client: Client) -> None:
    chunked = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n"
    chunked = LEARN + chunked
    with connected(client, chunked + b"Host: evil\r\n\r\n") as one:  # a second Host is refused
        assert answer(one).startswith(b"HTTP/1.1 422 ")
    with connected(client, chunked + b"X: ") as one:
        assert flooded(one, b"x" * 50_000) < 10_000_000


def test_a_client_that_takes_nothing_is_left(tmp_path: Path) -> None:
    """The answers are more than the kernel keeps for a client."""
    path = tmp_path / "model.safetensors"
    samples = np.random.default_rng(0).uniform(0, 8, (900, 300))
    model = ReduNetClassifier(n_layers=1, n_components=2, device="cpu")
    model.fit(samples, ["ant", "bee", "cat"] * 300).save(path)
    assert path.stat().st_size > 1_000_000
    asked = b"GET /v1/model/file HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(path, seconds=0.3) as client, connected(client, asked * 16) as one:
        assert dropped(one)
        assert client.send("GET", "/health")[0] == 200


@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("0" * 4400, b"400"),
        ("9" * 18, b"413"),
        ("18446744073709551617", b"413"),
        ("+5", b"400"),
        ("-1", b"400"),
        ("\xb2", b"400"),
        ("5, 6", b"400"),
        ("5\r\nContent-Length: 6", b"400"),
        ("5\r\nTransfer-Encoding: chunked", b"400"),
        ("", b"400"),
    ],
)
def test_odd_lengths_are_refused(client: Client, length: str, status: bytes) -> None:
    found = said(client, LEARN + f"Content-Length: {length}\r\n\r\n".encode("latin-1") + b"12345")
    assert found[9:12] == status
    assert found.partition(b"\r\n\r\n")[2].startswith(b'{"error": "expected ')


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /health HTTP/1.0\r\n\r\n", b"421"),
        (b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n", b"200"),
        (b"GET /health\r\n\r\n", b"400"),
        (b"GET http://evil.example/health HTTP/1.0\r\nHost: evil.example\r\n\r\n", b"421"),
        (b"GET http://localhost/health HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET http://localhost HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
        (b"GET /v1/\0model HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /v1/%00model HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET /%ff%zz%1%C0%AE HTTP/1.0\r\nHost: localhost\r\n\r\n", b"404"),
        ("GET /é HTTP/1.0\r\nHost: localhost\r\n\r\n".encode(), b"400"),
        (HELLO + b" folded\r\n\r\n", b"421"),
        (HELLO + b"A\x01: 1\r\n\r\n", b"400"),
        (LEARN + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (LEARN + b"Transfer-Encoding: gzip\r\n\r\n12", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"421"),
    ],
)
def test_odd_requests_are_answered(client: Client, sent: bytes, status: bytes) -> None:
    assert said(client, sent)[9:12] == status


@pytest.mark.parametrize("what", ["learn", "merge", "learn/files"])
@pytest.mark.parametrize("sent", [0, 10, 300_000])
def test_a_client_that_closes_in_the_middle_is_passed_over(
    client: Client, what: str, sent: int
) -> None:
    head = LEARN.replace(b"learn", what.encode())
    if what == "learn/files":
        head = head.replace(b"application/json", b"multipart/form-data; boundary=x")
    with connected(client, head + b"Content-Length: 400000\r\n\r\n" + b"-" * sent) as one:
        one.shutdown(socket.SHUT_WR)
        answer(one)
    assert client.send("GET", "/health")[0] == 200


def test_what_cannot_be_read_does_not_break_an_earlier_answer(client: Client) -> None:
    found = said(client, HELLO + b"\r\n\x01\x02")
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.count(b"HTTP/1.1 ") <= 2
    body = found.partition(b"\r\n\r\n")[2]
    assert body.startswith(b'{"status":"ok"')


def test_a_wrong_token_is_refused_before_the_body_is_sent(client: Client) -> None:
    head = LEARN.replace(TOKEN.encode(), b"wrong")
    head += b"Expect: 100-continue\r\nContent-Length: 60000\r\n\r\n"
    assert said(client, head).startswith(b"HTTP/1.1 401 ")
    with connected(client, head.replace(b"wrong", TOKEN.encode())) as one:
        assert one.recv(100).startswith(b"HTTP/1.1 100 ")
