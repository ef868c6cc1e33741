"""The HTTP interface: words of requests to calls, and errors to statuses."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, File, Form, Header, Query, UploadFile
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from sse_starlette import EventSourceResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp

from redunet._version import __version__
from redunet.safety.journal import Journal
from redunet.safety.untrusted import open_regular
from redunet.serve import page, schemas
from redunet.serve.errors import FullError, as_json, handle_errors
from redunet.serve.idempotency import LONGEST_KEY
from redunet.serve.measures import CONTENT_TYPE, Measured
from redunet.serve.middleware import AccessMiddleware
from redunet.serve.service import Service

F = TypeVar("F", bound=Callable[..., Any])

_BEAT = 15
"""Seconds between comments on a line of events, so that a dead line is noticed."""

_OTHER_THREADS = 16
"""Threads for work that waits for no other change, such as downloads."""

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
    status: {"model": schemas.Problem} for status in (408, 413, 422, 429, 503)
}
_CHANGE_PROBLEMS = {status: {"model": schemas.Problem} for status in (401, 409)} | _PROBLEMS


def application(service: Service) -> ASGIApp:
    """The application that a server runs.

    Parameters
    ----------
    service : Service
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = service.options.waiting + _OTHER_THREADS
        service.events.start()
        yield
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
    return AccessMiddleware(Measured(app, service.measures), service.options)


def _answers(app: FastAPI, service: Service) -> None:
    answers: dict[str, Any] = {
        "responses": {200: {"model": schemas.Answers}, **_PROBLEMS},
        "tags": ["answers"],
    }

    @app.post("/v1/predict", **answers)
    async def predict(asked: schemas.Question) -> Response:
        """Label samples or texts, one or many, by one version of the model."""
        if asked.text is None and asked.texts is None:
            future = service.ask(asked)
        else:  # an encoder takes its time
            future = await run_in_threadpool(service.ask, asked)
        try:
            async with asyncio.timeout(service.options.seconds):
                found = await asyncio.wrap_future(future)
        except TimeoutError:
            raise FullError from None
        return as_json(service.shown(found, asked))

    @app.post("/v1/predict/files", **answers)
    def predict_files(
        files: Uploads,
        top: Annotated[int, Form(ge=1, le=1000)] = 1,
        novelty: Annotated[bool, Form()] = False,
        reject: Annotated[float | None, Form(gt=0, lt=1)] = None,
    ) -> Response:
        """Label images, or the rows of tables and arrays."""
        asked = schemas.Question(top=top, novelty=novelty, reject=reject)
        return as_json(service.answer_files(_opened(files), asked))


def _changes(app: FastAPI, service: Service) -> None:
    def change(path: str, **more: Any) -> Callable[[F], F]:
        return app.post(
            path,
            openapi_extra={**more, "security": [{"token": []}]},
            responses={200: {"model": schemas.Changed}, **_CHANGE_PROBLEMS},
            tags=["changes"],
        )

    @change("/v1/learn")
    def learn(given: schemas.Labelled, key: Key = None, wait: Wait = False) -> Response:
        """Learn samples or texts, of new classes or of old ones."""
        asked = key, [b"learn", given]
        return as_json(service.change_samples("learn", given, asked, wait))

    @change("/v1/unlearn")
    def unlearn(given: schemas.Labelled, key: Key = None, wait: Wait = False) -> Response:
        """Unlearn samples or texts: the file is then as if they had never been learnt."""
        asked = key, [b"unlearn", given]
        return as_json(service.change_samples("unlearn", given, asked, wait))

    @change("/v1/learn/files")
    def learn_files(
        files: Uploads,
        labels: Labels = None,
        key: Key = None,
        wait: Wait = False,
    ) -> Response:
        """Learn images, or the rows of tables and arrays with their labels."""
        return change_files("learn", files, labels or [], key, wait)

    @change("/v1/unlearn/files")
    def unlearn_files(
        files: Uploads,
        labels: Labels = None,
        key: Key = None,
        wait: Wait = False,
    ) -> Response:
        """Unlearn images, or the rows of tables and arrays with their labels."""
        return change_files("unlearn", files, labels or [], key, wait)

    def change_files(
        what: str, files: list[UploadFile], labels: list[str], key: str | None, wait: bool
    ) -> Response:
        opened = _opened(files)
        named = [part for name, file in opened for part in (name.encode("utf-8", "replace"), file)]
        asked = key, [what.encode(), json.dumps(labels).encode(), *named]
        return as_json(service.change_files(what, opened, labels, asked, wait))

    @change("/v1/forget")
    def forget(given: schemas.Classes, key: Key = None, wait: Wait = False) -> Response:
        """Forget classes: the file is then as if they had never been learnt."""
        return as_json(service.forget(given, (key, [b"forget", given]), wait))

    @change(
        "/v1/merge",
        requestBody={"content": {"application/octet-stream": {}}, "required": True},
    )
    async def merge(request: Request, key: Key = None, wait: Wait = False) -> Response:
        """Add what another model has learnt; the body is its file."""
        body = await request.body()
        found = await run_in_threadpool(service.merge, body, (key, [b"merge", body]), wait)
        return as_json(found)


def _facts(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.get("/v1/model", tags=["model"])
    async def model() -> Response:
        """Show what the model holds: classes, counts, settings, hash, ΔR before each layer."""
        return as_json(service.facts())

    @app.get("/v1/model/file", tags=["model"], response_class=Response)
    def file() -> StreamingResponse:
        """Download the model file, as `redunet` commands read it."""
        opened = store.download()
        name = re.sub(r"[^A-Za-z0-9._-]", "_", store.path.name)
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "content-length": str(os.fstat(opened.fileno()).st_size),
        }
        kind = "application/octet-stream"
        end = BackgroundTask(opened.close)  # also where the client has gone before the first part
        return StreamingResponse(_parts(opened), 200, headers, kind, end)

    @app.get("/v1/receipts", tags=["model"])
    def receipts() -> Response:
        """Download all deletion receipts, one JSON object a line, after checking their chain."""
        log = service.options.receipts
        if log is None:
            raise HTTPException(404, "this server writes no receipts: start it with --receipts")
        opened = _checked_log(log.journal.path)
        return StreamingResponse(_complete(opened), media_type="application/jsonl")

    @app.get("/v1/events", tags=["model"])
    async def events() -> EventSourceResponse:
        """Tell of changes as they happen, as server-sent events: changed, ready, failed."""
        if service.events.is_full:
            raise FullError
        return EventSourceResponse(service.events.listen(), ping=_BEAT, sep="\n")

    @app.get("/health", tags=["server"])
    async def health() -> Response:
        """Answer 200 where all is well; 503 where the file or its network is not as it must be."""
        # Not in a thread that requests may all have taken.
        good, found = await asyncio.to_thread(service.health)
        return as_json(found, 200 if good else 503)

    @app.get("/metrics", tags=["server"])
    async def metrics() -> Response:
        """Show counters and times for Prometheus."""
        return Response(service.measures.text(), media_type=CONTENT_TYPE)


def _pages(app: FastAPI) -> None:
    for path, (kind, data) in page.files().items():

        def asset(kind: str = kind, data: bytes = data) -> Response:
            return Response(data, media_type=kind)

        app.get(path, include_in_schema=False)(asset)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page.documentation(app.openapi()))


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
