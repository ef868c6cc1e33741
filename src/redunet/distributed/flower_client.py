"""The client of a federation on Flower: it learns its own data, and sends nothing but moments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from redunet.core.labels import check_labels
from redunet.distributed import masks
from redunet.distributed.contribution import Contribution, Task, learnt, one_line
from redunet.distributed.flower_records import (
    array_of,
    bytes_in,
    bytes_of,
    records,
    refusal,
    task_in,
    values_in,
)
from redunet.errors import DataError, ReduNetError, SettingsError

P = ParamSpec("P")
T = TypeVar("T")

Load = Callable[[Context], Any]
"""What gives the data of a client."""

_STATE = "redunet"


def client_app(load: Load) -> ClientApp:
    """A Flower ClientApp that contributes the moments of a client's data.

    Parameters
    ----------
    load : callable
        From Flower's ``Context``, with the ``node_config`` of this client, to its data: samples
        and labels (X, y), as for `partial_fit`; or an estimator that has learnt them, such as one
        that `redunet.estimators.load` read from a file, with the settings of the server's model.
        With ``masked-only=true`` in its ``node_config``, a client takes part in masked sums only.

    Returns
    -------
    ClientApp
    """
    app, of_task = ClientApp(), _understood(learnt)

    @app.train()
    @_answering
    def moments(message: Message, context: Context) -> RecordDict:
        if context.node_config.get("masked-only"):
            raise SettingsError(
                "expected a masked sum, as this client has masked-only=true in its node "
                "configuration, got a request for moments in the clear: set masked = true"
            )
        return records({"moments": of_task(task_in(message), load(context)).to_bytes()})

    @app.query("keys")
    @_answering
    def keys(message: Message, context: Context) -> RecordDict:
        return _keys(task_in(message), of_task(task_in(message), load(context)), context)

    app.query("shares")(_answering(_understood(_shares)))
    app.train("masked")(_answering(_understood(_masked)))
    app.query("unmask")(_answering(_understood(_unmask)))
    return app


def _answering(
    answer: Callable[[Message, Context], RecordDict],
) -> Callable[[Message, Context], Message]:
    """What replies with an answer, or with one line where this client does not take part."""

    def reply(message: Message, context: Context) -> Message:
        try:
            return Message(answer(message, context), reply_to=message)
        except ReduNetError as error:
            return refusal(one_line(error), message)

    return reply


def _understood(answer: Callable[P, T]) -> Callable[P, T]:
    """A function of what the server has sent: where it fails, that is at fault."""

    def given(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return answer(*args, **kwargs)
        except ReduNetError:
            raise
        except Exception as error:  # whatever a server may send
            raise DataError(
                f"expected a message that this client can answer, got another: {one_line(error)}"
            ) from error

    return given


def _keys(task: Task, own: Contribution, context: Context) -> RecordDict:
    """First exchange: the public keys of this client, and which classes it has."""
    for_masks, for_shares = masks.key_pair(), masks.key_pair()
    context.state = RecordDict(
        {
            _STATE: ConfigRecord(
                {
                    "mask": for_masks[0],
                    "share": for_shares[0],
                    "public mask": for_masks[1],
                    "public share": for_shares[1],
                    "own": masks.new_secret(),
                    "masked": False,
                }
            ),
            "moments": ArrayRecord({"moments": array_of(own.to_bytes())}),
        }
    )
    about = {
        "labels": list(own.moments.labels),
        "n_features": own.moments.n_features,
        "input": own.input,
        "task": task.sha256,
    }
    return records({}, mask=for_masks[1], share=for_shares[1], about=json.dumps(about))


def _shares(message: Message, context: Context) -> RecordDict:
    """Second exchange: shares of this client's secrets for each other client, encrypted."""
    state, values, own = _state(context), values_in(message), context.node_id
    if "kept" in state:  # shares for others, invented ones, would open what these are to hide
        raise DataError("expected the messages of a masked sum in order, each once: start again")
    publics, for_masks = _by_client(bytes_in(message)), _keys_of(values["mask_keys"])
    if own not in publics or len(publics) < 2:
        raise DataError(f"expected at least two clients, this one among them, got {len(publics)}")
    if (publics[own], for_masks.get(own)) != (state["public share"], state["public mask"]):
        raise DataError("expected this client's own keys among those of all, got others for it")
    if publics.keys() != for_masks.keys() or any(
        len({*map(masks.checked_public, keys.values())}) < len(keys)
        for keys in (publics, for_masks)
    ):
        raise DataError("expected two keys of each client, no two of them alike, got others")
    labels = json.loads(str(values["labels"]))
    check_labels(labels)
    if labels != sorted({*labels}):
        raise DataError("expected the classes of the sum in order, each once")
    held = _held(context)
    if not {*held.moments.labels} <= {*labels}:
        raise DataError(f"expected all classes of this client among the {len(labels)} of the sum")
    masks.check_size(len(labels), held.moments.n_features)
    sent = masks.shares_for([state["own"], state["mask"]], state["share"], publics, own)
    state["share_keys"] = json.dumps({str(one): key.decode() for one, key in publics.items()})
    state["mask_keys"] = values["mask_keys"]
    state["labels"] = values["labels"]
    state["kept"] = sent.pop(own)
    return records({str(client): share for client, share in sent.items()})


def _masked(message: Message, context: Context) -> RecordDict:
    """Third exchange: the moments, masked."""
    state, own = _state(context), context.node_id
    if "kept" not in state or state["masked"]:
        raise DataError("expected the messages of a masked sum in order, each once: start again")
    shares = _by_client(bytes_in(message))
    publics = _keys_of(state["mask_keys"])
    present = sorted({own, *shares})
    needed = masks.threshold(len(publics))
    if own in shares or not set(present) <= set(publics) or len(present) < needed:
        raise DataError(
            f"expected shares of at least {needed} of {len(publics)} clients, got {len(present)}"
        )
    y = masks.vector_of(_held(context).moments, json.loads(state["labels"]))
    masks.pair_masks_(y, state["mask"], own, {one: publics[one] for one in present})
    y += masks.stream(state["own"], len(y))
    state["masked"] = True
    context.state = RecordDict(
        {
            _STATE: state,  # the moments have been sent, and are not kept any longer
            "shares": ArrayRecord({str(one): array_of(shares[one]) for one in shares}),
        }
    )
    return records({"masked": y.astype("<u8").tobytes()})


def _unmask(message: Message, context: Context) -> RecordDict:
    """Last exchange: of each client the share of one of its two secrets, never of both."""
    state, own = _state(context), context.node_id
    if not state["masked"]:
        raise DataError("expected the messages of a masked sum in order, each once: start again")
    sent = {int(client) for client in json.loads(str(values_in(message)["sent"]))}
    keys = _keys_of(state["share_keys"])
    shares = _by_client(
        {name: bytes_of(array) for name, array in _arrays(context, "shares").items()}
    )
    taking_part = {own, *shares}
    if not sent <= taking_part or len(sent) < masks.threshold(len(keys)):
        raise DataError(
            f"expected vectors of at least {masks.threshold(len(keys))} of {len(taking_part)} "
            f"clients, got {len(sent)}: fewer are not to be unmasked"
        )
    opened = {own: masks.split_share(state["kept"])}
    for client, share in shares.items():
        with suppress(DataError):  # of others there may be enough
            opened[client] = masks.opened_share(share, state["share"], keys[client])
    context.state = RecordDict()  # asked again, this client has nothing to give
    return records({str(one): pair[0 if one in sent else 1] for one, pair in opened.items()})


def _state(context: Context) -> Any:
    found = context.state.get(_STATE)
    if found is None:
        raise DataError("expected the messages of a masked sum in order, each once: start again")
    return found


def _arrays(context: Context, name: str) -> Any:
    return context.state[name]


def _held(context: Context) -> Contribution:
    """What this client has learnt for the sum."""
    return Contribution.from_bytes(bytes_of(_arrays(context, "moments")["moments"]))


def _keys_of(text: Any) -> dict[int, bytes]:
    return _by_client({client: key.encode() for client, key in json.loads(str(text)).items()})


def _by_client(found: Mapping[str, bytes]) -> dict[int, bytes]:
    """What a message has for each client, whose names are whole numbers, each written one way."""
    by_client = {int(name): value for name, value in found.items()}
    if {*map(str, by_client)} != {*found}:
        raise DataError("expected the numbers of clients, got other names")
    return by_client
