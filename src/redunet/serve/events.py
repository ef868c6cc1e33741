"""Server-sent events: everybody who listens is told of changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import ServerSentEvent

MOST_LISTENERS = 64
_WAITING = 100  # events that a listener may be behind
_RETRY = 2000
"""Milliseconds after which a browser comes again; the page's own client waits as long."""


class Events:
    """The events of a server; whoever missed some asks for the model as it is."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[asyncio.Queue[ServerSentEvent | None]] = set()

    def start(self) -> None:
        """Take the running loop as the one that listeners are on."""
        self._loop = asyncio.get_running_loop()

    def publish(self, name: str, about: dict[str, Any]) -> None:
        """Tell everybody; may be called by any thread."""
        if self._loop is not None and not self._loop.is_closed():
            event = ServerSentEvent(json.dumps(about), event=name, sep="\n")
            self._loop.call_soon_threadsafe(self._tell, event)

    def end(self) -> None:
        """Let all listeners go."""
        for one in list(self._listeners):
            self._drop(one)

    @property
    def is_full(self) -> bool:
        """Whether nobody else may listen."""
        return len(self._listeners) >= MOST_LISTENERS

    async def listen(self) -> AsyncIterator[ServerSentEvent]:
        """Events as they happen."""
        heard: asyncio.Queue[ServerSentEvent | None] = asyncio.Queue(_WAITING)
        self._listeners.add(heard)
        try:
            yield ServerSentEvent(retry=_RETRY, sep="\n")
            while (found := await heard.get()) is not None:
                yield found
        finally:
            self._listeners.discard(heard)

    def _tell(self, event: ServerSentEvent) -> None:
        for one in list(self._listeners):
            try:
                one.put_nowait(event)
            except asyncio.QueueFull:  # too slow: it may come again
                self._drop(one)

    def _drop(self, one: asyncio.Queue[ServerSentEvent | None]) -> None:
        self._listeners.discard(one)
        while not one.empty():
            one.get_nowait()
        one.put_nowait(None)
