"""Requests of odd shapes: each gets a sound answer below 500, or a closed connection."""

from __future__ import annotations

import io
import json
import random
import socket
import struct
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from PIL import Image

from tests.fuzz.serving import process
from tests.serve.running import TOKEN, Client, X, small_model

_CLIENTS = 16
_BATCH = 500
_PATIENCE = 30.0
"""Seconds in which a server must close after this side has."""

_TRUSTED = 0.2
"""The share of requests that carry the token; they go to a server of their own."""

_METHODS = (
    *("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"),
    *("PRI", "X", ""),
)
_POSTED = (
    *("/v1/predict", "/v1/predict/files", "/v1/learn", "/v1/learn/files", "/v1/unlearn"),
    *("/v1/unlearn/files", "/v1/forget", "/v1/merge"),
)
_PATHS = (
    *_POSTED,
    *("/v1/model", "/v1/model/file", "/v1/receipts", "/v1/events", "/health", "/metrics", "/"),
    *("/docs", "/openapi.json"),
)
_ODD_PATHS = (
    *("", "*", "//", "/../x", "/v1/%00model", "/%ff%zz%1", "/%c0%ae%c0%ae/", "/a b", "/é"),
    *("http://localhost/health", "http://evil.example/", "localhost:1", "/v1/model?wait=\0"),
    *("/v1/learn?wait=maybe", "/v1/learn?" + "wait=1&" * 5000, "/" + "a" * 70_000, "/v1/model#x"),
)
_VERSIONS = ("HTTP/1.1",) * 60 + ("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9.9", "", "http/1.1")
_HEADERS = (
    *(f"Host: {one}" for one in ("localhost", "evil.example", "", "[::1]:80", "[", "a\tb")),
    *(f"Content-Length: {one}" for one in ("5", "-1", "0" * 5000, "²", "99999999999", "0x10")),
    *(f"Transfer-Encoding: {one}" for one in ("gzip", "chunked", "chunked, identity", "")),
    *(f"Authorization: {one}" for one in ("Bearer x", "é", "Basic \xff", "Bearer " + "x" * 9000)),
    *(f"Idempotency-Key: {one}" for one in ("a", "", "k" * 300)),
    *(f"Last-Event-ID: {one}" for one in ("1", "²", "x" * 30)),
    *(f"Connection: {one}" for one in ("upgrade\r\nUpgrade: websocket", "keep-alive, close", "²")),
    *(f"Content-Type: {one}" for one in ("application/json", "text/plain", ";;;", "")),
    *(f"Content-Type: multipart/form-data{one}" for one in ("", "; boundary=", "; boundary=é")),
    *("Expect: 100-continue", "Expect: x", "Origin: http://evil.example", "Origin: null"),
    *("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings", "Sec-Fetch-Site: cross-site"),
    *("X" * 70_000 + ": 1", "X: " + "y" * 70_000, "Cookie: " + "c" * 9000, "Range: bytes=0-1"),
    *("X: \x01", "\x01: 1", "X\r: 1", "X: 1\nY: 2", " folded", "no colon", ": no name"),
)
_ENDINGS = ("png", "npz", "npy", "csv", "jsonl", "parquet", "gif", "tif", "webp", "py", "", "p\0g")
_NAMES = (
    *("sample", "samples", "text", "texts", "label", "labels", "classes", "top", "novelty"),
    *("reject", "\n", "x"),
)


def ask(n: int, seed: int, statuses: Counter[str] | None = None) -> list[str]:
    """Send n requests of odd shapes to two servers, one of which never sees its token.

    The file of that one must stay as it is, both must print nothing and answer to the end.
    """
    rng = random.Random(seed)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name, "model.safetensors") for name in ("untrusted", "trusted")]
        model = small_model().to_bytes()
        with ExitStack() as stack:
            clients = []
            for path in paths:
                path.parent.mkdir()
                path.write_bytes(model)
                printed = stack.enter_context(open(path.with_name("printed"), "wb"))
                server = process(path, "--timeout", "1", errors=printed)
                clients.append(stack.enter_context(server)[1])
            for start in range(0, n, _BATCH):
                seeds = [rng.random() for _ in range(min(_BATCH, n - start))]
                faults += _batch(clients, paths, model, seeds, statuses)
        for path in paths:
            said = path.with_name("printed").read_text()
            faults += [f"fault: printed {said[-300:]!r}"] if said else []
    return faults


def _batch(
    clients: list[Client],
    paths: list[Path],
    model: bytes,
    seeds: list[float],
    statuses: Counter[str] | None,
) -> list[str]:
    faults = []
    with ThreadPoolExecutor(_CLIENTS) as pool:
        for found in pool.map(lambda one: _exchange(clients, model, one), seeds):
            if statuses is not None:
                statuses.update(found.split() if found[:5] != "fault" else ["fault"])
            if found.startswith("fault"):
                faults.append(found)
    if paths[0].read_bytes() != model:
        faults.append("fault: a request without the token changed the model")
        paths[0].write_bytes(model)
    for client in clients:
        faults += _health(client)
    new = paths[1].with_name("new")  # as it was, since it may have learnt much
    new.write_bytes(model)
    new.replace(paths[1])
    return faults


def _health(client: Client) -> list[str]:
    try:
        status = client.send("GET", "/health")[0]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault
        return [f"fault: /health: {error!r}"]
    return [] if status == 200 else [f"fault: /health answers {status}"]


def _exchange(clients: list[Client], model: bytes, seed: float) -> str:
    """The statuses of the answers to one connection, "reset", "closed", or a fault."""
    rng = random.Random(seed)
    trusted = rng.random() < _TRUSTED
    sent = b"".join(request(rng, trusted, model) for _ in range(rng.choice((1, 1, 1, 1, 2, 5))))
    try:
        found = _answers(clients[trusted], sent, rng)
    except TimeoutError:
        return f"fault: left open after {sent[:300]!r}"
    if found is None:
        return "reset"
    try:
        return " ".join(_statuses(found, b"HEAD" in sent)) or "closed"
    except ValueError as error:
        return f"fault: {error} in {found[:300]!r} after {sent[:300]!r}"


def _answers(client: Client, sent: bytes, rng: random.Random) -> bytes | None:
    """All that comes until the server closes, which it must once this side is closed."""
    found, end, ended = b"", rng.random(), False
    with socket.create_connection(("127.0.0.1", client.port), timeout=0.3) as one:
        try:
            for part in _parts(rng, sent):
                one.sendall(part)
            if end < 0.05:  # a reset in the middle of everything
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return None
            if end < 0.2:
                one.shutdown(socket.SHUT_WR)
            while not ended:
                try:
                    part = one.recv(65536)
                except TimeoutError:  # the server waits for more, or the answer takes time
                    if one.gettimeout() == _PATIENCE:
                        raise
                    one.settimeout(_PATIENCE)
                    one.shutdown(socket.SHUT_WR)
                else:
                    ended = not part
                    found += part
        except TimeoutError:
            raise
        except OSError:  # the server closed before it had read everything
            pass
    return found


def _parts(rng: random.Random, data: bytes) -> list[bytes]:
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _statuses(data: bytes, head: bool) -> list[str]:
    """The statuses of answers, each of which must be sound; the last one may be cut."""
    found = []
    while data:
        top, ended, rest = data.partition(b"\r\n\r\n")
        line, *lines = top.split(b"\r\n")
        if not line.startswith(b"HTTP/1.1 ") or not line[9:12].isdigit():
            raise ValueError("no status line")
        status = line[9:12].decode()
        if status >= "500":
            raise ValueError(f"status {status}")
        if ended and any(b":" not in one for one in lines):
            raise ValueError("no header")
        found.append(status)
        headers = {k.lower(): v.strip() for k, _, v in (one.partition(b":") for one in lines)}
        if status == "100" or (head and (not rest or rest.startswith(b"HTTP/1.1 "))):
            data = rest
        elif b"content-length" in headers:
            body = rest[: int(headers[b"content-length"])]
            data = rest[len(body) :]
            if headers.get(b"content-type") == b"application/json" and int(status) >= 400:
                _check_error(body)
        else:
            data = _after_chunks(rest)
    return found


def _check_error(body: bytes) -> None:
    error = json.loads(body)["error"]
    if not isinstance(error, str) or len(error.splitlines()) != 1 or "Traceback" in error:
        raise ValueError("no error of one line")


def _after_chunks(data: bytes) -> bytes:
    while data:
        size, ended, data = data.partition(b"\r\n")
        length = int(size, 16) if ended else 0
        data = data[length + 2 :]
        if not length:
            break
    return data


def request(rng: random.Random, trusted: bool, model: bytes) -> bytes:
    """A request that may be right, nearly right, or nothing of the kind."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.choice((1, 10, 1000)))
    path = rng.choice(_ODD_PATHS) if rng.random() < 0.08 else rng.choice(_PATHS)
    method = rng.choice(_METHODS)
    if rng.random() < 0.8:
        method = (
            "POST" if path.startswith(("/v1/p", "/v1/l", "/v1/u", "/v1/f", "/v1/me")) else "GET"
        )
    kind, body = _body(rng, path, model)
    if rng.random() < 0.3:
        body = mutated(rng, body)
    headers = [] if rng.random() < 0.05 else ["Host: localhost"]
    headers += [f"Authorization: Bearer {TOKEN}"] * trusted
    headers += [f"Content-Type: {kind}"] * (rng.random() < 0.9)
    if rng.random() < 0.2:
        headers.append("Transfer-Encoding: chunked")
        body = _chunked(rng, body)
    elif rng.random() < 0.9:
        headers.append(f"Content-Length: {len(body)}")
    headers += ["Connection: close"] * (rng.random() < 0.8)
    for _ in range(rng.choice((0,) * 7 + (1, 1, 3))):
        headers.insert(rng.randrange(len(headers) + 1), rng.choice(_HEADERS))
    top = (
        "\r\n".join([f"{method} {path} {rng.choice(_VERSIONS)}", *headers]).encode("latin-1")
        + b"\r\n\r\n"
    )
    if rng.random() < 0.08:
        top = mutated(rng, top)
    data = top + body
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.05 else data


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Data with some bytes changed, taken out, put in or repeated."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 10))):
        at = rng.randrange(len(found) + 1)
        end = min(len(found), at + rng.choice((1, 1, 2, 20)))
        found[at:end] = rng.choice(
            [
                b"",
                rng.randbytes(end - at),
                found[at:end] * 2,
                rng.choice((b"\0", b"\r\n", b'"', b"{")),
            ]
        )
    return bytes(found)


def _body(rng: random.Random, path: str, model: bytes) -> tuple[str, bytes]:
    if "files" in path:
        return "multipart/form-data; boundary=x", _form(rng)
    if "merge" in path:
        return "application/octet-stream", model
    return "application/json", json.dumps(_value(rng, path)).encode()


def _value(rng: random.Random, path: str) -> object:
    makers: list[Callable[[], object]] = [
        lambda: X[rng.randrange(len(X))].tolist(),
        lambda: [X[0].tolist()] * rng.randrange(5),
        lambda: rng.choice(["ant", "bee", "", "x" * 300, "\ud800", "1", "\0"]),
        lambda: rng.choice([0, 1, -1, 2**70, 1.5, 1e300, True, None, float("nan"), -0.0]),
        lambda: ["ant"] * rng.randrange(4),
        lambda: [[[]]] * rng.randrange(9),
        lambda: {"a": {"b": []}},
    ]
    if rng.random() < 0.1:
        return rng.choice(makers)()
    value: dict[str, object] = (
        {"sample": makers[0]()} if rng.random() < 0.5 else {"samples": makers[1]()}
    )
    if "learn" in path:
        value["label"] = rng.choice(["ant", "bee", "cat"])
    if "forget" in path:
        value = {"classes": [rng.choice(["ant", "bee", "cat", "yak", 1])]}
    for _ in range(rng.choice((0, 0, 1, 2))):
        value[rng.choice(_NAMES)] = rng.choice(makers)()
    return value


_PART = b'--x\r\nContent-Disposition: form-data; name="'


def _form(rng: random.Random) -> bytes:
    out = io.BytesIO()
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        name = f"{rng.choice(['x', '../x', 'é', 'x' * 2000])}.{rng.choice(_ENDINGS)}"
        out.write(_PART + f'files"; filename="{name}"\r\n\r\n'.encode())
        out.write(_file(rng) + b"\r\n")
    for name in ("labels", "top", "novelty", "reject", "other"):
        if rng.random() < 0.3:
            value = rng.choice(["ant", "1", "true", "0.1", "-1", "1e9", "", "²", "x" * 2000])
            out.write(_PART + f'{name}"\r\n\r\n{value}\r\n'.encode())
    return out.getvalue() + b"--x--\r\n"


def _file(rng: random.Random) -> bytes:
    out = io.BytesIO()
    what = rng.randrange(5)
    if what == 0:
        Image.new("L", (5, 5)).save(out, rng.choice(("PNG", "GIF", "TIFF", "BMP")))
    elif what == 1:
        np.savez(out, x=X[:3], y=np.array(["ant", "bee", "cat"]))
    elif what == 2:
        np.save(out, X[:3])
    elif what == 3:
        out.write(b"a,b,c,d,e,f,label\n1,2,3,4,5,6,ant\n")
    else:
        out.write(json.dumps({"sample": X[0].tolist(), "label": "ant"}).encode() + b"\n")
    return out.getvalue()


def _chunked(rng: random.Random, body: bytes) -> bytes:
    found, at = b"", 0
    while at < len(body):
        size = rng.choice((1, 7, 100, 5000))
        part = body[at : at + size]
        more = rng.choice(["", "", "", ";x=1", ";" + "y" * 500, " "])
        found += f"{len(part):{rng.choice(['x', 'X', '08x'])}}{more}\r\n".encode() + part + b"\r\n"
        at += size
    return found + rng.choice(
        [b"0\r\n\r\n"] * 5 + [b"0\r\nHost: evil\r\n\r\n", b"0\r\n", b"", b"-1\r\n\r\n"]
    )
