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
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel

from redunet.errors import FileAccessError
from redunet.safety.files import cannot_write, sync_folder
from redunet.safety.transaction import Change
from redunet.serve.errors import ReusedKeyError, UnsettledKeyError

HOURS = 24.0
"""Hours that keys are kept."""

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


class RepeatedError(Exception):
    """A request that was carried out before, with the answer that it got."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("repeated")
        self.answer = answer


class KeyRecord:
    """The key of a change; see `redunet.safety.transaction`. Used while the file is held.

    Parameters
    ----------
    model : Path
        Of the file itself, not of a link to it.
    key : str, default=None
        None where the change has none.
    parts : sequence, default=()
        All that the request asks for: bytes, files, and bodies that were read.
    hours, most : float, int
        How long keys are kept, and how many of them.
    """

    name = "the Idempotency-Key"

    def __init__(
        self,
        model: Path,
        key: str | None = None,
        parts: Sequence[bytes | BinaryIO | BaseModel] = (),
        hours: float = HOURS,
        most: int = MOST_KEYS,
    ) -> None:
        name = hashlib.sha256(model.name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._folder = model.parent / f".redunet-requests-{name}"
        self._path = self._folder / "keys.sqlite"
        self._hours, self._most = hours, most
        self._key = None if key is None else hashlib.sha256(key.encode()).digest()
        self._content = b"" if key is None else _digest(key.encode(), parts)

    def settle(self, path: Path, present: str | None) -> None:
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

    def check(self) -> None:
        """Raise a RepeatedError where the request was carried out before."""
        if self._key is None or not os.path.lexists(self._folder):
            return
        with self._opened() as database:
            row = database.execute(
                "select digest, before, after, done from requests where key = ?", [self._key]
            ).fetchone()
        if row is None:
            return
        digest, before, after, done = row
        if not hmac.compare_digest(digest, self._content):
            raise ReusedKeyError(
                "expected the same request with the same Idempotency-Key, got another: use a new "
                "key for each change"
            )
        if not done:
            raise UnsettledKeyError(
                "the server ended during this change, and another program changed the file since: "
                "look at the model, and use a new key"
            )
        raise RepeatedError({"before": before, "sha256": after})

    def plan(self, change: Change[Any, Any]) -> None:
        """Write the request down before it is carried out."""
        if self._key is not None:
            with self._opened() as database:
                database.execute(
                    "insert into requests (key, digest, time, before, after) "
                    "values (?, ?, ?, ?, ?)",
                    [
                        *(self._key, self._content, time.time()),
                        *(change.before_sha256, change.after_sha256),
                    ],
                )

    def close(self) -> None:
        """Write down that it was carried out."""
        if self._key is not None:
            with self._opened() as database:
                database.execute("update requests set done = 1 where key = ?", [self._key])

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


def _digest(key: bytes, parts: Sequence[bytes | BinaryIO | BaseModel]) -> bytes:
    """A hash of all that a request asks for, for those who have its key."""
    digest = hmac.new(key, digestmod="sha256")
    for part in parts:
        if isinstance(part, BaseModel):
            part = part.model_dump_json().encode()
        if isinstance(part, bytes):
            digest.update(hashlib.sha256(part).digest())
        else:
            part.seek(0)  # it was read
            digest.update(hashlib.file_digest(part, "sha256").digest())  # type: ignore[arg-type]
    return digest.digest()
