"""The HTTP interface: words of requests to calls, and errors to statuses."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

from fastapi import FastAPI, File, Form, Header, Query, Request, UploadFile
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel
from sse_starlette import EventSourceResponse
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from redunet._version import __version__
from redunet.safety.journal import Journal
from redunet.safety.untrusted import open_regular
from redunet.serve import inputs, page, schemas
from redunet.serve.batching import FullError
from redunet.serve.errors import as_json, handle_errors
from redunet.serve.idempotency import LONGEST_KEY
from redunet.serve.measures import CONTENT_TYPE
from redunet.serve.middleware import App, Gate, Message, Receive, Rules, Scope, Send
from redunet.serve.service import Service, request_of

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=BaseModel)

_WATCH = 0.5
"""Seconds between two looks at the file, which other processes may change."""

_SMALL = 2**16
"""Bytes of JSON that are read at once, without a thread of their own."""

_BEAT = 15
"""Seconds between comments on a line of events, so that a dead line is noticed."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=LONGEST_KEY,
        description="A change that is sent again with the same key counts once, for 24 hours, also "
        "after the server was killed.",
    ),
]
Wait = Annotated[
    bool, Query(description="Answer when the new network answers, not when the file is written.")
]
Uploads = Annotated[
    list[UploadFile], File(description="Images, or .npz, .npy, .csv or .jsonl files.")
]
Labels = Annotated[list[str] | None, Form(description="Of images: one for each, or one for all.")]
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Problem, "description": what}
    for status, what in {
        408: "The body came too slowly.",
        413: "The body is too large.",
        422: "Something in the request cannot be used; nothing was changed.",
        429: "Too many requests wait, or for too long; nothing was changed.",
        503: "The model's file or network is not as it must be; nothing was changed.",
    }.items()
}
_CHANGE_PROBLEMS = {
    401: {"model": schemas.Problem, "description": "No token, or a wrong one."},
    409: {"model": schemas.Problem, "description": "The key came before, with another request."},
    **_PROBLEMS,
}


def application(service: Service, rules: Rules) -> App:
    """The application that a server runs.

    Parameters
    ----------
    service : Service
    rules : Rules
        Who may come in.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.events.start()
        watching = asyncio.create_task(_watch(service))
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        service.end()

    app = FastAPI(
        title="redunet",
        version=__version__,
        summary="A classifier that learns and forgets exactly, while it runs.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    handle_errors(app)
    _answers(app, service)
    _changes(app, service)
    _facts(app, service)
    _pages(app)
    known = {route.path for route in app.routes}  # type: ignore[attr-defined]
    return Gate(_measured(app, service, known), rules)


async def _watch(service: Service) -> None:
    """Take over what other processes write to the file."""
    while True:
        await asyncio.sleep(_WATCH)
        await asyncio.to_thread(service.served.problem)  # seen by /health


def _answers(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/predict",
        openapi_extra=_body(schemas.Question),
        responses={200: {"model": schemas.Answers}, **_PROBLEMS},
        tags=["answers"],
    )
    async def predict(request: Request) -> Response:
        """Label samples or texts, one or many, by one version of the model."""
        asked, _ = await _read(service, request, schemas.Question)
        if asked.text is None and asked.texts is None:
            future = service.ask(asked)
        else:  # an encoder takes its time
            future = await service.in_thread(service.ask, asked)
        try:
            async with asyncio.timeout(service.limits.seconds):
                answers = await asyncio.wrap_future(future)
        except TimeoutError:
            raise FullError from None
        return as_json(service.shown(answers, asked))

    @app.post(
        "/v1/predict/files",
        responses={200: {"model": schemas.Answers}, **_PROBLEMS},
        tags=["answers"],
    )
    async def predict_files(
        files: Uploads,
        top: Annotated[int, Form(ge=1, le=1000)] = 1,
        novelty: Annotated[bool, Form()] = False,
        reject: Annotated[float | None, Form(gt=0, lt=1)] = None,
    ) -> Response:
        """Label images, or the rows of tables and arrays."""
        asked = schemas.Question(top=top, novelty=novelty, reject=reject)
        return as_json(await service.in_thread(service.answer_files, _opened(files), asked))


def _changes(app: FastAPI, service: Service) -> None:
    def change(path: str, schema: type[BaseModel] | None = None) -> Callable[[F], F]:
        return app.post(
            path,
            openapi_extra=_with_token(_body(schema) if schema else {}),
            responses={200: {"model": schemas.Changed}, **_CHANGE_PROBLEMS},
            tags=["changes"],
        )

    @change("/v1/learn", schemas.Labelled)
    async def learn(request: Request, key: Key = None, wait: Wait = False) -> Response:
        """Learn samples or texts, of new classes or of old ones."""
        given, body = await _read(service, request, schemas.Labelled)
        one = request_of(key, b"learn", body)
        return as_json(await service.in_thread(service.change_samples, "learn", given, one, wait))

    @change("/v1/unlearn", schemas.Labelled)
    async def unlearn(request: Request, key: Key = None, wait: Wait = False) -> Response:
        """Withdraw samples or texts: the file is then as if they had never been learnt."""
        given, body = await _read(service, request, schemas.Labelled)
        one = request_of(key, b"unlearn", body)
        return as_json(await service.in_thread(service.change_samples, "unlearn", given, one, wait))

    async def change_files(
        what: str, files: list[UploadFile], labels: list[str], key: str | None, wait: bool
    ) -> Response:
        opened = _opened(files)
        named = [part for name, file in opened for part in (name.encode("utf-8", "replace"), file)]
        about = what.encode(), json.dumps(labels).encode()
        one = await service.in_thread(request_of, key, *about, *named)
        return as_json(
            await service.in_thread(service.change_files, what, opened, labels, one, wait)
        )

    @change("/v1/learn/files")
    async def learn_files(
        files: Uploads, labels: Labels = None, key: Key = None, wait: Wait = False
    ) -> Response:
        """Learn images, or the rows of tables and arrays with their labels."""
        return await change_files("learn", files, labels or [], key, wait)

    @change("/v1/unlearn/files")
    async def unlearn_files(
        files: Uploads, labels: Labels = None, key: Key = None, wait: Wait = False
    ) -> Response:
        """Withdraw images, or the rows of tables and arrays with their labels."""
        return await change_files("unlearn", files, labels or [], key, wait)

    @change("/v1/forget", schemas.Classes)
    async def forget(request: Request, key: Key = None, wait: Wait = False) -> Response:
        """Withdraw classes: the file is then as if they had never been learnt."""
        given, body = await _read(service, request, schemas.Classes)
        one = request_of(key, b"forget", body)
        return as_json(await service.in_thread(service.forget, given, one, wait))

    @app.post(
        "/v1/merge",
        openapi_extra=_with_token(
            {"requestBody": {"content": {"application/octet-stream": {}}, "required": True}}
        ),
        responses={200: {"model": schemas.Changed}, **_CHANGE_PROBLEMS},
        tags=["changes"],
    )
    async def merge(request: Request, key: Key = None, wait: Wait = False) -> Response:
        """Add what another model has learnt; the body is its file."""
        body = await request.body()

        def merged() -> Any:
            with inputs.own_folder() as folder:
                sent = folder / "the model that was sent"
                sent.write_bytes(body)
                return service.merge(sent, request_of(key, b"merge", body), wait)

        return as_json(await service.in_thread(merged))


def _facts(app: FastAPI, service: Service) -> None:
    served = service.served

    @app.get("/v1/model", tags=["model"])
    async def model() -> Response:
        """What the model holds: classes, counts, settings, hash, ΔR before each layer."""
        return as_json(service.facts())

    @app.get("/v1/model/file", tags=["model"], response_class=Response)
    async def file() -> StreamingResponse:
        """The model file, as `redunet` commands read it."""
        opened = await service.in_thread(served.download)
        size = os.fstat(opened.fileno()).st_size
        name = re.sub(r"[^A-Za-z0-9._-]", "_", served.path.name)
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "content-length": str(size),
        }
        kind = "application/octet-stream"
        end = BackgroundTask(opened.close)  # also where the client has gone before the first part
        return StreamingResponse(_parts(opened), 200, headers, kind, end)

    @app.get("/v1/receipts", tags=["model"])
    async def receipts() -> Response:
        """All deletion receipts, one JSON object a line; the chain is checked by the way."""
        if served.receipts is None:
            raise HTTPException(404, "this server writes no receipts: start it with --receipts")
        opened = await service.in_thread(_checked_log, served.receipts.journal.path)
        return StreamingResponse(_complete(opened), media_type="application/jsonl")

    @app.get("/v1/events", tags=["model"])
    async def events(
        last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=20)] = None,
    ) -> EventSourceResponse:
        """What changes, as server-sent events: changed, ready, failed."""
        if service.events.is_full:
            raise FullError
        after = int(last) if last is not None and last.isdecimal() else None
        return EventSourceResponse(service.events.listen(after), ping=_BEAT, sep="\n")

    @app.get("/health", tags=["server"])
    async def health() -> Response:
        """200 where all is well; 503 where the file is missing or damaged, or makes no network."""
        # Not in a thread that requests may all have taken.
        good, found = await asyncio.to_thread(service.health)
        return as_json(found, 200 if good else 503)

    @app.get("/metrics", tags=["server"])
    async def metrics() -> Response:
        """Counters and times for Prometheus."""
        return Response(service.measures.text(), media_type=CONTENT_TYPE)


def _pages(app: FastAPI) -> None:
    for path, (kind, data) in page.files().items():

        def asset(kind: str = kind, data: bytes = data) -> Response:
            return Response(data, media_type=kind)

        app.get(path, include_in_schema=False)(asset)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page.documentation(app.openapi()))


def _measured(app: App, service: Service, known: set[str]) -> App:
    async def measured(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in known else "other"
        start, status = time.perf_counter(), "none"

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await app(scope, receive, counted)
        finally:
            service.measures.requests.labels(path, status).inc()
            if path != "/v1/events":
                service.measures.seconds.labels(path).observe(time.perf_counter() - start)

    return measured


async def _read(service: Service, request: Request, schema: type[M]) -> tuple[M, bytes]:
    """The body of a request, checked, and its bytes."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(422, "expected Content-Type: application/json")
    body = await request.body()
    if len(body) < _SMALL:
        return schemas.parsed(schema, body), body
    return await service.in_thread(schemas.parsed, schema, body), body


def _opened(files: list[UploadFile]) -> list[tuple[str, BinaryIO]]:
    return [(one.filename or "", one.file) for one in files]


def _checked_log(path: Path) -> BinaryIO:
    """A log of receipts, opened; an error where any of its lines is not as it was written."""
    for _ in Journal(path).read():
        pass
    return open_regular(path) if path.exists() else BytesIO()


def _complete(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, one at a time, without one that is still being written."""
    with file:
        yield from (line for line in file if line.endswith(b"\n"))


def _parts(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(2**18):
            yield part


def _body(schema: type[BaseModel]) -> dict[str, Any]:
    """What the documentation says of a body, which is read here by hand, and faster."""
    content = {"application/json": {"schema": schema.model_json_schema()}}
    return {"requestBody": {"content": content, "required": True}}


def _with_token(extra: dict[str, Any]) -> dict[str, Any]:
    return {**extra, "security": [{"token": []}]}
