"""Deletion receipts: a chained log of what was withdrawn from a model, to be checked later.

A receipt says which file became which, what was withdrawn and by what; see docs/receipts.md for
what that proves and what it does not.
"""

from __future__ import annotations

import copy
import hmac
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet._version import __version__
from redunet.core.moments import ClassMoments
from redunet.errors import SettingsError
from redunet.estimators.base import MomentEstimator
from redunet.estimators.checked_input import checked_labels
from redunet.features import held_of_data
from redunet.safety import journal
from redunet.safety.journal import Journal, Line
from redunet.safety.signatures import signer

Receipt = dict[str, Any]


@dataclass(frozen=True)
class Withdrawn:
    """What is withdrawn by single samples, without the samples.

    Parameters
    ----------
    salt : str
        Which the hashes were made with, in hexadecimal. It is handed to the caller and written
        nowhere: without it nobody can tell which samples the hashes are of.
    hashes : tuple of str
    """

    salt: str
    hashes: tuple[str, ...]

    @classmethod
    def of(cls, batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> Withdrawn:
        """Of samples and their labels, under a new salt."""
        salt = secrets.token_hex(32)
        hashes = [one for X, y in batches for one in sample_hashes(X, y, salt)]
        return cls(salt, tuple(hashes))


class Receipts:
    """A log of receipts, one model's.

    Parameters
    ----------
    path : path
        Of the log; it is made with the first receipt.
    sign_key : path, default=None
        Of an Ed25519 private key as PEM, such as ``openssl genpkey -algorithm ed25519`` writes.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from redunet import ReduNetClassifier
    >>> from redunet.estimators.receipts import Receipts
    >>> model = ReduNetClassifier(n_layers=1).fit([[3.0, 4.0], [1.0, 0.0]], ["a", "b"])
    >>> receipts = Receipts(pathlib.Path(tempfile.mkdtemp()) / "receipts.jsonl")
    >>> receipt = receipts.forget(model, ["b"])
    >>> receipt["withdrawn"]
    {'by': 'class', 'classes': [{'class': 'b', 'samples': 1}]}
    >>> model.classes_.tolist()
    ['a']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        sign_key: str | os.PathLike[str] | None = None,
    ) -> None:
        self.journal = Journal(path, None if sign_key is None else signer(sign_key))
        if sign_key is not None:
            self.refuse_files("the private key", [sign_key])

    def refuse_files(self, what: str, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Raise an error if the log is one of these files, by whatever name."""
        for path in paths:
            same = False
            with suppress(OSError, ValueError):  # one of them is not there
                same = os.path.samefile(self.journal.path, path)
            if same:
                raise SettingsError(
                    f"expected a log of receipts, got {what}, {os.fspath(path)}: name another file"
                )

    def forget(self, model: MomentEstimator, classes: Iterable[Any]) -> Receipt:
        """Withdraw classes from a model in memory, and write a receipt.

        Its hashes are those of the files that `save` would write before and after.

        Parameters
        ----------
        model : estimator
            Changed in place.
        classes : iterable of labels

        Returns
        -------
        dict
            The receipt.
        """
        changed = copy.copy(model).forget(classes)
        return self._carried_out(model, changed, None)

    def unlearn(self, model: MomentEstimator, X: ArrayLike, y: ArrayLike) -> Receipt:
        """Withdraw samples from a model in memory, and write a receipt; as `forget`.

        Returns
        -------
        dict
            The receipt, and ``salt``, which is not in the log: whoever has it can show which
            samples the receipt is about, by `sample_hashes`.
        """
        changed = copy.copy(model).unlearn(X, y)
        return self._carried_out(model, changed, Withdrawn.of([(X, y)]))

    def _carried_out(
        self, model: MomentEstimator, changed: MomentEstimator, samples: Withdrawn | None
    ) -> Receipt:
        before = model.sha256()
        self.journal.settle(before)
        line = self.plan(before, changed.sha256(), model, changed, samples)
        model._state = changed._state
        self.journal.close(line)
        return shown(line, samples)

    def plan(
        self,
        before: str,
        after: str,
        model: MomentEstimator,
        changed: MomentEstimator,
        samples: Withdrawn | None = None,
        *,
        name: str | None = None,
        superseded: Sequence[Receipt] = (),
    ) -> Line:
        """Write a receipt down before the file is replaced; `journal.close` completes it.

        Parameters
        ----------
        before, after : str
            sha256 of the file.
        model, changed : estimator
            What the two files hold.
        samples : Withdrawn, default=None
            None where classes were withdrawn as a whole.
        name : str, default=None
            Of the model file.
        superseded : sequence of dict
            Copies of the file before that are known of.
        """
        about = _about(model, changed, samples)
        return self.journal.plan(
            before, after, {**about, "model": name, "superseded": list(superseded)}
        )


def shown(line: Line, samples: Withdrawn | None = None) -> Receipt:
    """A receipt as callers get it."""
    salt = {} if samples is None else {"salt": samples.salt}
    return {**line.body, "sha256": line.sha256, **line.signed, **salt}


def sample_hashes(X: ArrayLike, y: ArrayLike, salt: str) -> list[str]:
    """What a receipt holds of samples: HMAC-SHA256 of their values and label, under its salt.

    Parameters
    ----------
    X : array-like of shape (n, ...)
        As they were withdrawn: after an encoder, before any other map.
    y : array-like of shape (n,)
    salt : str

    Examples
    --------
    >>> sample_hashes([[1.0, 2.0]], ["a"], "00")[0][:16]
    'dfa00406d8fa0eb1'
    """
    rows: NDArray[np.float64] = np.asarray(X, dtype="<f8")
    rows = np.ascontiguousarray(rows.reshape(len(rows), -1))
    labels, key = checked_labels(y, len(rows)), bytes.fromhex(salt)
    return [
        hmac.new(key, journal.canonical(label) + b"\n" + row.tobytes(), "sha256").hexdigest()
        for row, label in zip(rows, labels, strict=True)
    ]


def _about(model: MomentEstimator, changed: MomentEstimator, samples: Withdrawn | None) -> Receipt:
    """What a receipt says beside the hashes of the files."""
    held = held_of_data(model.features)
    withdrawn: Receipt = {
        "by": "class" if samples is None else "sample",
        "classes": [
            {"class": label, "samples": count}
            for label, count in _difference(model.moments_, changed.moments_).items()
        ],
    }
    if samples is not None:
        withdrawn["hashes"] = sorted(samples.hashes)
    own = model.self_labelled_
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "version": __version__,
        "withdrawn": withdrawn,
        "self_labelled_withdrawn": 0 if own is None else sum(own.counts),
        "remaining": {"classes": len(changed.moments_), "samples": sum(changed.moments_.counts)},
        "settings": {
            **model.own_settings(),
            "normalize": model.normalize,
            "input_range": model.input_range,
        },
        "feature_map": {
            "kind": None if model.feature_map_ is None else model.feature_map_.kind,
            "still_holds": held,
        },
    }


def _difference(before: ClassMoments, after: ClassMoments) -> dict[Any, int]:
    """How many samples of each class are gone."""
    left = dict(zip(after, after.counts, strict=True))
    gone = {
        label: count - left.get(label, 0)
        for label, count in zip(before, before.counts, strict=True)
    }
    return {label: count for label, count in gone.items() if count}
