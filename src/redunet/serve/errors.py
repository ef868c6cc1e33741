"""Errors as statuses, each with one line: what was expected, what came, what to do."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from redunet.errors import BusyError, DataError, FileAccessError, ReduNetError


class UnavailableError(ReduNetError):
    """The file or the network is not as it must be, whatever is asked."""


class FullError(BusyError):
    """Too many requests wait, or this one waited for too long."""

    def __init__(self) -> None:
        super().__init__("too many requests wait, and nothing was done: try again later")


class ReusedKeyError(DataError):
    """A key that came before, with another request."""


class UnsettledKeyError(DataError):
    """A key whose request may or may not have been carried out."""


_STATUSES: dict[type[ReduNetError], int] = {
    ReusedKeyError: 409,
    UnsettledKeyError: 409,
    UnavailableError: 503,
    BusyError: 429,
    FileAccessError: 507,
    ReduNetError: 422,
}
"""The first that an error is one of tells its status."""


def as_json(value: Any, status: int = 200, headers: Any = None) -> Response:
    """An answer of JSON."""
    data = json.dumps(value, separators=(",", ":")).encode("ascii")
    return Response(data, status, headers, "application/json")


def handle_errors(app: FastAPI) -> None:
    """Answer every error that is foreseen by its status and one line."""

    @app.exception_handler(ReduNetError)
    async def known(request: Request, error: ReduNetError) -> Response:
        status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
        headers = {"retry-after": "1"} if status == 429 else None
        return as_json({"error": str(error)}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(one) for one in first["loc"] if one != "body")
        said = f"{where + ': ' if where else ''}{first['msg']}"[:500]
        return as_json({"error": " ".join(said.split())}, 422)  # names of fields can be anything

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        status = 422 if error.status_code == 400 else error.status_code  # a body that is none
        return as_json({"error": error.detail}, status, error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return as_json({"error": "expected a whole body"}, 400)  # counted, and sent to nobody

    @app.exception_handler(MemoryError)
    async def too_much(request: Request, error: MemoryError) -> Response:
        return as_json({"error": "out of memory; nothing was changed: send less at a time"}, 413)
