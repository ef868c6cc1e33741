"""A Flower grid without processes: real messages, serialised as on the wire, to real ClientApps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from redunet.distributed.flower import client_app

Intercept = Callable[[int, Message], Message]


class LocalGrid(Grid):
    """Clients in this process, by node ids from 1.

    Parameters
    ----------
    loads : sequence of callables
        What gives the data of each client, as for `client_app`.
    """

    def __init__(self, *loads: Callable[[Context], Any]) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 7, 1
        self.clients: dict[int, tuple[ClientApp, Context]] = {
            node: (client_app(load), Context(7, node, {}, RecordDict(), {}))
            for node, load in enumerate(loads, 1)
        }
        self.drops: set[tuple[int, str]] = set()
        """Clients that do not answer messages of a type."""
        self.late: set[tuple[int, str]] = set()
        """Clients that do, when nobody waits any longer."""
        self.sent: list[tuple[int, str, int]] = []
        """Of each reply its client, its type and its size in bytes."""
        self.change: Intercept | None = None
        """What happens to replies on their way."""

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return [*self.clients]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        found = []
        for message in messages:
            node, kind = message.metadata.dst_node_id, message.metadata.message_type
            app, context = self.clients[node]
            if (node, kind) in self.drops:
                continue
            received = message_from_proto(message_to_proto(message))
            try:
                reply = app(received, context)
            except Exception as error:  # noqa: BLE001 - as Flower's process of a client does
                reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=received)
            raw = message_to_proto(reply)
            self.sent.append((node, kind, raw.ByteSize()))
            back = message_from_proto(raw)
            if self.change is not None:
                back = self.change(node, back)
            if (node, kind) not in self.late:
                found.append(back)
        return found[::-1]
