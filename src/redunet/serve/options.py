"""The options of a server: who may come in, with how much, and for how long."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from redunet.encoders import Encoder
from redunet.safety.receipts import Receipts

LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Options:
    """The options of a server.

    Parameters
    ----------
    token : str
        For changes; see `redunet.serve.http.new_token` and `token_in`.
    host, port
        The address to listen on; port 0 takes any that is free.
    allow_hosts : tuple of str
        More names that the server goes by.
    read_only : bool
    receipts : Receipts, default=None
        Where every withdrawal is written down.
    encoder : Encoder, default=None
        Of a model whose encoder is a folder.
    body_bytes : int
        Most bytes of a body.
    waiting : int
        Most requests that wait for their turn, of changes and of answers each.
    seconds : float
        How long a body may take to come, a request to wait, and a client to take nothing.
    header_seconds : float
        How long a connection may take to bring its next request, header and all.
    connections : int
        Most connections: half of the open files that every system allows; uploads need some too.
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
    waiting: int = 64
    seconds: float = 30.0
    header_seconds: float = 10.0
    connections: int = 128
    device: str = "auto"
    memory: str = "2GB"

    @property
    def name(self) -> str:
        """The host as in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def hosts(self) -> frozenset[str]:
        """Names that the server goes by."""
        return frozenset(name.lower() for name in (*LOCAL, self.name, *self.allow_hosts))

    @property
    def is_local(self) -> bool:
        """Whether it can be reached from this machine alone; if not, everything takes the token."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
