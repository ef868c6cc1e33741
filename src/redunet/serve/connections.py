"""One connection: how long it may take, how much its headers may hold, and who makes room."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from redunet.serve.middleware import HEADERS

HEADER_BYTES = 2**16
"""Most bytes of a request line and headers: a hundred times what browsers and curl send."""

_PIPELINED = 16
"""Requests that may be sent before the first is answered; browsers and curl send one."""

_MOST = 512
"""Connections where the system allows enough open files: one each for hundreds of people."""

_OTHER_FILES = 64
"""Open files besides connections and uploads: libraries, the model, its lock and logs."""

_ORDER = count()
"""Tells which connection has been idle longest; clocks of event loops stand still meanwhile."""


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections, and how slow.

    Parameters
    ----------
    connections : int
        All together; one address may have half of them.
    header_seconds : float
        How long a header may take to come.
    answer_seconds : float
        How long a client may take nothing of its answer.
    """

    connections: int
    header_seconds: float = 10.0
    answer_seconds: float = 30.0


def most_connections() -> int:
    """As many connections as leave half of the open files that are allowed to uploads."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MOST
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return _MOST
    return max(2, min(_MOST, (allowed - _OTHER_FILES) // 2))


class Connection(HttpToolsProtocol):
    """A connection as uvicorn has it, within limits that uvicorn does not know.

    Where there are too many connections, a new one takes the place of the one that has waited
    longest for a request: idle ones keep nobody out.
    """

    def __init__(self, *given: Any, limits: ConnectionLimits, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limits = limits
        self._idle_since: int | None = None
        self._open: list[RequestResponseCycle] = []  # requests whose answer is not complete
        self._in_header = False
        self._refused = False
        self._unused = 0  # bytes that came since the parser last made something of them
        self._header_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a header, in the place of another connection where there are too many."""
        super().connection_made(transport)
        self._idle_since = next(_ORDER)
        self._begin_header_timer()
        everyone = [one for one in self.connections if isinstance(one, Connection)]
        neighbours = [one for one in everyone if one.address == self.address]
        if len(neighbours) > max(1, self._limits.connections // 2):
            self._make_room(neighbours)
        elif len(everyone) > self._limits.connections:
            self._make_room(everyone)

    @property
    def address(self) -> str:
        """The address of the client, without its port."""
        return self.client[0] if self.client else ""

    def eof_received(self) -> None:
        """Take a client that closes its side for gone, so that nothing is written to it."""
        self._disconnect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers, and tell every request that its client is gone."""
        self._disconnect()
        super().connection_lost(exc)
        self._idle_since = None
        self._end_header_timer()
        if self._answer_timer is not None:
            self._answer_timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Read on, as long as the parser makes something of it."""
        if self._refused:
            return
        self._unused += len(data)
        super().data_received(data)
        if self._refused or self.transport.is_closing():
            return
        if self._unused > HEADER_BYTES:  # else the parser copies it all with each part that comes
            self._refuse_unread()
        elif self._idle_since is not None and self._header_timer is None:
            self._begin_header_timer()

    def on_message_begin(self) -> None:
        """Begin a header."""
        self._unused, self._in_header = 0, True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; those after the body are passed over, as they were not checked."""
        if self._in_header:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request, unless its header is too large or too many wait before it."""
        self._unused = len(self.url) + sum(len(k) + len(v) + 4 for k, v in self.headers)
        if self._unused > HEADER_BYTES or len(self.pipeline) >= _PIPELINED:
            raise ValueError("refused")  # the parser stops, and calls send_400_response
        self._unused, self._in_header, self._idle_since = 0, False, None
        self._end_header_timer()
        super().on_headers_complete()
        self._open.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._unused = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the next request, or close."""
        self._open = [one for one in self._open if not one.response_complete]
        super().on_response_complete()
        if self.cycle.response_complete:
            self._idle_since = next(_ORDER)
        if self.transport.is_closing():
            self._close()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read."""
        self._refuse_unread()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection over which nothing comes."""
        self._close()

    def pause_writing(self) -> None:
        """Wait for a client that takes nothing, for some time."""
        super().pause_writing()
        seconds = self._limits.answer_seconds
        self._answer_timer = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, as the client takes its answer."""
        super().resume_writing()
        if self._answer_timer is not None:
            self._answer_timer.cancel()

    def _disconnect(self) -> None:
        for one in self._open:  # uvicorn tells the last one alone
            one.disconnected = True
            one.message_event.set()

    def _begin_header_timer(self) -> None:
        seconds = self._limits.header_seconds
        self._header_timer = self.loop.call_later(seconds, self._header_is_late)

    def _end_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _header_is_late(self) -> None:
        if self._in_header:
            seconds = self._limits.header_seconds
            self._refuse(408, f"expected the whole header within {seconds:g} s")
        else:  # nothing came, so nothing is answered
            self._close()

    def _make_room(self, among: list[Connection]) -> None:
        """Close the one that has been idle longest; where all work, refuse this one."""
        idle = {
            one._idle_since: one for one in among if one is not self and one._idle_since is not None
        }
        if not idle:
            self._refuse(503, "too many connections: try again later")
            return
        oldest = idle[min(idle)]
        oldest._idle_since = None
        oldest.transport.abort()

    def _refuse_unread(self) -> None:
        if self._unused > HEADER_BYTES:
            self._refuse(431, f"expected headers and address of at most {HEADER_BYTES:,} bytes")
        else:
            self._refuse(400, "expected a request of HTTP/1.1, got something else")

    def _refuse(self, status: int, why: str) -> None:
        """Answer in one line and close, after the answers that earlier requests still get."""
        cycle, self._refused = self.cycle, True
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                cycle.keep_alive = False
                return
            self._disconnect()
            if self.pipeline or cycle.response_started:
                self._close()
                return
        body = json.dumps({"error": why}).encode()
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        lines += [name + b": " + value for name, value in [*headers, *HEADERS]]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self._close()

    def _close(self) -> None:
        """Close when the answer was taken, or after some time in any case."""
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self._limits.answer_seconds, self.transport.abort)
