"""The client of a federation on Flower: it learns its own data, and sends nothing but moments."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from redunet.core.labels import check_labels
from redunet.distributed import masks
from redunet.distributed.flower_messages import (
    array_of,
    by_client,
    bytes_in,
    bytes_of,
    records,
    task_in,
    values_in,
)
from redunet.distributed.task import Part, Task, one_line
from redunet.errors import DataError, DataTypeError, ReduNetError, SettingsError
from redunet.estimators.checks import column_names

Load = Callable[[Context], Any]
"""Gives the data of a client."""

_LOG = logging.getLogger("flwr")

_OUT_OF_ORDER = "expected the messages of a masked sum in order, each once: start again"


def client_app(load: Load) -> ClientApp:
    """A Flower ClientApp that contributes the moments of a client's data.

    Parameters
    ----------
    load : callable
        From Flower's ``Context``, with the ``node_config`` of this client, to its samples and
        labels (X, y), as for `partial_fit`. With ``masked-only=true`` in its ``node_config``, a
        client takes part in masked sums only.

    Returns
    -------
    ClientApp
    """
    app = ClientApp()

    @app.train()
    @_answering
    def moments(message: Message, context: Context) -> RecordDict:
        if context.node_config.get("masked-only"):
            raise SettingsError(
                "expected a masked sum, as this client has masked-only=true in its node "
                "configuration, got a request for moments in the clear: set masked = true"
            )
        return records({"moments": _learnt(task_in(message), load, context).to_bytes()})

    @app.query("keys")
    @_answering
    def keys(message: Message, context: Context) -> RecordDict:
        task = task_in(message)
        return _keys(_learnt(task, load, context), context)

    app.query("shares")(_answering(_shares))
    app.train("masked")(_answering(_masked))
    app.query("unmask")(_answering(_unmask))
    return app


def _answering(
    answer: Callable[[Message, Context], RecordDict],
) -> Callable[[Message, Context], Message]:
    """Reply with an answer, or with one line where this client does not take part."""

    def reply(message: Message, context: Context) -> Message:
        try:
            return Message(answer(message, context), reply_to=message)
        except ReduNetError as error:
            reason = one_line(error)
        except Exception as error:  # noqa: BLE001 - whatever a server may send
            reason = (
                f"expected a message that this client can answer, got another: {one_line(error)}"
            )
        return Message(Error(0, reason), reply_to=message)

    return reply


def _learnt(task: Task, load: Load, context: Context) -> Part:
    """The part of this client."""
    task.open()
    try:
        found = load(context)
    except ReduNetError:
        raise
    except Exception as error:
        _LOG.exception("redunet: the function that gives the data of this client failed")
        raise DataError(f"the data of this client: {one_line(error)}") from error
    if not isinstance(found, tuple) or len(found) != 2:
        raise DataTypeError(
            f"expected a pair of samples and labels, (X, y), got {type(found).__name__}: change "
            f"the function that gives the data of this client"
        )
    X, _ = found
    part = task.learn("the data of this client", [found] if len(X) else [], column_names(X))
    if part is None:
        raise DataError("the data of this client: expected at least one sample, got none")
    return part


def _keys(own: Part, context: Context) -> RecordDict:
    """First exchange: the public keys of this client, and its classes."""
    for_masks, for_shares = masks.key_pair(), masks.key_pair()
    context.state = RecordDict(
        {
            "redunet": ConfigRecord(
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
        "labels": list(own.labels),
        "n_features": own.moments.n_features,
        "input": own.input,
        "task": own.task,
    }
    return records({}, mask=for_masks[1], share=for_shares[1], about=json.dumps(about))


def _shares(message: Message, context: Context) -> RecordDict:
    """Second exchange: shares of this client's secrets for each other client, encrypted."""
    state, values, own = _state(context), values_in(message), context.node_id
    if "kept" in state:  # shares for others, invented ones, would open what these are to hide
        raise DataError(_OUT_OF_ORDER)
    publics, for_masks = by_client(bytes_in(message)), _keys_of(values["mask_keys"])
    if own not in publics or len(publics) < 2:
        raise DataError(f"expected at least two clients, this one among them, got {len(publics)}")
    if (publics[own], for_masks.get(own)) != (state["public share"], state["public mask"]):
        raise DataError("expected this client's own keys among those of all, got others for it")
    if publics.keys() != for_masks.keys() or any(
        len({*map(masks.checked_public, keys.values())}) < len(keys)
        for keys in (publics, for_masks)
    ):
        raise DataError("expected two keys of each client, no two of them alike, got others")
    labels, held = json.loads(str(values["labels"])), _held(context)
    check_labels(labels)
    if labels != sorted({*labels}) or not {*held.labels} <= {*labels}:
        raise DataError("expected all classes of this client among those of the sum, in order")
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
        raise DataError(_OUT_OF_ORDER)
    shares, publics = by_client(bytes_in(message)), _keys_of(state["mask_keys"])
    present, needed = sorted({own, *shares}), masks.threshold(len(publics))
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
            "redunet": state,  # the moments have been sent, and are not kept any longer
            "shares": ArrayRecord({str(one): array_of(shares[one]) for one in shares}),
        }
    )
    return records({"masked": y.astype("<u8").tobytes()})


def _unmask(message: Message, context: Context) -> RecordDict:
    """Last exchange: of each client the share of one of its two secrets, never of both."""
    state, own = _state(context), context.node_id
    if not state["masked"]:
        raise DataError(_OUT_OF_ORDER)
    sent = {int(client) for client in json.loads(str(values_in(message)["sent"]))}
    keys, held = _keys_of(state["share_keys"]), context.state.array_records["shares"]
    shares = by_client({name: bytes_of(array) for name, array in held.items()})
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
    found = context.state.get("redunet")
    if found is None:
        raise DataError(_OUT_OF_ORDER)
    return found


def _held(context: Context) -> Part:
    """The part that this client has learnt for the sum."""
    return Part.from_bytes(bytes_of(context.state.array_records["moments"]["moments"]))


def _keys_of(text: Any) -> dict[int, bytes]:
    return by_client({client: key.encode() for client, key in json.loads(str(text)).items()})
