"""Federations on Flower: clients learn their own data, the server adds what they have learnt.

The model is, to the byte, the one that `partial_fit` gives with all data in one process. It needs
the packages of ``redunet[flower]``; docs/federation.md says how it is run, and what is secret.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redunet.distributed.task import Task, one_line
from redunet.errors import DataError, ReduNetError, SettingsError, not_installed
from redunet.estimators import Estimator, empty_model, load, moment_deltas

try:
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    from redunet.distributed.flower_client import client_app
    from redunet.distributed.flower_server import Round
except ImportError as error:
    raise not_installed("Flower", "flower", error) from error

__all__ = ["Outcome", "client_app", "learn", "server_app", "withdraw"]

_LOG = logging.getLogger("flwr")

_KEYS = ("n-clients", "min-clients", "masked", "timeout")
"""Of a run configuration: the settings of a round."""


@dataclass(frozen=True)
class Outcome:
    """Who took part in a round, by Flower's node ids.

    Parameters
    ----------
    taken : dict from int to str
        The sha256 of the moments that each client that took part has sent, with which it can be
        withdrawn again; "" where they were masked.
    refused : dict from int to str
        Of each other client that was asked, one line that says why it did not take part.
    """

    taken: dict[int, str]
    refused: dict[int, str]


def learn(
    model: Estimator,
    grid: Grid,
    *,
    n_clients: int,
    min_clients: int | None = None,
    masked: bool = False,
    timeout: float = 3600,
) -> Outcome:
    """Add what the clients of a federation have learnt, in one round; nothing after an error.

    Parameters
    ----------
    model : estimator
        As for `partial_fit`: a new one, or one that has learnt something. Its settings and its
        feature map are sent to all clients; what it has learnt is not.
    grid : flwr.serverapp.Grid
        Of the ServerApp.
    n_clients : int
        Clients that must be connected before the round begins; all that are then connected are
        asked.
    min_clients : int, default=n_clients
        Clients that must take part for the round to count; others may fail or drop out.
    masked : bool, default=False
        Whether the server is to see the sum of all moments only.
    timeout : float, default=3600
        Seconds that clients may take to connect, and to answer each message.

    Returns
    -------
    Outcome
    """
    few = n_clients if min_clients is None else min_clients
    asked = Round(Task.of(model), grid, n_clients, few, timeout)
    total = asked.masked() if masked else asked.in_the_clear()
    created = not hasattr(model, "moments_")
    moment_deltas.add(model, total.moments, total.input["n_columns"], total.input["names"])
    if created:
        empty_model.take_input(model, total.input)
    return Outcome(asked.taken, asked.refused)


def withdraw(
    model: Estimator, grid: Grid, clients: Mapping[int, str], *, timeout: float = 3600
) -> Outcome:
    """Withdraw what clients have contributed, as if they had never taken part.

    They are asked for their moments once more, and all of them must answer.

    Parameters
    ----------
    model : estimator
    grid : flwr.serverapp.Grid
    clients : mapping from int to str
        The node ids that the clients have now, each with the sha256 of what it sent then, which
        what it sends now must have; "" where that is not known. Then only moments that cannot
        have been learnt are noticed.
    timeout : float, default=3600
        As for `learn`.

    Returns
    -------
    Outcome
    """
    model.moments_  # noqa: B018 - an error where there is nothing to withdraw
    asked = Round(Task.of(model), grid, len(clients), len(clients), timeout, clients)
    total = asked.in_the_clear()
    for node, sha256 in clients.items():
        if sha256 not in ("", asked.taken[node]):
            raise DataError(
                f"expected the moments that client {node} sent before, sha256 {sha256[:8]}…, got "
                f"{asked.taken[node][:8]}…: withdraw with the data of that time"
            )
    moment_deltas.withdraw(model, total.moments)
    return Outcome(asked.taken, asked.refused)


def server_app(model: Estimator, path: str | os.PathLike[str]) -> ServerApp:
    """A Flower ServerApp that adds what all clients have learnt to a model file.

    Everything else is said in the run configuration, ``[tool.flwr.app.config]`` or ``flwr run
    --run-config``: ``n-clients``, ``min-clients``, ``masked`` and ``timeout``, as for `learn`.
    With ``withdraw = "NODE:SHA256 …"``, of which the log of a round has a line for each client,
    these are withdrawn from the file instead.

    Parameters
    ----------
    model : estimator
        The model to begin with, where there is no file yet.
    path : path of the model file

    Returns
    -------
    ServerApp
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            said = _served(model, Path(path), grid, context.run_config)
        except ReduNetError as error:
            _LOG.error("redunet: %s", one_line(error))
            _LOG.addFilter(_foreseen)
            raise  # so that Flower knows of it; it would log the traceback
        for line in said:
            _LOG.info("redunet: %s", line)

    return app


def _served(model: Estimator, path: Path, grid: Grid, config: Mapping[str, Any]) -> list[str]:
    """Change a model file as a run configuration says; the lines to log."""
    given = {key.replace("-", "_"): config[key] for key in _KEYS if key in config}
    gone = _clients(str(config.get("withdraw", "")))
    current = load(path) if path.exists() else model
    if gone:
        outcome = withdraw(current, grid, gone, timeout=given.get("timeout", 3600))
    elif "n_clients" in given:
        outcome = learn(current, grid, **given)
    else:
        raise SettingsError("expected n-clients in the run configuration, got none: add it")
    current.save(path)
    how = "withdrawn" if gone else "taken"
    return [
        *(f"{how} {node}:{sha256}" for node, sha256 in outcome.taken.items()),
        *(f"left out {node}: {why}" for node, why in outcome.refused.items()),
        f"wrote {path}",
    ]


def _foreseen(record: logging.LogRecord) -> bool:
    """Whether to log a record: not the traceback of an error that was told in a line."""
    return record.exc_info is None or not isinstance(record.exc_info[1], ReduNetError)


def _clients(text: str) -> dict[int, str]:
    """The clients in a text such as "12:ab34 56:", with what they sent."""
    found: dict[int, str] = {}
    for word in text.split():
        node, _, sha256 = word.partition(":")
        if not node.isdecimal():
            raise SettingsError(f'expected withdraw = "NODE:SHA256 …", got {text!r}')
        found[int(node)] = sha256
    return found
