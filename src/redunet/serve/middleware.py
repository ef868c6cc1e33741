"""Who may come in, and with how much: checked before anything of a body is read."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from redunet.serve.page import PATHS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CHANGES = frozenset(
    f"/v1/{name}"
    for name in ("learn", "learn/files", "unlearn", "unlearn/files", "forget", "merge")
)
"""What changes the model."""

OPEN = frozenset({"/health", *PATHS})
"""What needs no token even where the server can be reached from elsewhere."""

JSON_BYTES = 2**24
"""Most bytes of a body of JSON."""

_MOST_BODIES = 8
"""Bodies of the largest size that may be worked on at once; of smaller ones more."""

_OPEN_BODIES = 6
"""Of these, how many may come without the token."""

_LONGEST_LENGTH = 18
"""Most digits of a Content-Length: an exabyte. Python refuses to read a number of thousands."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(self), microphone=(), geolocation=()"),
    (b"cache-control", b"no-store"),
]
"""Of every answer."""


@dataclass(frozen=True)
class Rules:
    """Who may come in.

    Parameters
    ----------
    token : str
        For changes.
    hosts : frozenset of str
        Names that this server goes by.
    local : bool
        Whether it can be reached from this machine alone; if not, everything takes the token.
    read_only : bool
    body_bytes : int
        Most bytes of a body.
    body_seconds : float
        How long a body may take to come.
    requests : int
        Most requests at once without the token; half of them from one address.
    """

    token: str
    hosts: frozenset[str]
    local: bool = True
    read_only: bool = False
    body_bytes: int = 2**26
    body_seconds: float = 30.0
    requests: int = 384


class Gate:
    """The outermost layer of the application.

    Parameters
    ----------
    app : ASGI application
    rules : Rules
    """

    def __init__(self, app: App, rules: Rules) -> None:
        self._app, self._rules = app, rules
        self._held = 0  # bytes of all bodies that are being worked on
        self._open: Counter[str] = Counter()  # requests without the token, by address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _with_headers(send)
        refused = self._refused(scope)
        if refused is not None:
            await _answer(guarded, *refused)
            return
        body = _Body(trusted=self._knows(scope))
        address = (scope.get("client") or ("",))[0]
        if not body.trusted:
            if self._is_full(address):
                await _answer(guarded, 503, "too many requests at once: try again later")
                return
            self._open[address] += 1
        try:
            await self._app(scope, self._limited(scope, receive, body), guarded)
        finally:
            self._held -= body.seen
            if not body.trusted:
                self._open[address] -= 1
                if not self._open[address]:
                    del self._open[address]

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """The status and reason for a request that may not come in."""
        rules, path = self._rules, scope["path"]
        # By hand: Starlette's TrustedHostMiddleware takes the first of several Host headers, cuts
        # an IPv6 address at its first colon, and answers 400 by a line that is no JSON.
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or _name(hosts[0]) not in rules.hosts:
            return 421, "expected a Host that this server goes by: see --allow-host"
        for origin in _values(scope, b"origin"):
            if origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
                return 403, "expected a request from this server's own page, got another Origin"
        if _values(scope, b"sec-fetch-site") == ["cross-site"] and scope["method"] != "GET":
            return 403, "expected a request from this server's own page, got one of another site"
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "expected GET or POST"
        if path in CHANGES and rules.read_only:
            return 403, "this server is read-only"
        if (path in CHANGES or (not rules.local and path not in OPEN)) and not self._knows(scope):
            return 401, "expected the token that the server printed: Authorization: Bearer TOKEN"
        for length in _values(scope, b"content-length"):
            if not length.isdecimal() or len(length) > _LONGEST_LENGTH:
                return 400, f"expected a Content-Length of 1 to {_LONGEST_LENGTH} digits"
            if int(length) > self._most_bytes(scope):
                return 413, f"expected at most {self._most_bytes(scope):,} bytes"
        return None

    def _is_full(self, address: str) -> bool:
        most = self._rules.requests
        return self._open[address] >= max(1, most // 2) or self._open.total() >= most

    def _knows(self, scope: Scope) -> bool:
        given = _values(scope, b"authorization")
        wanted = f"Bearer {self._rules.token}"
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), wanted.encode())

    def _most_bytes(self, scope: Scope) -> int:
        kinds = _values(scope, b"content-type")
        is_json = not kinds or kinds[0].split(";")[0].strip() == "application/json"
        return min(self._rules.body_bytes, JSON_BYTES) if is_json else self._rules.body_bytes

    def _limited(self, scope: Scope, receive: Receive, body: _Body) -> Receive:
        """What gives the body as far as it is neither too long nor too slow."""
        rules, most = self._rules, self._most_bytes(scope)
        deadline = asyncio.get_running_loop().time() + rules.body_seconds

        async def limited() -> Message:
            if body.ended:  # after the body this waits until the client is gone
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise _refusal(
                    408, f"expected the whole body within {rules.body_seconds:g} s"
                ) from None
            came = len(message.get("body", b""))
            body.seen += came
            self._held += came
            body.ended = not message.get("more_body", False)
            if body.seen > most:
                raise _refusal(413, f"expected at most {most:,} bytes")
            bodies = _MOST_BODIES if body.trusted else _OPEN_BODIES
            if self._held > bodies * rules.body_bytes:
                raise _refusal(429, "too much is being sent at once: try again later")
            return message

        return limited


@dataclass
class _Body:
    """How much of a body came, whether that is all, and whether its request has the token."""

    trusted: bool
    seen: int = 0
    ended: bool = False


def _refusal(status: int, why: str) -> HTTPException:
    return HTTPException(status, why, {"connection": "close"})


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {key.lower() for key, _ in message.get("headers", [])}
            more = [(key, value) for key, value in HEADERS if key not in there]
            message["headers"] = [*message.get("headers", []), *more]
        await send(message)

    return guarded


async def _answer(send: Send, status: int, why: str) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # what follows of the body is not read
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
