"""Receipts about model files: written with a change, and verified later."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redunet.errors import DataError, ModelFileError
from redunet.estimators import Estimator, load
from redunet.estimators.partial import without_moments
from redunet.estimators.receipts import Receipts, Withdrawn, sample_hashes, shown
from redunet.estimators.signatures import public_key, signed_by
from redunet.files import follow, write_bytes
from redunet.journal import DONE, NOT_DONE, UNKNOWN, Journal, Line, changes, closing
from redunet.progress import Progress, silent
from redunet.untrusted import open_regular
from redunet.user_data.for_model import label_type, open_all
from redunet.user_data.labelled import change, labelled_batches
from redunet.user_data.source import Source, Wanted

Found = dict[str, Any]


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def save_withdrawn(
    path: Path,
    before: Estimator,
    model: Estimator,
    receipts: Receipts | None,
    samples: Withdrawn | None = None,
) -> Found:
    """Replace a model file that is held alone; with receipts, write one.

    Parameters
    ----------
    path : Path
    before, model : estimator
        What the file holds, and what it is to hold.
    receipts : Receipts, or None
    samples : Withdrawn, default=None
        None where classes were withdrawn as a whole.

    Returns
    -------
    dict
        ``receipt``, where one was written.
    """
    if receipts is None:
        model.save(path)
        return {}
    old, data = file_sha256(path), model.to_bytes()
    receipts.journal.settle(old)
    line = receipts.plan(
        old,
        hashlib.sha256(data).hexdigest(),
        before,
        model,
        samples,
        name=path.name,
        superseded=known_copies(path, old),
    )
    write_bytes(path, data)
    receipts.journal.close(line)
    return {"receipt": shown(line, samples)}


def known_copies(path: Path, sha256: str) -> list[Found]:
    """The file that is replaced, and other names of it in the same folder (hard links)."""
    target = follow(path)
    found = os.stat(target)
    copies: list[Found] = [{"file": path.name, "sha256": sha256, "what": "replaced"}]
    others = found.st_nlink - 1
    if others:
        with os.scandir(target.parent) as entries:
            names = sorted(
                one.name
                for one in entries
                if one.name != target.name and one.inode() == found.st_ino and not one.is_symlink()
            )
        links = [*names, *["elsewhere"] * (others - len(names))]
        copies += [{"file": name, "sha256": sha256, "what": "hard link, kept"} for name in links]
    return copies


def withdrawn_samples(model: Estimator, sources: Sequence[Source]) -> Withdrawn:
    """What a receipt says of the samples of sources."""
    batches = labelled_batches(model, sources, label_type(model), "hashing", silent)
    return Withdrawn.of((X, y) for _, _, X, y in batches)


def verify(
    log: Path,
    path: Path,
    *,
    data: Sequence[Path] = (),
    withdrawn: Sequence[Path] = (),
    salt: str | None = None,
    key: Path | None = None,
    wanted: Wanted | None = None,
    progress: Progress = silent,
) -> Found:
    """Check a log of receipts, and the model file as it is now; anything wrong is an error.

    Parameters
    ----------
    log, path : Path
        Of the receipts, and of the model.
    data : sequence of Path
        All data that remains: the file must be the one that learnt these and nothing else.
    withdrawn : sequence of Path
        Samples that a receipt must be about, by ``salt``.
    salt : str, default=None
    key : Path, default=None
        Of the public key that every line must be signed with.
    wanted : Wanted, default=None
        How to read data.
    progress : callable

    Returns
    -------
    dict
        What was found.
    """
    wanted = wanted or Wanted()
    lines = Journal(log).lines()
    if not lines:
        raise DataError(f"expected receipts in {log}, got none: name another file")
    signers = [_checked_signature(line, key) for line in lines]
    model, present = load(path), file_sha256(path)
    # One that is open was left by a process that ended: the file says what became of it.
    receipts = [(line, outcome or closing(line, present)) for line, outcome in changes(lines)]
    _check_present(receipts, present, path)
    after = [line.body["after"] for line, outcome in receipts if outcome == DONE]
    found = {
        "log": str(log),
        "model": str(path),
        "receipts": [_row(line, outcome) for line, outcome in receipts],
        "head": lines[-1].sha256,
        "signed": sum(one is not None for one in signers),
        "lines": len(lines),
        "signers": sorted({one for one in signers if one is not None}),
        "sha256": present,
        "unchanged_since": bool(after) and present == after[-1],
        "copies": _copies(receipts),
        "still_holds": receipts[-1][0].body["feature_map"]["still_holds"],
    }
    if withdrawn:
        found["withdrawn"] = _matched(model, receipts, withdrawn, salt, wanted, log)
    if data:
        _check_rebuilt(model, path, data, wanted, progress)
    found["rebuilt"] = bool(data)
    found["notes"] = _notes(found, model)
    return found


def _checked_signature(line: Line, key: Path | None) -> str | None:
    by = signed_by(line)
    if key is not None and by != public_key(key):
        what = "is not signed" if by is None else f"is signed with another key, {by}"
        raise DataError(f"line {line.body['number'] + 1} of the log {what}")
    return by


def _check_present(receipts: Sequence[tuple[Line, str]], present: str, path: Path) -> None:
    """Raise an error where the present file holds what was withdrawn."""
    for line, outcome in reversed(receipts):
        body, number = line.body, line.body["number"] + 1
        if body["after"] == present and outcome != NOT_DONE:
            return
        if body["before"] == present and outcome != NOT_DONE:
            raise ModelFileError(
                f"{path} is the file before the withdrawal of line {number}: what was withdrawn "
                f"is in it, because an earlier copy was put back or it was learnt again"
            )


def _check_rebuilt(
    model: Estimator, path: Path, data: Sequence[Path], wanted: Wanted, progress: Progress
) -> None:
    """Raise an error unless a model that learns only these data is the same, to the byte."""
    sources = open_all(data, wanted, model, changing=True)
    rebuilt = without_moments(model)
    change("learning", rebuilt, sources, label_type(model), progress)
    if rebuilt.moments_ == model.moments_:
        return
    mine, theirs = _counts(model), _counts(rebuilt)
    differ = [label for label in {**mine, **theirs} if mine.get(label) != theirs.get(label)]
    what = "the samples differ"
    if differ:
        what = (
            f"class {differ[0]!r} has {mine.get(differ[0], 0):,} samples in the model and "
            f"{theirs.get(differ[0], 0):,} in the data"
        )
    raise ModelFileError(
        f"{path} is not the model that learns the remaining data and nothing else: {what}"
    )


def _counts(model: Estimator) -> dict[Any, int]:
    return dict(zip(model.moments_, model.moments_.counts, strict=True))


def _matched(
    model: Estimator,
    receipts: Sequence[tuple[Line, str]],
    withdrawn: Sequence[Path],
    salt: str | None,
    wanted: Wanted,
    log: Path,
) -> Found:
    """The receipt that samples are in, found by its salt."""
    try:
        bytes.fromhex(salt or "-")
    except ValueError:
        raise DataError("expected the salt that unlearn printed, in hexadecimal") from None
    sources = open_all(withdrawn, wanted, model, changing=True)
    kind = label_type(model)
    hashes = [
        one
        for _, _, X, y in labelled_batches(model, sources, kind, "hashing", silent)
        for one in sample_hashes(X, y, str(salt))
    ]
    for line, outcome in receipts:
        listed = set(line.body["withdrawn"].get("hashes", ()))
        if outcome != NOT_DONE and set(hashes) <= listed:
            return {"line": line.body["number"] + 1, "samples": len(hashes)}
    raise DataError(
        f"expected all {len(hashes):,} samples in one receipt of {log} under this salt, got none: "
        f"other samples, or another salt"
    )


def _row(line: Line, outcome: str) -> Found:
    body = line.body
    return {
        "line": body["number"] + 1,
        "time": body["time"],
        "by": body["withdrawn"]["by"],
        "classes": body["withdrawn"]["classes"],
        "before": body["before"],
        "after": body["after"],
        "outcome": outcome,
    }


def _copies(receipts: Sequence[tuple[Line, str]]) -> list[Found]:
    """Copies that the receipts know of and nobody here can have removed."""
    return [
        copy
        for line, outcome in receipts
        if outcome != NOT_DONE
        for copy in line.body["superseded"]
        if copy["what"] != "replaced"
    ]


def _notes(found: Found, model: Estimator) -> list[str]:
    notes = []
    for row in found["receipts"]:
        if row["outcome"] == NOT_DONE:
            notes.append(f"line {row['line']}: the process ended before the file was changed")
        elif row["outcome"] == UNKNOWN:
            notes.append(
                f"line {row['line']}: the process ended, and the file was changed by another since:"
                f" pass the remaining data to be sure"
            )
    if not found["unchanged_since"] and not found["rebuilt"]:
        notes.append(
            "the file was changed since the last receipt, such as by learning: pass the remaining "
            "data with --data to check that it holds nothing else"
        )
    if found["rebuilt"] and model.self_labelled_ is not None:
        notes.append(
            f"{sum(model.self_labelled_.counts):,} samples that the model labelled itself were not "
            f"checked: `redunet forget MODEL --unlabelled` withdraws them"
        )
    if found["copies"]:
        notes.append(
            f"{len(found['copies'])} known copies of earlier files may still hold the data"
        )
    if found["still_holds"]:
        notes.append(
            f"the feature map was learnt from data and still holds of it: {found['still_holds']}"
        )
    return notes
