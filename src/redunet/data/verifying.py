"""The command that verifies a log of receipts, and the model file that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from redunet.data.apply_batches import apply_batches, labelled_batches
from redunet.data.matching import label_type, open_all
from redunet.data.result import Result
from redunet.data.source import ReadOptions
from redunet.errors import DataError, ModelFileError
from redunet.estimators import Estimator, load
from redunet.estimators.moment_deltas import without_moments
from redunet.progress import Progress, silent
from redunet.safety.journal import CHANGE, DONE, NOT_DONE, UNKNOWN, Journal, Line, changes, closing
from redunet.safety.receipts import sample_hashes
from redunet.safety.signatures import public_key, signed_by
from redunet.safety.untrusted import file_sha256

_OF_COPIES = ("file", "sha256", "what")


def verify(
    log: Path,
    path: Path,
    *,
    data: Sequence[Path] = (),
    withdrawn: Sequence[Path] = (),
    salt: str | None = None,
    key: Path | None = None,
    options: ReadOptions | None = None,
    progress: Progress = silent,
) -> Result:
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
    options : ReadOptions, default=None
        How to read data.
    progress : callable
    """
    options = options or ReadOptions()
    model, present = load(path), file_sha256(path)
    hashes = _hashes(model, withdrawn, salt, options) if withdrawn else Counter[str]()
    journal = Journal(log)
    lines, signers, holding = list[Line](), list[str | None](), list[int]()
    for line in journal.read():
        signers.append(_checked_signature(line, key))
        gone = Counter(_checked_hashes(line))
        if hashes and all(gone[one] == times for one, times in hashes.items()):
            holding.append(_number(line))
        lines.append(line)
        del gone
    if not lines:
        raise DataError(f"expected receipts in {log}, got none: name another file")
    # One that is open was left by a process that ended: the file says what became of it.
    receipts = [(line, outcome or closing(line, present)) for line, outcome in _changes(lines, log)]
    made = [line for line, outcome in receipts if outcome != NOT_DONE]
    _check_present(made, present, path)
    after = [line.body["after"] for line, outcome in receipts if outcome == DONE]
    found: dict[str, Any] = {
        "log": str(log),
        "model": str(path),
        "receipts": [_row(line, outcome) for line, outcome in receipts],
        "head": lines[-1].sha256,
        "signed": sum(one is not None for one in signers),
        "lines": len(lines),
        "unfinished": journal.unfinished,
        "signers": sorted({one for one in signers if one is not None}),
        "sha256": present,
        "unchanged_since": present in after[-1:],
        "copies": _copies(made),
        "still_holds": receipts[-1][0].body["feature_map"]["still_holds"],
        "rebuilt": bool(data),
    }
    if hashes:
        number = next((_number(line) for line in made if _number(line) in holding), None)
        if number is None:
            raise DataError(
                f"expected all {hashes.total():,} samples in one receipt of {log} under this salt, "
                f"each as often as it was withdrawn, got none: other samples, or another salt"
            )
        found["withdrawn"] = {"line": number, "samples": hashes.total()}
    if data:
        _check_rebuilt(model, path, data, options, progress)
    elif not any(present in (line.body["before"], line.body["after"]) for line, _ in receipts):
        raise ModelFileError(
            f"{path} is the file of no line of {log}: it is another model, or has changed since, "
            f"such as by learning; then pass all remaining data with --data"
        )
    return Result.of(found, (), _notes(found, model))


def _number(line: Line) -> int:
    """The number of a line, from 1."""
    return int(line.body["number"]) + 1


def _checked_signature(line: Line, key: Path | None) -> str | None:
    by = signed_by(line)
    if key is not None and by != public_key(key):
        what = "is not signed" if by is None else f"is signed with another key, {by}"
        raise DataError(f"line {_number(line)} of the log {what}")
    return by


def _checked_hashes(line: Line) -> list[str]:
    """The hashes of samples in a line, taken out; an error unless it has what receipts have."""
    body = line.body
    if body["kind"] != CHANGE:
        return []
    try:
        withdrawn = body["withdrawn"]
        hashes: list[str] = withdrawn.pop("hashes", [])
        sound = (
            isinstance(body["time"], str)
            and withdrawn["by"] in ("class", "sample")
            and all(
                isinstance(one["class"], str | int) and type(one["samples"]) is int
                for one in withdrawn["classes"]
            )
            and all(isinstance(one[name], str) for one in body["superseded"] for name in _OF_COPIES)
            and isinstance(body["feature_map"]["still_holds"], str | None)
            and all(isinstance(one, str) for one in hashes)
        )
    except (LookupError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise DataError(
            f"line {_number(line)} of the log is no receipt: it does not say what was withdrawn, "
            f"as redunet's lines do; name another file, or take another copy"
        )
    return hashes


def _changes(lines: list[Line], log: Path) -> list[tuple[Line, str | None]]:
    """Every change and what became of it, where each closing line is about one of them."""
    known = {line.sha256 for line in lines if line.body["kind"] == CHANGE}
    for line in lines:
        if line.body["kind"] != CHANGE and line.body["change"] not in known:
            raise DataError(
                f"{log}, line {_number(line)} is about a change that is not in the log: "
                f"take another copy"
            )
    return changes(lines)


def _check_present(made: Sequence[Line], present: str, path: Path) -> None:
    """Raise an error where the present file holds what was withdrawn."""
    for line in reversed(made):
        if line.body["after"] == present:
            return
        if line.body["before"] == present:
            raise ModelFileError(
                f"{path} is the file before the withdrawal of line {_number(line)}: what was "
                f"withdrawn is in it, because an earlier copy was put back or it was learnt again"
            )


def _check_rebuilt(
    model: Estimator, path: Path, data: Sequence[Path], options: ReadOptions, progress: Progress
) -> None:
    """Raise an error unless a model that learns only these data is the same, to the byte."""
    sources = open_all(data, options, model, changing=True)
    rebuilt = without_moments(model)
    apply_batches("learning", rebuilt, sources, progress=progress, kind=label_type(model))
    if rebuilt.moments_ == model.moments_:
        return
    mine, theirs = (
        dict(zip(one.moments_, one.moments_.counts, strict=True)) for one in (model, rebuilt)
    )
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


def _hashes(
    model: Estimator, withdrawn: Sequence[Path], salt: str | None, options: ReadOptions
) -> Counter[str]:
    """Hashes of the samples that a receipt must be about, and how often each occurs."""
    try:
        bytes.fromhex(salt or "-")
    except ValueError:
        raise DataError("expected the salt that unlearn printed, in hexadecimal") from None
    sources = open_all(withdrawn, options, model, changing=True)
    batches = labelled_batches(model, sources, label_type(model), "hashing")
    return Counter(one for _, _, X, y in batches for one in sample_hashes(X, y, str(salt)))


def _row(line: Line, outcome: str) -> dict[str, Any]:
    body = line.body
    return {
        "line": _number(line),
        "time": body["time"],
        "by": body["withdrawn"]["by"],
        "classes": body["withdrawn"]["classes"],
        "before": body["before"],
        "after": body["after"],
        "outcome": outcome,
    }


def _copies(made: Sequence[Line]) -> list[dict[str, Any]]:
    """Copies that the receipts know of and nobody here can have removed, each once."""
    copies = [one for line in made for one in line.body["superseded"] if one["what"] != "replaced"]
    return list({(one["file"], one["sha256"]): one for one in copies}.values())


def _notes(found: dict[str, Any], model: Estimator) -> list[str]:
    notes = []
    if found["unfinished"]:
        notes.append(
            f"{found['unfinished']:,} bytes behind line {found['lines']} are a line that was cut "
            f"short, and nothing is known of what it said"
        )
    for row in found["receipts"]:
        if row["outcome"] == NOT_DONE:
            notes.append(f"line {row['line']}: the process ended before the file was changed")
        elif row["outcome"] == UNKNOWN:
            notes.append(
                f"line {row['line']}: the process ended, and the file was changed by another since:"
                f" pass the remaining data to be sure"
            )
    own = sum(model.self_labelled_counts_.values())
    if found["rebuilt"] and own:
        notes.append(
            f"{own:,} samples that the model labelled itself were not checked: "
            f"`redunet forget MODEL --unlabelled` withdraws them"
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
