"""A server from its socket to its end."""

from __future__ import annotations

import logging
import secrets
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from redunet.errors import SettingsError
from redunet.safety.untrusted import open_secret
from redunet.serve.api import application
from redunet.serve.connections import Connection
from redunet.serve.events import Events
from redunet.serve.model_store import ModelStore
from redunet.serve.options import Options
from redunet.serve.service import Service

_SHORTEST_TOKEN = 16
_BACKLOG = 128
"""Connections that are accepted in one go, before any is counted: a fraction of the fewest files
that systems allow."""


# python-multipart logs what is wrong in a form, and without a handler that goes to the terminal.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())


class Server:
    """A model at an address.

    Parameters
    ----------
    path : Path
    options : Options
    """

    def __init__(self, path: Path, options: Options) -> None:
        self._socket = _listening(options.host, options.port)
        events = Events()
        try:
            store = ModelStore(path, options, events.publish)
            self.service = Service(store, events, options)
        except BaseException:
            self._socket.close()
            raise
        self.url = f"http://{options.name}:{self._socket.getsockname()[1]}/"
        config = uvicorn.Config(
            application(self.service),
            http=partial(Connection, options=options),  # type: ignore[arg-type]  # as a class
            log_level="error",  # what clients send is no reason to print anything
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=5,
            lifespan="on",
            ws="none",
        )
        self._server = _Uvicorn(config, self.service.stop)

    def run(self, at_start: Callable[[], None] | None = None) -> None:
        """Serve until the process is told to end.

        Parameters
        ----------
        at_start : callable, default=None
            Called once requests are answered, and signals to stop end the server in good order.
        """
        self._server.at_start = at_start
        try:
            self._server.run([self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Let `run` end; may be called by another thread."""
        self._server.should_exit = True


class _Uvicorn(uvicorn.Server):
    """A server that lets go who waits before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, at_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._at_end = at_end
        self.at_start: Callable[[], None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order, a second Ctrl-C at once, and let the command go on to its end.

        This stands in front of sse-starlette's function of this name, by which listeners of later
        servers in the same process would hear of it too.
        """
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.at_start is not None:
            self.at_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._at_end()
        await super().shutdown(sockets)


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(32)


def token_in(path: Path) -> str:
    """The token in a file that others cannot read."""
    with open_secret(path, 4096, "a token") as file:
        token = file.read().decode("ascii", "replace").strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise SettingsError(
            f"expected a token of at least {_SHORTEST_TOKEN} printable letters in {path}: make one "
            f"with openssl rand -hex 32"
        )
    return token


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        one = socket.socket(family, kind, proto)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(address)
            one.listen(1024)
        except BaseException:
            one.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"cannot listen on {host}:{port}: {why}; choose another with --host or --port"
        ) from error
    return one
