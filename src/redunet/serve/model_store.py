"""One model file, served: a version that is stored, and one that answers.

Changes come one after another. Each is made on a copy, written to the file under its lock, and
only then told. A thread builds the network of what is stored; meanwhile the version before it
answers. A version is never changed, only replaced by one assignment, so whoever holds one sees
that one alone.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from redunet.data.merging import check_builds
from redunet.errors import BusyError, FileAccessError, ModelFileError, ReduNetError
from redunet.estimators import Estimator, load
from redunet.safety.files import follow
from redunet.safety.lock import changing
from redunet.safety.receipts import Receipts, Withdrawal
from redunet.safety.transaction import Change
from redunet.safety.untrusted import file_sha256, open_regular
from redunet.serve.idempotency import Keys, Request
from redunet.serve.versions import (
    Found,
    Version,
    about_change,
    built,
    notes_on,
)
from redunet.text import shown as printable

Publish = Callable[[str, Found], None]
"""Told of an event: its name, and what it is about."""

Status = tuple[int, ...]

_TRIES = 10
"""How often to read a file that is replaced meanwhile: more than happens by chance."""

_LOG = logging.getLogger("redunet.serve")


class UnavailableError(ReduNetError):
    """The file or the network is not as it must be, whatever is asked."""


class Served:
    """A model file that is asked and changed while it is served.

    A link is followed when the server starts. One that comes in the place of the file later is
    refused, whatever it leads to.

    Parameters
    ----------
    path : Path
    device, memory
        As for `redunet.estimators.load`.
    receipts : Receipts, default=None
        Where every withdrawal is written down.
    publish : callable
    read_only : bool, default=False
        Whether nothing is to be written.
    """

    def __init__(
        self,
        path: Path,
        device: str = "auto",
        memory: str = "2GB",
        receipts: Receipts | None = None,
        publish: Publish = lambda name, about: None,
        read_only: bool = False,
    ) -> None:
        self.path, self._file = path, follow(path)
        self.receipts = receipts
        self.keys = Keys(self._file)
        self.failed: str | None = None
        self.downloads: dict[str, int] = {}
        self._publish = publish
        self._device, self._memory = device, memory
        self._changing = threading.Lock()
        self._access = threading.Lock()  # held while the file is read or written
        self._news = threading.Condition()
        self._ended = False
        self._damaged: dict[Status, str] = {}
        model, sha256, self._status = self._read(path)
        self.stored = Version(model, sha256, 1)
        self.answering: Version | None = None
        if not read_only:
            # Whoever holds the file for longer is changing it; the next change settles as much.
            with suppress(BusyError), changing(self._file, _silent, timeout=1.0):
                self._settle(file_sha256(self._file))
        self._try_to_build(self.stored)
        self._builder = threading.Thread(
            target=self._build, args=[self.stored], name="builder", daemon=True
        )
        self._builder.start()

    def change(
        self,
        what: str,
        apply: Callable[[Estimator], None],
        request: Request | None = None,
        samples: Callable[[], Iterable[tuple[Any, Any]]] | None = None,
        seconds: float = 30.0,
    ) -> Found:
        """Make a change; it is in the file when this returns, and otherwise nothing changed.

        Parameters
        ----------
        what : str
            "learn", "unlearn", "forget" or "merge".
        apply : callable
            Changes the model that it is given, or raises an error.
        request : Request, default=None
            With the key that lets it count once.
        samples : callable, default=None
            Of "unlearn": gives the batches that are withdrawn, for the receipt.
        seconds : float, default=30.0
            The longest to wait while others change the file.
        """
        self.current()
        with self._alone(seconds):
            before = self.current()
            self._settle(before.sha256)
            known = self.keys.find(request)
            if known is not None:
                same = {"what": what, "version": before.number, "notes": []}
                return {**same, **known, "repeated": True}
            model = copy.copy(before.model)
            apply(model)
            if what == "merge":
                check_builds(model)
            after = model.sha256()
            receipt = self._planned(what, before, after, model, samples)
            self.keys.plan(request, before.sha256, after)
            with self._access:
                notes = self._write(model, after)
                now = self._store(model, after, _status(self._file))
            notes += self._close(request, receipt)
        about = about_change(what, before, now)
        self._tell("changed", about)
        if receipt is not None:
            about["receipt"] = receipt.receipt
        return {**about, "repeated": False, "notes": [*notes_on(what, before.model), *notes]}

    def problem(self) -> str | None:
        """Take over what another process wrote to the file; return what is wrong with it."""
        with self._access:
            try:
                status = _status(self._file)
                if status == self._status:
                    return None
                if status not in self._damaged:
                    self._take_over(status)
            except (FileAccessError, OSError, MemoryError) as error:  # tried again
                return self._said(error)
            except Exception as error:  # noqa: BLE001 - seen by /health
                self._damaged = {status: self._said(error)}
            return self._damaged.get(status)

    def current(self) -> Version:
        """The version that is in the file; an UnavailableError where there is none."""
        if problem := self.problem():
            raise UnavailableError(problem)
        return self.stored

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
        for _ in range(_TRIES):
            stored, file = self.current(), open_regular(self._file)
            if hashlib.file_digest(file, "sha256").hexdigest() == stored.sha256:  # type: ignore[arg-type]
                file.seek(0)
                with self._news:
                    self.downloads[stored.sha256] = self.downloads.get(stored.sha256, 0) + 1
                return file
            file.close()
            with self._access:
                self._status = ()  # it is not what it seemed to be: look again
        raise UnavailableError(f"{self.path.name} is replaced all the time: try again later")

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
        self._builder.join(5)
        self.keys.end()

    @contextmanager
    def _alone(self, seconds: float) -> Iterator[None]:
        """Hold the file against other threads and other processes."""
        until = time.monotonic() + seconds
        if not self._changing.acquire(timeout=seconds):
            raise BusyError(f"{self.path.name} is being changed by others: try again later")
        try:
            left = max(0.0, until - time.monotonic())
            with changing(self._file, _silent, timeout=left, cancelled=lambda: self._ended):
                yield
        finally:
            self._changing.release()

    def _settle(self, present: str) -> None:
        """Write down what became of changes that were not closed."""
        self.keys.settle(present)
        if self.receipts is not None:
            self.receipts.refuse_files("the model", [self._file])
            self.receipts.journal.settle(present)

    def _planned(
        self,
        what: str,
        before: Version,
        after: str,
        model: Estimator,
        samples: Callable[[], Iterable[tuple[Any, Any]]] | None,
    ) -> Withdrawal | None:
        """The receipt of a withdrawal, written down before the file is replaced."""
        if self.receipts is None or what not in ("forget", "unlearn"):
            return None
        of_samples = None if samples is None else lambda _: samples()
        receipt = Withdrawal(self.receipts, of_samples, self.downloads)
        receipt.plan(Change(self._file, before.model, model, before.sha256, after))
        return receipt

    def _write(self, model: Estimator, after: str) -> list[str]:
        """Replace the file; what went wrong although it is replaced."""
        _status(self._file)  # no link was put there meanwhile
        try:
            model.save(self._file)
        except FileAccessError as error:
            if file_sha256(self._file) != after:
                raise
            return [str(error)]
        return []

    def _close(self, request: Request | None, receipt: Withdrawal | None) -> list[str]:
        """Write down that a change was made; what could not be written."""
        closing: dict[str, Callable[[], None]] = {
            "the receipt": lambda: self._close_receipt(receipt),
            "the Idempotency-Key": lambda: self.keys.done(request),
        }
        notes = []
        for what, close in closing.items():
            try:
                close()
            except Exception as error:  # noqa: BLE001 - the change was made all the same
                notes.append(
                    f"the change is in the file, but not yet written down as done with {what}, "
                    f"which the next change or start will do: {self._said(error)}"
                )
        return notes

    def _close_receipt(self, receipt: Withdrawal | None) -> None:
        if receipt is not None:
            receipt.close()

    def _take_over(self, status: Status) -> None:
        before = self.stored
        if file_sha256(self._file) == before.sha256:
            self._status = status
            return
        now = self._store(*self._read(self._file))
        self._tell("changed", about_change("file", before, now))

    def _read(self, path: Path) -> tuple[Estimator, str, Status]:
        for _ in range(_TRIES):
            status = _status(self._file)
            model, sha256 = load(path, self._device, self._memory), file_sha256(self._file)
            if status == _status(self._file):
                return model, sha256, status
        raise ModelFileError(f"{path} is replaced all the time: try again later")

    def _store(self, model: Estimator, sha256: str, status: Status) -> Version:
        with self._news:
            self.stored = Version(model, sha256, self.stored.number + 1)
            self._status, self.failed = status, None
            self._news.notify_all()
            return self.stored

    def _build(self, version: Version) -> None:
        """Build what is stored, the latest only, whenever it is another."""
        while True:
            with self._news:
                while not self._ended and self.stored is version:
                    self._news.wait()
                if self._ended:
                    return
                version = self.stored
            self._try_to_build(version)

    def _try_to_build(self, version: Version) -> None:
        ready, failed = None, None
        try:
            ready = replace(version, facts=built(version.model))
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
            text = printable(f"{type(error).__name__}: {error}")
            _LOG.error("redunet: an error in the server: %s", text)
        return text.replace(str(self._file), self.path.name)


def _silent(said: str) -> None:
    """Tell nobody."""


def _status(path: Path) -> Status:
    """What changes whenever a regular file is replaced or written."""
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
