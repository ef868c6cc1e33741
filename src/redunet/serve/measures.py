"""Counters and times of a server, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from starlette.types import Message, Receive, Scope, Send

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

__all__ = ["CONTENT_TYPE", "Measured", "Measures"]


class Measures:
    """The counters of one server, apart from those of others in the same process.

    Parameters
    ----------
    **gauges : callables
        Values that are asked for when they are shown, by name.
    """

    def __init__(self, **gauges: Callable[[], float]) -> None:
        own = self._registry = CollectorRegistry()
        self.requests = Counter(
            "redunet_requests", "Requests answered.", ["path", "status"], registry=own
        )
        self.seconds = Histogram(
            "redunet_request_seconds", "Time to answer.", ["path"], buckets=_SECONDS, registry=own
        )
        self.changes = Counter("redunet_changes", "Changes in the file.", ["what"], registry=own)
        self.samples = Counter("redunet_answered_samples", "Samples labelled.", registry=own)
        for name, value in gauges.items():
            about = name.replace("_", " ").capitalize() + "."
            Gauge(f"redunet_{name}", about, registry=own).set_function(value)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)


class Measured:
    """The layer of the application that counts and times requests.

    Parameters
    ----------
    app : FastAPI
    measures : Measures
    """

    def __init__(self, app: FastAPI, measures: Measures) -> None:
        self._app, self._measures = app, measures
        self._known = {getattr(route, "path", "") for route in app.routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._known else "other"
        start, status = time.perf_counter(), "none"

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            self._measures.requests.labels(path, status).inc()
            if path != "/v1/events":
                self._measures.seconds.labels(path).observe(time.perf_counter() - start)
