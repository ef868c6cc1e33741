"""Events reach every listener once, in order, and end with the server."""

from __future__ import annotations

import asyncio
import http.client
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from sse_starlette.sse import AppStatus

from redunet.serve.events import MOST_LISTENERS, Events
from redunet.serve.http import Server
from redunet.serve.options import Options
from tests.serve.running import TOKEN, Client, serving, small_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_an_event_while_a_listener_begins_comes_once() -> None:
    async def heard() -> list[str | None]:
        events = Events()
        events.start()
        events.publish("before", {})
        await asyncio.sleep(0)
        listener = events.listen()
        assert (await anext(listener)).retry == 2000
        events.publish("meanwhile", {})
        await asyncio.sleep(0)
        events.publish("later", {})
        found = [(await anext(listener)).event for _ in range(2)]
        events.end()
        return [*found, *[one.event async for one in listener]]

    assert asyncio.run(heard()) == ["meanwhile", "later"]


def test_a_listener_that_is_too_slow_is_let_go_of() -> None:
    async def heard() -> int:
        events = Events()
        events.start()
        listener = events.listen()
        await anext(listener)
        for _ in range(101):
            events.publish("changed", {})
        await asyncio.sleep(0)
        return len([one async for one in listener])

    assert asyncio.run(heard()) == 0


def listening(client: Client, stack: ExitStack) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    stack.callback(connection.close)
    connection.request("GET", "/v1/events")
    return connection.getresponse()


def test_listeners_are_bounded_and_end_with_the_server(path: Path) -> None:
    with ExitStack() as stack:
        with serving(path) as client:
            answers = [listening(client, stack) for _ in range(MOST_LISTENERS)]
            for one in answers:
                assert one.readline() == b"retry: 2000\n"
            assert listening(client, stack).status == 429
        assert {one.read()[-3:] for one in answers} == {b"\n"}  # whole, not cut


def test_the_end_of_one_server_is_not_the_end_of_the_next(path: Path) -> None:
    server = Server(path, Options(token=TOKEN, port=0, device="cpu"))
    server._server.handle_exit(signal.SIGTERM, None)
    assert server._server.should_exit
    assert not AppStatus.should_exit
    server.run()
    with serving(path) as client, ExitStack() as stack:
        answer = listening(client, stack)
        assert client.send("POST", "/v1/forget", {"classes": ["ant"]})[0] == 200
        assert [answer.readline() for _ in range(3)][2] == b"event: changed\n"
