"""Samples without labels on the command line: what is known, what is not, and what is certain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redunet.cli.answers import Json, Quiet, progress_of, say_found, teller
from redunet.cli.options import Device, Memory, Offload
from redunet.cli.own_data import Data, EncoderName, Label, SkipBad, Text, wanted_of

if TYPE_CHECKING:
    from redunet.estimators import Estimator


def calibrate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")],
    data: Data,
    encoder: EncoderName = None,
    text: Text = None,
    label: Label = None,
    skip_bad: SkipBad = 0,
    device: Device = "auto",
    memory: Memory = "2GB",
    as_json: Json = False,
    quiet: Quiet = False,
    offload: Offload = None,
) -> None:
    """Find, on validation samples, what `predict --reject` rejects; saved in the model.

    DATA holds samples of known classes that were not learnt; labels are ignored. Without this,
    thresholds are estimated from the model alone. They are about the model as it is: whatever is
    learnt or removed later drops them.

    Example:

        redunet calibrate intents.safetensors validation.csv
        redunet predict intents.safetensors new.csv --reject 0.05
    """
    from redunet.cli import lines
    from redunet.data.unlabelled import calibrate

    with progress_of(quiet) as progress:
        found = calibrate(
            model,
            data,
            wanted_of("ignored", label, skip_bad, text, encoder, device),
            device=device,
            memory=memory,
            tell=teller(quiet),
            progress=progress,
        )
    say_found(found, lines.calibrated, as_json, quiet)


def learn_unlabelled(
    model: Path, data: list[Path], wanted: Any, device: str, as_json: bool, quiet: bool
) -> None:
    """What `learn --unlabelled` does."""
    from redunet.cli import lines
    from redunet.data.unlabelled import learn_unlabelled

    with progress_of(quiet) as progress:
        found = learn_unlabelled(
            model, data, wanted, device=device, tell=teller(quiet), progress=progress
        )
    say_found(found, lines.labelled_itself, as_json, quiet)


def threshold_of(model: Estimator, reject: float) -> float:
    """The novelty above which `predict --reject` rejects."""
    from redunet.data.unlabelled import network

    return network(model).rejection_threshold(reject)
