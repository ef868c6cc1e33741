"""Deletion receipts: a chained log of what was withdrawn from a model, to be checked later.

A receipt says which file became which, what was withdrawn and by what; see docs/receipts.md for
what that proves and what it does not.
"""

from __future__ import annotations

import copy
import hmac
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from redunet._version import __version__
from redunet.errors import SettingsError
from redunet.safety.files import follow
from redunet.safety.journal import Journal, Line, canonical
from redunet.safety.signatures import signer
from redunet.safety.transaction import Change

Receipt = dict[str, Any]


class Model(Protocol):
    """A model that receipts can be about."""

    def forget(self, classes: Iterable[Any]) -> Self:
        """Withdraw classes."""

    def unlearn(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Withdraw samples."""

    def sha256(self) -> str:
        """The sha256 of the file that the model is saved as."""

    def summary(self) -> dict[str, Any]:
        """Counts of samples by class, settings, and the feature map."""


@dataclass(frozen=True)
class SaltedHashes:
    """Hashes of samples that are withdrawn, so that a receipt need not hold the samples.

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
    def of(cls, batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> SaltedHashes:
        """Hash samples and their labels under a new salt."""
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
    >>> from redunet.safety.receipts import Receipts
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
        """Raise a SettingsError if the log is one of these files, by whatever name."""
        for path in paths:
            same = False
            with suppress(OSError, ValueError):  # one of them is not there
                same = os.path.samefile(self.journal.path, path)
            if same:
                raise SettingsError(
                    f"expected a log of receipts, got {what}, {os.fspath(path)}: name another file"
                )

    def forget(self, model: Model, classes: Iterable[Any]) -> Receipt:
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
        return self._withdraw(model, copy.copy(model).forget(classes), None)

    def unlearn(self, model: Model, X: ArrayLike, y: ArrayLike) -> Receipt:
        """Withdraw samples from a model in memory, and write a receipt.

        Parameters
        ----------
        model : estimator
            Changed in place.
        X : array-like of shape (n, ...)
        y : array-like of shape (n,)

        Returns
        -------
        dict
            The receipt, and ``salt``, which is not in the log: whoever has it can show which
            samples the receipt is about, by `sample_hashes`.
        """
        changed = copy.copy(model).unlearn(X, y)
        return self._withdraw(model, changed, SaltedHashes.of([(X, y)]))

    def _withdraw(self, model: Model, changed: Model, samples: SaltedHashes | None) -> Receipt:
        before = model.sha256()
        self.journal.settle(before)
        about = {**_about(model, changed, samples), "model": None, "superseded": []}
        line = self.journal.plan(before, changed.sha256(), about)
        vars(model).update(vars(changed))
        self.journal.close(line)
        return _as_receipt(line, samples)


class Withdrawal:
    """The receipt of one transaction; see `redunet.safety.transaction`.

    Parameters
    ----------
    receipts : Receipts
        The log.
    samples : callable, default=None
        Gives the batches that are withdrawn, as pairs of samples and labels, from the model before
        the change; None where classes are withdrawn as a whole.
    downloads : mapping, default=None
        From the sha256 of a file to how often it was handed out.
    """

    name = "the receipt"

    def __init__(
        self,
        receipts: Receipts,
        samples: Callable[[Any], Iterable[tuple[ArrayLike, ArrayLike]]] | None = None,
        downloads: Mapping[str, int] | None = None,
    ) -> None:
        self._receipts = receipts
        self._of_samples, self._downloads = samples, downloads or {}
        self._samples: SaltedHashes | None = None
        self._line: Line | None = None

    def settle(self, path: Path, present: str | None) -> None:
        """Close what an ended process left open."""
        self._receipts.refuse_files("the model", [path])
        self._receipts.journal.settle(present)

    def plan(self, change: Change[Any, Any]) -> None:
        """Write the receipt down."""
        if self._of_samples is not None:
            self._samples = SaltedHashes.of(self._of_samples(change.before))
        before, after = str(change.before_sha256), str(change.after_sha256)
        handed = {sha256: n for sha256, n in self._downloads.items() if sha256 != after}
        about = {
            **_about(change.before, change.after, self._samples),
            "model": change.path.name,
            "superseded": known_copies(change.path, before, handed),
        }
        self._line = self._receipts.journal.plan(before, after, about)

    def close(self) -> None:
        """Write down that the file was replaced."""
        if self._line is not None:
            self._receipts.journal.close(self._line)

    @property
    def receipt(self) -> Receipt | None:
        """The receipt as callers get it, with its salt; None before the change."""
        return None if self._line is None else _as_receipt(self._line, self._samples)


def sample_hashes(X: ArrayLike, y: ArrayLike, salt: str) -> list[str]:
    """Hash samples as receipts do: HMAC-SHA256 of their values and label, under a salt.

    Parameters
    ----------
    X : array-like of shape (n, ...)
        As they were withdrawn: after an encoder, before any other map.
    y : array-like of shape (n,)
    salt : str
        In hexadecimal.

    Returns
    -------
    list of n str

    Examples
    --------
    >>> sample_hashes([[1.0, 2.0]], ["a"], "00")[0][:16]
    'dfa00406d8fa0eb1'
    """
    rows: NDArray[np.float64] = np.asarray(X, dtype="<f8")
    rows = np.ascontiguousarray(rows.reshape(len(rows), -1))
    labels, key = np.asarray(y).reshape(-1).tolist(), bytes.fromhex(salt)
    return [
        hmac.new(
            key,
            # Labels are whole numbers or text: whatever has learnt them takes 1.0 for 1.
            canonical(int(label) if isinstance(label, float) else label) + b"\n" + row.tobytes(),
            "sha256",
        ).hexdigest()
        for row, label in zip(rows, labels, strict=True)
    ]


def known_copies(path: Path, sha256: str, downloads: Mapping[str, int]) -> list[Receipt]:
    """List the file that is replaced, its hard links, and downloads."""
    copies: list[Receipt] = [{"file": path.name, "sha256": sha256, "what": "replaced"}]
    link = {"file": "elsewhere", "sha256": sha256, "what": "hard link, kept"}
    copies += [link] * (os.stat(follow(path)).st_nlink - 1)
    for earlier, times in downloads.items():
        handed = f"downloaded {times} time{'s' * (times > 1)}"
        copies.append({"file": path.name, "sha256": earlier, "what": handed})
    return copies


def _as_receipt(line: Line, samples: SaltedHashes | None) -> Receipt:
    """A receipt as callers get it."""
    salt = {} if samples is None else {"salt": samples.salt}
    return {**line.body, "sha256": line.sha256, **line.signed, **salt}


def _about(before: Model, after: Model, samples: SaltedHashes | None) -> Receipt:
    """The fields of a receipt beside hashes and names of files."""
    was, now = before.summary(), after.summary()
    left: dict[Any, int] = now["classes"]
    withdrawn: Receipt = {
        "by": "class" if samples is None else "sample",
        "classes": [
            {"class": label, "samples": count - left.get(label, 0)}
            for label, count in was["classes"].items()
            if count != left.get(label, 0)
        ],
    }
    if samples is not None:
        withdrawn["hashes"] = sorted(samples.hashes)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "version": __version__,
        "withdrawn": withdrawn,
        "self_labelled_withdrawn": was["self_labelled"],
        "remaining": {"classes": len(left), "samples": sum(left.values())},
        "settings": was["settings"],
        "feature_map": was["feature_map"],
    }
