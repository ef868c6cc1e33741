"""Who may come in, and with how much: checked before anything of a body is read."""

from __future__ import annotations

import asyncio
import hmac
import json
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redunet.serve.options import Options
from redunet.serve.page import PATHS

CHANGES = frozenset(
    f"/v1/{name}"
    for name in ("learn", "learn/files", "unlearn", "unlearn/files", "forget", "merge")
)
"""The paths that change the model."""

OPEN = frozenset({"/health", *PATHS})
"""The paths that need no token even where the server can be reached from elsewhere."""

JSON_BYTES = 2**24
"""Most bytes of a body of JSON."""

_MOST_BODIES = 8
"""Bodies of the largest size that may be worked on at once; of smaller ones more."""

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
"""The headers of every answer."""


class AccessMiddleware:
    """The outermost layer of the application.

    Parameters
    ----------
    app : ASGI application
    options : Options
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app, self._options = app, options
        self._held = 0  # bytes of all bodies that are being worked on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = _with_headers(send)
        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, guarded)
            return
        body = _Body()
        try:
            await self._app(scope, self._limited(scope, receive, body), guarded)
        finally:
            self._held -= body.seen

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that may not come in."""
        options, path, headers = self._options, scope["path"], Headers(scope=scope)
        # By hand: Starlette's TrustedHostMiddleware takes the first of several Host headers, cuts
        # an IPv6 address at its first colon, and answers 400 by a line that is no JSON.
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in options.hosts:
            return _refusal(421, "expected a Host that this server goes by: see --allow-host")
        for origin in headers.getlist("origin"):
            if origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
                return _refusal(
                    403, "expected a request from this server's own page, got another Origin"
                )
        if headers.getlist("sec-fetch-site") == ["cross-site"] and scope["method"] != "GET":
            return _refusal(
                403, "expected a request from this server's own page, got one of another site"
            )
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refusal(405, "expected GET or POST")
        if path in CHANGES and options.read_only:
            return _refusal(403, "this server is read-only")
        needs_token = path in CHANGES or (not options.is_local and path not in OPEN)
        if needs_token and not self._has_token(headers):
            return _refusal(
                401,
                "expected the token that the server printed: Authorization: Bearer TOKEN",
                {"www-authenticate": "Bearer"},
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            return _refusal(400, "expected Content-Length or Transfer-Encoding, got both")
        if int(headers.get("content-length", 0)) > self._most_bytes(headers):
            return _refusal(413, f"expected at most {self._most_bytes(headers):,} bytes")
        return None

    def _has_token(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        wanted = f"Bearer {self._options.token}"
        return len(given) == 1 and hmac.compare_digest(given[0].encode(), wanted.encode())

    def _most_bytes(self, headers: Headers) -> int:
        kind = headers.get("content-type", "application/json").partition(";")[0].strip()
        most = self._options.body_bytes
        return min(most, JSON_BYTES) if kind == "application/json" else most

    def _limited(self, scope: Scope, receive: Receive, body: _Body) -> Receive:
        """Receive a body as far as it is neither too long nor too slow."""
        options, most = self._options, self._most_bytes(Headers(scope=scope))
        deadline = asyncio.get_running_loop().time() + options.seconds
        close = {"connection": "close"}  # what follows of the body is not read

        async def limited() -> Message:
            if body.ended:  # after the body this waits until the client is gone
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                why = f"expected the whole body within {options.seconds:g} s"
                raise HTTPException(408, why, close) from None
            came = len(message.get("body", b""))
            body.seen += came
            self._held += came
            body.ended = not message.get("more_body", False)
            if body.seen > most:
                raise HTTPException(413, f"expected at most {most:,} bytes", close)
            if self._held > _MOST_BODIES * options.body_bytes:
                raise HTTPException(429, "too much is being sent at once: try again later", close)
            return message

        return limited


@dataclass
class _Body:
    """The bytes of a body that came, and whether that is all."""

    seen: int = 0
    ended: bool = False


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS:
                headers.setdefault(name.decode(), value.decode())
        await send(message)

    return guarded


def _refusal(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    """An answer that ends the connection, as what follows of the body is not read."""
    content = json.dumps({"error": why})
    return Response(content, status, {"connection": "close", **(headers or {})}, "application/json")
