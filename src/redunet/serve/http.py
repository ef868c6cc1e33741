"""A server from its socket to its end."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from redunet.encoders import Encoder
from redunet.errors import FileAccessError, SettingsError
from redunet.safety.receipts import Receipts
from redunet.safety.untrusted import open_regular
from redunet.serve.api import application
from redunet.serve.connections import Connection, ConnectionLimits, most_connections
from redunet.serve.events import Events
from redunet.serve.middleware import Rules
from redunet.serve.model_store import Served
from redunet.serve.service import Limits, Service

LOCAL = ("127.0.0.1", "localhost", "[::1]")
_SHORTEST_TOKEN = 16
_BACKLOG = 128
"""Connections that are accepted in one go, before any is counted: a fraction of the fewest files
that systems allow."""


# python-multipart logs what is wrong in a form, and without a handler that goes to the terminal.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Options:
    """How a model is served.

    Parameters
    ----------
    host, port
        The address to listen on; port 0 takes any that is free.
    token : str
        For changes; see `new_token` and `token_in`.
    allow_hosts : tuple of str
        More names that the server goes by.
    read_only : bool
    receipts : Receipts, default=None
    encoder : Encoder, default=None
    body_bytes, body_seconds, waiting, seconds
        As `Rules` and `Limits` have them.
    connections : ConnectionLimits, default=None
        As many as open files allow.
    device, memory
        As for `redunet.estimators.load`.
    """

    token: str
    host: str = "127.0.0.1"
    port: int = 8000
    allow_hosts: tuple[str, ...] = ()
    read_only: bool = False
    receipts: Receipts | None = None
    encoder: Encoder | None = None
    body_bytes: int = 2**26
    body_seconds: float = 30.0
    waiting: int = 64
    seconds: float = 30.0
    connections: ConnectionLimits | None = None
    device: str = "auto"
    memory: str = "2GB"


class Server:
    """A model at an address.

    Parameters
    ----------
    path : Path
    options : Options
    """

    def __init__(self, path: Path, options: Options) -> None:
        host = f"[{options.host}]" if ":" in options.host else options.host
        self._socket = _listening(options.host, options.port)
        try:
            self.service = _service(path, options)
        except BaseException:
            self._socket.close()
            raise
        limits = options.connections or ConnectionLimits(most_connections())
        rules = Rules(
            options.token,
            frozenset(name.lower() for name in (*LOCAL, host, *options.allow_hosts)),
            _is_local(options.host),
            options.read_only,
            options.body_bytes,
            options.body_seconds,
            limits.connections * 3 // 4,  # the rest is for requests with the token
        )
        self.url = f"http://{host}:{self._socket.getsockname()[1]}/"
        config = uvicorn.Config(
            application(self.service, rules),
            http=partial(Connection, limits=limits),  # type: ignore[arg-type]  # called like a class
            log_level="error",  # what clients send is no reason to print anything
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=30,
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


def _service(path: Path, options: Options) -> Service:
    events = Events()
    served = Served(
        path,
        options.device,
        options.memory,
        options.receipts,
        events.publish,
        options.read_only,
    )
    limits = Limits(options.waiting, options.seconds)
    return Service(served, events, limits, options.encoder, options.read_only)


class _Uvicorn(uvicorn.Server):
    """A server that lets go who waits before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, at_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._at_end = at_end
        self.at_start: Callable[[], None] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in good order on Ctrl-C and SIGTERM, and let the command go on to its end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in signals}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order, a second Ctrl-C at once; later servers' listeners do not hear of it.

        sse-starlette puts its own function in the place of uvicorn's, for the whole process.
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
    with open_regular(path, 4096) as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise FileAccessError(
                f"expected that nobody else may read {path}, which holds a token: chmod 600 {path}"
            )
        token = file.read().decode("ascii", "replace").strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise SettingsError(
            f"expected a token of at least {_SHORTEST_TOKEN} printable letters in {path}: make one "
            f"with openssl rand -hex 32"
        )
    return token


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
