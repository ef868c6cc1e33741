"""One model file, served: a version that is stored, and one that answers.

Changes come one after another, each a transaction on the file. A background thread builds the
network of what is stored; meanwhile the version before it answers. A version is never changed,
only replaced by one assignment, so whoever holds one sees that one alone.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from redunet.data.merging import check_builds
from redunet.errors import BusyError, FileAccessError, ModelFileError, ReduNetError
from redunet.estimators import Estimator, load
from redunet.safety.files import follow
from redunet.safety.lock import changing
from redunet.safety.receipts import Withdrawal
from redunet.safety.transaction import Change, Record, transaction
from redunet.safety.transaction import replace as save
from redunet.safety.untrusted import file_sha256, open_regular
from redunet.serve.errors import UnavailableError
from redunet.serve.idempotency import KeyRecord, RepeatedError
from redunet.serve.options import Options
from redunet.serve.versions import Found, Version, about_change, built, notes_on
from redunet.text import shown

Publish = Callable[[str, Found], None]
"""Told of an event: its name, and what it is about."""

Status = tuple[int, ...]

Key = tuple[str | None, Sequence[Any]]

_WATCH = 0.5
"""Seconds between two looks at the file, which other processes may change."""

_TRIES = 10
"""Times to read a file that is replaced meanwhile: more than happens by chance."""

_LOG = logging.getLogger("redunet.serve")


class ModelStore:
    """A model file that is asked and changed while it is served.

    A link is followed when the server starts. One that comes in the place of the file later is
    refused, whatever it leads to.

    Parameters
    ----------
    path : Path
    options : Options
    publish : callable
    build : callable, default=built
        Builds the network of a model; gives what it tells.

    Attributes
    ----------
    stored : Version
        The one in the file.
    answering : Version, or None
        The last one whose network could be built.
    problem, failed : str, or None
        What is wrong with the file, and with the network of what is stored.
    """

    def __init__(
        self,
        path: Path,
        options: Options,
        publish: Publish = lambda name, about: None,
        build: Callable[[Estimator], Found] = built,
    ) -> None:
        self.path, self._file = path, follow(path)
        self._options = options
        self.problem: str | None = None
        self.failed: str | None = None
        self.answering: Version | None = None
        self.downloads: Counter[str] = Counter()
        self._publish, self._build = publish, build
        self._lock = threading.Lock()  # held by the one who reads or changes the file
        self._news = threading.Condition()
        self._ended = False
        self.stored = Version(*self._read(path), 1)
        if not options.read_only:
            # Whoever holds the file for longer is changing it; the next change settles as much.
            with suppress(BusyError), changing(self._file, _ignore, timeout=1.0):
                present = file_sha256(self._file)
                records: list[Record] = [*self._records("start"), KeyRecord(self._file)]
                for record in records:
                    record.settle(self._file, present)
        self._try_to_build(self.stored)
        self._keeper = threading.Thread(
            target=self._keep_up, args=[self.stored], name="builder", daemon=True
        )
        self._keeper.start()

    def change(
        self,
        what: str,
        apply: Callable[[Estimator], None],
        key: Key = (None, ()),
        samples: Callable[[Estimator], Iterable[tuple[Any, Any]]] | None = None,
    ) -> Found:
        """Make a change; it is in the file when this returns, and otherwise nothing changed.

        Parameters
        ----------
        what : str
            "learn", "unlearn", "forget" or "merge".
        apply : callable
            Changes the model that it is given, or raises an error.
        key : pair, default=(None, ())
            The key that lets the request count once, and all that the request asks for.
        samples : callable, default=None
            Of "unlearn": gives the batches that are withdrawn from a model, for the receipt.
        """
        until = time.monotonic() + self._options.seconds
        with self._alone():
            records = self._records(what, samples)
            request = KeyRecord(self._file, *key)
            self._current()

            def changed(model: Estimator) -> Estimator:
                request.check()
                apply(model)
                if what == "merge":
                    check_builds(model)
                return model

            try:
                done = transaction(
                    self._file,
                    lambda: self._current().model,
                    changed,
                    [*records, request],
                    tell=_ignore,
                    timeout=max(0.0, until - time.monotonic()),
                    cancelled=lambda: self._ended,
                    write=self._write,
                    sha256=lambda path: self.stored.sha256,
                )
            except RepeatedError as again:
                same = {"what": what, "version": self.stored.number, "notes": []}
                return {**same, **again.answer, "repeated": True}
            before, self._status = self.stored, _status(self._file)
            now = self._store(done.after, str(done.after_sha256))
        about = about_change(what, before, now)
        self._tell("changed", about)
        for record in records:
            if record.receipt is not None:
                about["receipt"] = record.receipt
        return {**about, "repeated": False, "notes": [*notes_on(what, before.model), *done.notes]}

    def refresh(self) -> None:
        """Take over what another process wrote to the file, unless it is being read or changed."""
        if self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()

    def answers(self) -> Version:
        """The version that answers; an UnavailableError where there is none yet."""
        if self.answering is None:
            raise UnavailableError(
                f"no network can be built of the model, so nothing can be answered: {self.failed}; "
                f"forget or unlearn what is wrong with it"
            )
        return self.answering

    def download(self) -> BinaryIO:
        """The file, opened and found to hold the version that is stored."""
        with self._alone():
            for _ in range(_TRIES):
                stored, file = self._current(), open_regular(self._file)
                if hashlib.file_digest(file, "sha256").hexdigest() == stored.sha256:  # type: ignore[arg-type]
                    file.seek(0)
                    self.downloads[stored.sha256] += 1
                    return file
                file.close()
                self._status = ()  # it is not what it seemed to be: look again
        raise UnavailableError(f"{self.path.name} is replaced all the time: try again later")

    def is_kept_up(self) -> bool:
        """Whether the background thread still runs."""
        return self._keeper.is_alive()

    def is_there(self) -> bool:
        """Whether anything has the name of the file."""
        return os.path.lexists(self._file)

    def is_answering(self, number: int) -> bool:
        """Whether a version, or a later one, answers."""
        return self.answering is not None and self.answering.number >= number

    def wait_built(self, number: int, seconds: float) -> bool:
        """Wait until a version, or a later one, answers."""
        with self._news:
            return self._news.wait_for(
                lambda: self.is_answering(number) or self.failed is not None or self._ended,
                seconds,
            )

    def stop(self) -> None:
        """Let go whoever waits for the file or the network."""
        with self._news:
            self._ended = True
            self._news.notify_all()

    def end(self) -> None:
        """Let the builder end; one that is in the middle of much work ends with the process."""
        self.stop()
        self._keeper.join(5)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the file against other threads."""
        if not self._lock.acquire(timeout=self._options.seconds):
            raise BusyError(f"{self.path.name} is being changed by others: try again later")
        try:
            yield
        finally:
            self._lock.release()

    def _records(
        self, what: str, samples: Callable[[Estimator], Any] | None = None
    ) -> list[Withdrawal]:
        """Where a change is written down before it is made, beside the keys of requests."""
        if self._options.receipts is None:
            return []
        kind = Withdrawal if what in ("forget", "unlearn") else _NoReceipt
        return [kind(self._options.receipts, samples, self.downloads)]

    def _write(self, change: Change[Estimator, Estimator]) -> list[str]:
        _status(self._file)  # no link was put there meanwhile
        return save(change)

    def _current(self) -> Version:
        """The version that is in the file; an UnavailableError where there is none."""
        self._refresh()
        if self.problem is not None:
            raise UnavailableError(self.problem)
        return self.stored

    def _refresh(self) -> None:
        try:
            status = _status(self._file)
            if status != self._status:
                self._take_over(status)
        except (FileAccessError, OSError, MemoryError) as error:  # tried again
            self.problem, self._status = self._said(error), ()
        except Exception as error:  # noqa: BLE001 - seen by /health
            self.problem, self._status = self._said(error), status

    def _take_over(self, status: Status) -> None:
        before = self.stored
        if file_sha256(self._file) == before.sha256:
            self._status = status
        else:
            now = self._store(*self._read(self._file))
            self._tell("changed", about_change("file", before, now))
        self.problem = None

    def _read(self, path: Path) -> tuple[Estimator, str]:
        for _ in range(_TRIES):
            self._status = _status(self._file)
            model = load(path, self._options.device, self._options.memory)
            sha256 = file_sha256(self._file)
            if self._status == _status(self._file):
                return model, sha256
        raise ModelFileError(f"{path} is replaced all the time: try again later")

    def _store(self, model: Estimator, sha256: str) -> Version:
        with self._news:
            self.stored = Version(model, sha256, self.stored.number + 1)
            self.failed = None
            self._news.notify_all()
            return self.stored

    def _keep_up(self, version: Version) -> None:
        """Watch the file, and build what is stored, the latest only, whenever it is another."""
        while not self._ended:
            with self._news:
                if self.stored is version:
                    self._news.wait(_WATCH)
            if self.stored is version:
                self.refresh()
            else:
                version = self.stored
                self._try_to_build(version)

    def _try_to_build(self, version: Version) -> None:
        ready, failed = None, None
        try:
            ready = replace(version, facts=self._build(version.model))
        except Exception as error:  # noqa: BLE001 - seen by /health; the next may be better
            failed = self._said(error)
        with self._news:
            self.failed = failed if version is self.stored else None
            self.answering = ready or self.answering
            self._news.notify_all()
        if ready is None:
            self._tell("failed", {"version": version.number, "error": failed})
        else:
            self._tell("ready", {"version": ready.number, "sha256": ready.sha256, **ready.facts})

    def _tell(self, name: str, about: Found) -> None:
        try:
            self._publish(name, about)
        except Exception as error:  # noqa: BLE001 - no listener is worth a change
            self._said(error)

    def _said(self, error: Exception) -> str:
        """An error in one line, without the folder; one that nobody foresaw is logged, too."""
        text = str(error)
        if isinstance(error, MemoryError):
            text = "out of memory"
        elif not isinstance(error, ReduNetError | OSError):
            text = shown(f"{type(error).__name__}: {error}")
            _LOG.error("redunet: an error in the server: %s", text)
        return text.replace(str(self._file), self.path.name)


class _NoReceipt(Withdrawal):
    """Closes the receipts that an ended process left open, and writes none of its own."""

    def plan(self, change: Change[Any, Any]) -> None:
        """Write nothing down."""


def _ignore(said: str) -> None:
    """Tell nobody."""


def _status(path: Path) -> Status:
    """The facts that change whenever a regular file is replaced or written."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileAccessError(f"cannot read {path}: {why}") from error
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
        got = kinds.get(stat.S_IFMT(found.st_mode), "something else")
        raise FileAccessError(
            f"cannot read {path}: expected the model file, got {got} in its place: put it back"
        )
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
