"""Requests that were carried out, by key: one that is sent again counts once.

They are kept in an SQLite database in a folder beside the model. It holds no class names and no
samples: keys are hashed, and the content of a request is hashed with its key, so that only who
knows the key can compare it. Nobody else may enter the folder, so no link can be put under the
names that SQLite uses there.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel

from redunet.errors import FileAccessError
from redunet.safety.files import cannot_write, sync_folder
from redunet.safety.transaction import Change
from redunet.serve.errors import ReusedKeyError, UnsettledKeyError

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
        """A hash of the key, which it is stored by."""
        return hashlib.sha256(self.key.encode()).digest()

    @property
    def digest(self) -> bytes:
        """A hash of the content, for those who have the key."""
        return hmac.digest(self.key.encode(), self.content, "sha256")


def request_of(key: str | None, *parts: bytes | BinaryIO | BaseModel) -> Request | None:
    """A request by its key and all that it asks for; None without a key."""
    if key is None:
        return None
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, BaseModel):
            part = part.model_dump_json().encode()
        if isinstance(part, bytes):
            digest.update(hashlib.sha256(part).digest())
        else:
            digest.update(hashlib.file_digest(part, "sha256").digest())  # type: ignore[arg-type]
            part.seek(0)
    return Request(key, digest.digest())


class RepeatedError(Exception):
    """A request that was carried out before, with the answer that it got."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("repeated")
        self.answer = answer


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

    def find(self, request: Request) -> dict[str, Any] | None:
        """The answer to a request that was carried out before; None where it was not."""
        if not os.path.lexists(self._folder):
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

    def plan(self, request: Request, before: str, after: str) -> None:
        """Write a request down before it is carried out."""
        with self._opened() as database:
            database.execute(
                "insert into requests (key, digest, time, before, after) values (?, ?, ?, ?, ?)",
                [request.name, request.digest, time.time(), before, after],
            )

    def done(self, request: Request) -> None:
        """Write down that it was carried out."""
        with self._opened() as database:
            database.execute("update requests set done = 1 where key = ?", [request.name])

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The database, for one transaction that lasts when the block ends."""
        try:
            self._make_folder()
            with closing(sqlite3.connect(self._path)) as database, database:
                database.execute("pragma synchronous = full")
                database.executescript(_TABLES)
                yield database
        except sqlite3.OperationalError as error:
            raise cannot_write(self._path, error) from error
        except sqlite3.DatabaseError as error:
            raise FileAccessError(
                f"expected {self._path} to be left by redunet, got something else ({error}): "
                f"remove {self._folder}"
            ) from error

    def _make_folder(self) -> None:
        """Make the folder where it is missing; it must be ours alone."""
        try:
            os.mkdir(self._folder, 0o700)
            sync_folder(self._folder.parent, self._folder)
        except FileExistsError:
            found = os.lstat(self._folder)
            ours = os.name != "posix" or (
                found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
            )
            if not (ours and stat.S_ISDIR(found.st_mode)):
                raise FileAccessError(
                    f"expected {self._folder} to be missing, or made by redunet and closed to "
                    f"others, got something else: remove it"
                ) from None
        except OSError as error:
            raise cannot_write(self._folder, error) from error


class KeyRecord:
    """The key of one transaction; see `redunet.safety.transaction`.

    Parameters
    ----------
    keys : Keys
    request : Request, or None
        None where the change has no key.
    """

    name = "the Idempotency-Key"

    def __init__(self, keys: Keys, request: Request | None) -> None:
        self._keys, self._request = keys, request

    def settle(self, path: Path, present: str | None) -> None:
        """Find out what became of changes whose process ended."""
        self._keys.settle(str(present))

    def plan(self, change: Change[Any, Any]) -> None:
        """Write the request down before it is carried out."""
        if self._request is not None:
            before, after = str(change.before_sha256), str(change.after_sha256)
            self._keys.plan(self._request, before, after)

    def close(self) -> None:
        """Write down that it was carried out."""
        if self._request is not None:
            self._keys.done(self._request)
