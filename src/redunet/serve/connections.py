"""HTTP connections with limits that uvicorn does not have: how many, and how slow."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from redunet.serve.middleware import HEADERS
from redunet.serve.options import Options

_HEADER_BYTES = 2**14
"""Most bytes of a request line and headers that h11 takes; browsers send fewer."""


class Connection(H11Protocol):
    """A connection as uvicorn has it; h11 keeps it to headers of 16 KB and one request at a time.

    Where there are too many connections, a new one takes the place of the one that has waited
    longest for a request: idle ones keep nobody out.
    """

    def __init__(self, *given: Any, options: Options, **named: Any) -> None:
        super().__init__(*given, **named)
        self._options = options
        self._waiting: asyncio.TimerHandle | None = None  # for a request
        self._sending: asyncio.TimerHandle | None = None  # to a client that takes nothing

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, in the place of another connection where there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._options.connections:
            self._make_room()

    def eof_received(self) -> None:
        """Take a client that closes its side for gone, so that nothing is written to it."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        super().connection_lost(exc)
        self._stop_waiting()
        self.resume_writing()

    def handle_events(self) -> None:
        """Take what came; once it holds a whole header, nothing is waited for."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()
        elif self.cycle.response_complete:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request of HTTP, unless an answer was begun."""
        if len(self.conn.trailing_data[0]) > _HEADER_BYTES:
            self._refuse(431, f"expected headers and address of at most {_HEADER_BYTES:,} bytes")
        else:
            self._refuse(400, "expected a request of HTTP/1.1, got something else")

    def timeout_keep_alive_handler(self) -> None:
        """Leave idle connections to the timer that begins anew with each request alone."""

    def pause_writing(self) -> None:
        """Wait for a client that takes nothing, for some time."""
        super().pause_writing()
        self._sending = self.loop.call_later(self._options.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on, as the client takes its answer."""
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(self._options.header_seconds, self._is_late)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _is_late(self) -> None:
        if self.conn.trailing_data[0]:
            seconds = self._options.header_seconds
            self._refuse(408, f"expected the whole header within {seconds:g} s")
        else:  # nothing came, so nothing is answered
            self._close()

    def _make_room(self) -> None:
        """Close the one that has been idle longest; where all work, refuse this one."""
        idle = {
            one._waiting.when(): one
            for one in self.connections
            if isinstance(one, Connection) and one is not self and one._waiting is not None
        }
        if not idle:
            self._refuse(503, "too many connections: try again later")
            return
        oldest = idle[min(idle)]
        oldest._stop_waiting()
        oldest.transport.abort()

    def _refuse(self, status: int, why: str) -> None:
        """Answer in one line and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [(b"content-type", b"application/json"), (b"connection", b"close"), *HEADERS]
            phrase = HTTPStatus(status).phrase.encode()
            answer = h11.Response(status_code=status, headers=headers, reason=phrase)
            body = h11.Data(data=json.dumps({"error": why}).encode())
            for event in (answer, body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self._close()

    def _close(self) -> None:
        """Close when the answer was taken, or after some time in any case."""
        self.transport.close()
        self.loop.call_later(self._options.seconds, self.transport.abort)
