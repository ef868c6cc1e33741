"""One model file, served: a version that is stored, and one that answers.

Changes come one after another. Each is made on a copy, written to the file under its lock, and
only then told. A thread builds the network of what is stored; meanwhile the version before it
answers. A version is never changed, only replaced by one assignment, so whoever holds one sees
that one alone.
"""

from __future__ import annotations

import copy
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import FileAccessError, ModelFileError, ReduNetError
from redunet.estimators import Estimator, ReduNetClassifier, load
from redunet.estimators.receipts import Receipts, Withdrawn, shown
from redunet.features import held_of_data
from redunet.files import write_bytes
from redunet.lock import changing
from redunet.serve.idempotency import Keys, Request
from redunet.untrusted import file_sha256
from redunet.user_data.model_receipts import known_copies

Found = dict[str, Any]
Publish = Callable[[str, Found], None]
"""Told of an event: its name, and what it is about."""

REJECT = 0.05
"""The share of known samples beyond whose novelty a sample is shown as new."""


@dataclass(frozen=True, eq=False)
class Version:
    """A model as it was at one moment.

    Parameters
    ----------
    model : Estimator
        Never changed.
    sha256 : str
        Of its file.
    number : int
        From 1, of this server.
    status : tuple of int
        Inode and time of the file.
    facts : dict
        What its network tells, once it is built.
    """

    model: Estimator
    sha256: str
    number: int
    status: tuple[int, int]
    facts: Found = field(default_factory=dict)

    def __hash__(self) -> int:
        return id(self)


class Served:
    """A model file that is asked and changed while it is served.

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
        self.path = path
        self.receipts = receipts
        self.publish = publish
        self.keys = Keys(path)
        self._device, self._memory = device, memory
        self._changing = threading.Lock()
        self._news = threading.Condition()
        self._ended = False
        self.failed: str | None = None
        self.downloads: dict[str, int] = {}
        self.stored = self._read(1)
        self.answering = self._built(self.stored)
        if not read_only:
            with changing(path, lambda said: None):
                self.keys.settle(file_sha256(path))
                self.keys.shorten()
        self._builder = threading.Thread(target=self._build, name="builder", daemon=True)
        self._builder.start()

    def change(
        self,
        what: str,
        apply: Callable[[Estimator], None],
        request: Request | None = None,
        samples: Callable[[], Iterable[tuple[Any, Any]]] | None = None,
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
        """
        with self._changing, changing(self.path, lambda said: None):
            self._refresh()
            self.keys.settle(self.stored.sha256)
            known = self.keys.find(request)
            if known is not None:
                same = {"what": what, "version": self.stored.number, "notes": []}
                return {**same, **known, "repeated": True}
            before = self.stored
            model = copy.copy(before.model)
            apply(model)
            data = model.to_bytes()
            after = hashlib.sha256(data).hexdigest()
            withdrawn = Withdrawn.of(samples()) if samples and self.receipts else None
            receipt = self._planned(what, before, after, model, withdrawn)
            line = self.keys.plan(request, before.sha256, after)
            write_bytes(self.path, data)
            self.keys.done(line)
            if receipt is not None and self.receipts is not None:
                self.receipts.journal.close(receipt)
            self._store(Version(model, after, before.number + 1, _status(self.path)))
        about = self._about(what, before)
        self.publish("changed", about)
        if receipt is not None:
            about["receipt"] = shown(receipt, withdrawn)
        return {**about, "repeated": False, "notes": _notes(what, before.model)}

    def refresh(self) -> None:
        """Take over what another process, such as the command line, wrote to the file."""
        with self._changing:
            before = self.stored
            self._refresh()
        if self.stored is not before:
            self.publish("changed", self._about("file", before))

    def is_current(self) -> bool:
        """Whether the file is the one that was read or written last."""
        try:
            return _status(self.path) == self.stored.status
        except OSError:
            return True  # it is gone: what was read stays

    def wait_built(self, number: int, seconds: float) -> bool:
        """Wait until a version, or a later one, answers."""
        with self._news:
            return self._news.wait_for(
                lambda: self.answering.number >= number or self.failed is not None, seconds
            )

    def end(self) -> None:
        """Let the builder end; one that is in the middle of much work ends with the process."""
        with self._news:
            self._ended = True
            self._news.notify_all()
        self._builder.join(5)

    def _planned(
        self,
        what: str,
        before: Version,
        after: str,
        model: Estimator,
        withdrawn: Withdrawn | None,
    ) -> Any:
        """The receipt of a withdrawal, written down before the file is replaced."""
        if self.receipts is None or what not in ("forget", "unlearn"):
            return None
        copies = known_copies(self.path, before.sha256, self.downloads)
        self.receipts.journal.settle(before.sha256)
        return self.receipts.plan(
            before.sha256,
            after,
            before.model,
            model,
            withdrawn,
            name=self.path.name,
            superseded=copies,
        )

    def _about(self, what: str, before: Version) -> Found:
        now = self.stored
        counts, old = counts_of(now.model), counts_of(before.model)
        names = [*old, *(label for label in counts if label not in old)]
        changed = {label: counts.get(label, 0) - old.get(label, 0) for label in names}
        return {
            "what": what,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "version": now.number,
            "before": before.sha256,
            "sha256": now.sha256,
            "classes": [
                {"class": label, "samples": counts.get(label, 0), "change": n}
                for label, n in changed.items()
                if n
            ],
            "samples": sum(counts.values()),
        }

    def _refresh(self) -> None:
        if _status(self.path) != self.stored.status:
            self._store(self._read(self.stored.number + 1))

    def _read(self, number: int) -> Version:
        for _ in range(10):  # it may be replaced while it is read
            status = _status(self.path)
            model, sha256 = load(self.path, self._device, self._memory), file_sha256(self.path)
            if status == _status(self.path):
                return Version(model, sha256, number, status)
        raise ModelFileError(f"{self.path} is replaced all the time: try again later")

    def _store(self, version: Version) -> None:
        with self._news:
            self.stored, self.failed = version, None
            self._news.notify_all()

    def _build(self) -> None:
        """Build what is stored, the latest only, whenever it is another."""
        version = self.answering
        while True:
            with self._news:
                while not self._ended and self.stored.number == version.number:
                    self._news.wait()
                if self._ended:
                    return
                version = self.stored
            try:
                built = self._built(version)
            except (ReduNetError, MemoryError, RuntimeError) as error:
                with self._news:
                    self.failed = str(error) or "out of memory"
                    self._news.notify_all()
                self.publish("failed", {"version": version.number, "error": self.failed})
                continue
            with self._news:
                self.failed, self.answering = None, built
                self._news.notify_all()
            self.publish("ready", {"version": built.number, "sha256": built.sha256, **built.facts})

    def _built(self, version: Version) -> Version:
        """A version whose network is built, so that no answer waits for it."""
        start, model = time.perf_counter(), version.model
        probe = _probe(model)
        model.predict_proba(probe[:1])
        model.predict_proba(probe)
        facts: Found = {"delta_R": None, "threshold": None}
        if isinstance(model, ReduNetClassifier):
            model.novelty(probe)
            rates = model.network_.rates()
            facts["delta_R"] = [rate.delta_R for rate in rates]
            facts["threshold"] = model.rejection_threshold(REJECT)
        facts["build_seconds"] = round(time.perf_counter() - start, 4)
        return Version(model, version.sha256, version.number, version.status, facts)


def counts_of(model: Estimator) -> dict[Any, int]:
    """How many samples of each class were learnt."""
    return dict(zip(model.moments_, model.moments_.counts, strict=True))


def _notes(what: str, before: Estimator) -> list[str]:
    """What a withdrawal takes along, and what it does not reach."""
    if what not in ("forget", "unlearn"):
        return []
    notes, own, held = [], before.self_labelled_, held_of_data(before.features)
    if own is not None:
        notes.append(
            f"{sum(own.counts):,} samples that the model had labelled itself were withdrawn too"
        )
    if held is not None:
        notes.append(
            f"the feature map was learnt from data and stays as it is: what it holds of that data "
            f"({held}) is not withdrawn"
        )
    return notes


def _probe(model: Estimator) -> NDArray[np.float64]:
    """Samples that mean nothing, (64, d): what answers them is built then."""
    features = model.feature_map_
    images = features is not None and len(features.input_shape) > 1
    low, high = model.input_range or (0.0, 255.0 if images else 1.0)
    samples = np.random.RandomState(0).uniform(low, high, (64, model.n_features_in_))
    return samples.round() if images else samples  # pixels are whole numbers


def _status(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileAccessError(f"cannot read {path}: {why}") from error
    return found.st_ino, found.st_mtime_ns
