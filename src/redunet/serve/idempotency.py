"""Requests that were carried out, by key: one that is sent again counts once.

The log lies beside the model and holds no class names and no samples: keys are hashed, and what a
request held is hashed with its key, so that only who knows the key can compare it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redunet.errors import DataError
from redunet.files import follow
from redunet.journal import DONE, NOT_DONE, Journal, Line

MOST_KEYS = 10_000
HOURS = 24
"""How long keys are kept."""

LONGEST_KEY = 255


class ReusedKeyError(DataError):
    """A key that came before, with another request."""


class UnsettledKeyError(DataError):
    """A key whose request may or may not have been carried out."""


@dataclass(frozen=True)
class Request:
    """A request with a key.

    Parameters
    ----------
    key : str
    content : bytes
        All that it asks for.
    """

    key: str
    content: bytes

    @property
    def name(self) -> str:
        """What the key is known by."""
        return hashlib.sha256(self.key.encode()).hexdigest()

    @property
    def digest(self) -> str:
        """What the content is known by, to those who have the key."""
        return hmac.new(self.key.encode(), self.content, "sha256").hexdigest()


class Keys:
    """The keys of changes to a model file; all methods are called while the file is held.

    Parameters
    ----------
    model : Path
    """

    def __init__(self, model: Path) -> None:
        target = follow(model)
        name = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._journal = Journal(target.parent / f".redunet-requests-{name}.jsonl", mode=0o600)
        self._known: dict[str, tuple[Line, str | None]] = {}
        self._read()

    def settle(self, present: str) -> None:
        """Find out what became of a change whose process ended, from the file as it is."""
        if self._status() != self._seen:  # another server of the same model
            self._read()
        if any(outcome is None for _, outcome in self._known.values()):
            self._journal.settle(present)
            self._read()

    def find(self, request: Request | None) -> dict[str, Any] | None:
        """What to answer to a request that was carried out before; None where it was not."""
        if request is None or request.name not in self._known:
            return None
        line, outcome = self._known[request.name]
        if outcome == NOT_DONE:
            return None
        if not hmac.compare_digest(line.body["digest"], request.digest):
            raise ReusedKeyError(
                "expected the same request with the same Idempotency-Key, got another: use a new "
                "key for each change"
            )
        if outcome != DONE:
            raise UnsettledKeyError(
                "the server ended during this change, and another program changed the file since: "
                "look at the model, and use a new key"
            )
        return {"before": line.body["before"], "sha256": line.body["after"]}

    def plan(self, request: Request | None, before: str, after: str) -> Line | None:
        """Write a request down before it is carried out."""
        if request is None:
            return None
        if len(self._known) >= 2 * MOST_KEYS:
            self.shorten()
        about = {"key": request.name, "digest": request.digest, "time": time.time()}
        line = self._journal.plan(before, after, about)
        self._known[request.name] = (line, None)
        self._seen = self._status()
        return line

    def done(self, line: Line | None) -> None:
        """Write down that it was carried out."""
        if line is not None:
            self._journal.close(line)
            self._known[line.body["key"]] = (line, DONE)
            self._seen = self._status()

    def _status(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._journal.path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> None:
        self._seen = self._status()
        self._known = {
            line.body["key"]: (line, outcome) for line, outcome in self._journal.changes()
        }

    def shorten(self) -> None:
        """Drop old keys, and all but the latest, where there are some to drop."""
        since = time.time() - 3600 * HOURS
        done = [line.body for line, outcome in self._known.values() if outcome == DONE]
        kept = [body for body in done if body["time"] > since][-MOST_KEYS:]
        if len(kept) < len(self._known):
            self._journal.rewrite([(body, DONE) for body in kept])
            self._read()
