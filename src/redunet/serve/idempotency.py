"""Requests that were carried out, by key: one that is sent again counts once.

They are kept in an SQLite database in a folder beside the model. It holds no class names and no
samples: keys are hashed, and what a request held is hashed with its key, so that only who knows
the key can compare it. Nobody else may enter the folder, so no link can be put under the names
that SQLite uses there.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redunet.errors import DataError, FileAccessError
from redunet.safety.files import cannot_write, sync_folder

HOURS = 24.0
"""How long keys are kept."""

MOST_KEYS = 100_000
"""Most keys that are kept, some 20 MB of them."""

LONGEST_KEY = 255

_TABLES = """
create table if not exists requests (
    number integer primary key,
    key blob not null unique,
    digest blob not null,
    time real not null,
    before text not null,
    after text not null,
    done integer  -- null: not known yet; 0: nobody can know; 1: carried out
);
create index if not exists by_time on requests (time);
create index if not exists open on requests (done) where done is null;
"""


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
    def name(self) -> bytes:
        """What the key is known by."""
        return hashlib.sha256(self.key.encode()).digest()

    @property
    def digest(self) -> bytes:
        """What the content is known by, to those who have the key."""
        return hmac.digest(self.key.encode(), self.content, "sha256")


class Keys:
    """The keys of changes to a model file; all methods are called while the file is held.

    Parameters
    ----------
    model : Path
        Of the file itself, not of a link to it.
    hours : float, default=HOURS
        How long they are kept.
    most : int, default=MOST_KEYS
        Of them are kept, the latest.
    """

    def __init__(self, model: Path, hours: float = HOURS, most: int = MOST_KEYS) -> None:
        name = hashlib.sha256(model.name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._folder = model.parent / f".redunet-requests-{name}"
        self._path = self._folder / "keys.sqlite"
        self._hours, self._most = hours, most
        self._database: sqlite3.Connection | None = None
        self._inode: int | None = None

    def settle(self, present: str) -> None:
        """Find out what became of a change whose process ended, from the sha256 of the file."""
        if not os.path.lexists(self._folder):
            return
        with self._opened() as database:
            database.execute(
                "delete from requests where done is null and before = ? and after <> before",
                [present],
            )
            database.execute("update requests set done = (after = ?) where done is null", [present])
            database.execute(
                "delete from requests where time < ? or number <= "
                "(select max(number) from requests) - ?",
                [time.time() - 3600 * self._hours, self._most],
            )

    def find(self, request: Request | None) -> dict[str, Any] | None:
        """The answer to a request that was carried out before; None where it was not."""
        if request is None or not os.path.lexists(self._folder):
            return None
        with self._opened() as database:
            row = database.execute(
                "select digest, before, after, done from requests where key = ?", [request.name]
            ).fetchone()
        if row is None:
            return None
        digest, before, after, done = row
        if not hmac.compare_digest(digest, request.digest):
            raise ReusedKeyError(
                "expected the same request with the same Idempotency-Key, got another: use a new "
                "key for each change"
            )
        if not done:
            raise UnsettledKeyError(
                "the server ended during this change, and another program changed the file since: "
                "look at the model, and use a new key"
            )
        return {"before": before, "sha256": after}

    def plan(self, request: Request | None, before: str, after: str) -> None:
        """Write a request down before it is carried out."""
        if request is not None:
            values = [request.name, request.digest, time.time(), before, after]
            with self._opened() as database:
                database.execute(
                    "insert into requests (key, digest, time, before, after) "
                    "values (?, ?, ?, ?, ?)",
                    values,
                )

    def done(self, request: Request | None) -> None:
        """Write down that it was carried out."""
        if request is not None:
            with self._opened() as database:
                database.execute("update requests set done = 1 where key = ?", [request.name])

    def end(self) -> None:
        """Let the database go."""
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The database, for one transaction that lasts when the block ends."""
        try:
            if self._database is None or _inode(self._path) != self._inode:
                self._database = self._connected()
            with self._database:
                yield self._database
        except sqlite3.OperationalError as error:
            raise cannot_write(self._path, error) from error
        except sqlite3.DatabaseError as error:
            raise FileAccessError(
                f"expected {self._path} to be left by redunet, got something else ({error}): "
                f"remove {self._folder}"
            ) from error
        except OSError as error:
            if isinstance(error, FileAccessError):
                raise
            raise cannot_write(self._path, error) from error

    def _connected(self) -> sqlite3.Connection:
        self.end()
        self._check_places()
        self._inode = _inode(self._path)
        # One thread at a time uses it, the one that holds the file, but not always the same.
        database = sqlite3.connect(self._path, check_same_thread=False)
        try:
            database.execute("pragma journal_mode = wal")  # one sync a transaction
            database.execute("pragma synchronous = full")
            database.executescript(_TABLES)
        except BaseException:
            database.close()
            raise
        return database

    def _check_places(self) -> None:
        """Make the folder and the file where they are missing; both must be ours alone."""
        try:
            os.mkdir(self._folder, 0o700)
            sync_folder(self._folder.parent, self._folder)
        except FileExistsError:
            self._check(self._folder, stat.S_ISDIR)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            os.close(os.open(self._path, flags, 0o600))
        except FileExistsError:
            self._check(self._path, stat.S_ISREG)

    def _check(self, path: Path, is_expected: Callable[[int], bool]) -> None:
        found = os.lstat(path)
        ours = os.name != "posix" or (
            found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
        )
        if not (ours and is_expected(found.st_mode)):
            raise FileAccessError(
                f"expected {path} to be missing, or made by redunet and closed to others, got "
                f"something else: remove {self._folder}"
            )


def _inode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None
