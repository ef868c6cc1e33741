"""Servers for tests, and clients that send exactly what they are told."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from redunet import ReduNetClassifier
from redunet.serve.http import Server
from redunet.serve.options import Options

TOKEN = "a-token-for-tests-only"
RNG = np.random.default_rng(0)
CENTRES = RNG.uniform(0, 8, (4, 6))
X = np.repeat(CENTRES, 15, axis=0) + RNG.normal(0, 0.5, (60, 6))
Y = np.repeat(["ant", "bee", "cat", "dog"], 15)


def small_model(**settings: Any) -> ReduNetClassifier:
    """A model of three classes of six values, quick to build."""
    model = ReduNetClassifier(**{"n_layers": 2, "n_components": 2, "device": "cpu", **settings})
    return model.fit(X[:45], Y[:45])


class Client:
    """Requests to one server.

    Parameters
    ----------
    port : int
    """

    def __init__(self, port: int) -> None:
        self.port = port

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        token: str | None = TOKEN,
    ) -> tuple[int, Any]:
        """The status and the content of the answer; a body that is no bytes is sent as JSON."""
        status, data, kind = self.raw(method, path, body, headers, token)
        return status, json.loads(data) if kind == "application/json" else data

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        token: str | None = TOKEN,
    ) -> tuple[int, bytes, str]:
        """The same, not decoded, and its media type."""
        given = {} if token is None else {"Authorization": f"Bearer {token}"}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {**given, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get("content-type", "")
        finally:
            connection.close()

    def files(
        self,
        path: str,
        files: list[tuple[str, bytes]],
        fields: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """The answer to files and fields of a form."""
        parts = [
            f'--bound\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
            for name, value in (fields or {}).items()
        ]
        for name, data in files:
            head = f'--bound\r\nContent-Disposition: form-data; name="files"; filename="{name}"'
            parts.append(head.encode() + b"\r\n\r\n" + data + b"\r\n")
        body = b"".join(parts) + b"--bound--\r\n"
        kind = {"Content-Type": "multipart/form-data; boundary=bound"}
        return self.send("POST", path, body, {**kind, **(headers or {})})


@contextmanager
def serving(path: Path, **options: Any) -> Iterator[Client]:
    """A server of a model file in this process, and a client of it."""
    server = Server(path, Options(**{"token": TOKEN, "port": 0, "device": "cpu", **options}))
    thread = threading.Thread(target=server.run)
    thread.start()
    client = Client(int(server.url.rsplit(":", 1)[1].strip("/")))
    try:
        for _ in range(200):
            if server._server.started:
                break
            time.sleep(0.02)
        yield client
    finally:
        server.stop()
        thread.join()
