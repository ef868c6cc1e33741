"""Errors as statuses, each with one line: what was expected, what came, what to do."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from redunet.errors import BusyError, FileAccessError, ReduNetError
from redunet.serve.batching import FullError
from redunet.serve.idempotency import ReusedKeyError, UnsettledKeyError
from redunet.serve.model_store import UnavailableError


def as_json(value: Any, status: int = 200, headers: Any = None) -> Response:
    """An answer of JSON."""
    data = json.dumps(value, separators=(",", ":")).encode("ascii")
    return Response(data, status, headers, "application/json")


def handle_errors(app: FastAPI) -> None:
    """Answer every error that is foreseen by its status and one line."""

    @app.exception_handler(ReduNetError)
    async def known(request: Request, error: ReduNetError) -> Response:
        status, headers = 422, None
        if isinstance(error, ReusedKeyError | UnsettledKeyError):
            status = 409
        elif isinstance(error, UnavailableError):
            status = 503
        elif isinstance(error, BusyError):
            status, headers = 429, {"retry-after": "1"}
        elif isinstance(error, FileAccessError):
            status = 507
        return as_json({"error": str(error)}, status, headers)

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        where = ".".join(str(one) for one in first["loc"] if one != "body")
        said = f"{where + ': ' if where else ''}{first['msg']}"[:500]
        return as_json({"error": " ".join(said.split())}, 422)  # names of fields can be anything

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        status = 422 if error.status_code == 400 else error.status_code  # a body that is none
        return as_json({"error": error.detail}, status, error.headers)

    @app.exception_handler(FullError)
    async def full(request: Request, error: FullError) -> Response:
        why = "too many requests wait, and nothing was done: try again later"
        return as_json({"error": why}, 429, {"retry-after": "1"})

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return as_json({"error": "expected a whole body"}, 400)  # counted, and sent to nobody

    @app.exception_handler(MemoryError)
    async def too_much(request: Request, error: MemoryError) -> Response:
        return as_json({"error": "out of memory; nothing was changed: send less at a time"}, 413)
