"""What the server does for a request, whatever carries it: answers, changes, facts."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from redunet.data.apply_batches import How, apply_batches, labelled_batches
from redunet.data.matching import label_type, read, samples_for, wanted_for
from redunet.data.source import ReadOptions
from redunet.encoders import Encoder
from redunet.errors import DataError, DataTypeError
from redunet.estimators import Estimator, load
from redunet.progress import silent
from redunet.serve import inputs, schemas
from redunet.serve.batching import Answerer, Answers, FullError, check_can_reject
from redunet.serve.events import Events
from redunet.serve.idempotency import Request
from redunet.serve.measures import Measures
from redunet.serve.model_store import Served
from redunet.serve.versions import NO_FACTS, REJECT, Found, counts_of

Files = Sequence[tuple[str, BinaryIO]]


@dataclass(frozen=True)
class Limits:
    """How much at once.

    Parameters
    ----------
    waiting : int, default=64
        Most requests that wait for their turn, of changes and of answers each.
    seconds : float, default=30.0
        How long one waits; then it is refused and nothing was done.
    """

    waiting: int = 64
    seconds: float = 30.0


class Service:
    """One served model with all that answers for it.

    Parameters
    ----------
    served : Served
    events : Events
    limits : Limits
    encoder : Encoder, default=None
        Of a model whose encoder is a folder.
    read_only : bool
    """

    def __init__(
        self,
        served: Served,
        events: Events,
        limits: Limits,
        encoder: Encoder | None = None,
        read_only: bool = False,
    ) -> None:
        self.served, self.events, self.limits = served, events, limits
        self.read_only = read_only
        self.encoder = wanted_for(served.stored.model, ReadOptions(encoder=encoder)).encoder
        self.answerer = Answerer(served.answers, limits.waiting)
        self.measures = Measures(served, self.answerer)
        self._turns = threading.BoundedSemaphore(limits.waiting)
        self._threads = ThreadPoolExecutor(limits.waiting + 16, "requests")

    async def in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        """The result of work that takes time or waits for its turn."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    def stop(self) -> None:
        """Let listeners go, and whoever waits for the file or the network."""
        self.events.end()
        self.served.stop()

    def end(self) -> None:
        """Finish what was begun."""
        self._threads.shutdown()
        self.answerer.end()
        self.served.end()

    def ask(self, asked: schemas.Question) -> Future[Answers]:
        """Answers to samples or texts, to come."""
        version = self.served.answers()
        model = version.model
        if asked.reject is not None:
            check_can_reject(version)
        X = self._samples(model, asked)
        return self.answerer.ask(X, asked.novelty or asked.reject is not None)

    def answer_files(self, files: Files, asked: schemas.Question) -> Found:
        """Answers to images, or to the rows of tables and arrays."""
        version = self.served.answers()
        model, rows, labels = version.model, 0, []
        threshold: float | None = None
        if asked.reject is not None:
            check_can_reject(version)
        with inputs.own_folder() as folder:
            sources = inputs.sources_of(model, inputs.written(folder, files), self.encoder)
            for _, batch in read(sources, "labelling", silent):
                rows += len(batch.X)
                if rows > schemas.MOST_SAMPLES:
                    raise DataError(f"expected at most {schemas.MOST_SAMPLES:,} samples")
                X = samples_for(model, batch)
                future = self.answerer.ask(X, asked.novelty or asked.reject is not None, version)
                try:
                    answers = future.result(self.limits.seconds)
                except TimeoutError:
                    raise FullError from None
                found = self.shown(answers, asked)
                threshold = found["threshold"]
                labels += found["answers"]
        about = {"version": version.number, "sha256": version.sha256, "threshold": threshold}
        return {**about, "answers": labels}

    def shown(self, answers: Answers, asked: schemas.Question) -> Found:
        """Answers as they are sent."""
        version, P = answers.version, answers.probabilities
        labels, threshold = version.model.moments_.labels, version.facts["threshold"]
        if asked.reject is not None:
            threshold = version.model.rejection_threshold(asked.reject)
        top = min(asked.top, P.shape[1])
        order = P.argmax(axis=1)[:, None] if top == 1 else _ranked(P, top)
        chosen = np.take_along_axis(P, order, axis=1).tolist()
        novelty = [None] * len(P) if answers.novelty is None else answers.novelty.tolist()
        rows = []
        for places, values, novel in zip(order.tolist(), chosen, novelty, strict=True):
            ranked = [
                {"label": labels[place], "probability": value}
                for place, value in zip(places, values, strict=True)
            ]
            rejected = asked.reject is not None and novel > threshold
            label = None if rejected else ranked[0]["label"]
            rows.append({"label": label, "top": ranked, "novelty": novel})
        self.measures.samples.inc(len(rows))
        about = {"version": version.number, "sha256": version.sha256, "threshold": threshold}
        return {**about, "answers": rows}

    def change_samples(
        self, what: str, given: schemas.Labelled, request: Request | None, wait: bool
    ) -> Found:
        """Learn or withdraw samples or texts."""
        model = self.served.stored.model
        X = self._samples(model, given)
        if (given.label is None) == (given.labels is None):
            raise DataError("expected label, of all samples, or labels, one each")
        labels = given.labels if given.label is None else [given.label]
        y = inputs.labels_of(model, labels or [], len(X))
        names = getattr(model, "feature_names_in_", None)

        def apply(model: Estimator) -> None:
            to_change = model.partial_fit_batches if what == "learn" else model.unlearn_batches
            to_change([(X, y)], names)

        return self._perform(what, apply, request, wait, lambda: [(X, y)])

    def change_files(
        self,
        what: str,
        files: Files,
        labels: Sequence[inputs.Label],
        request: Request | None,
        wait: bool,
    ) -> Found:
        """Learn or withdraw images, or the rows of tables and arrays."""
        model = self.served.stored.model
        with inputs.own_folder() as folder:
            paths = inputs.written(folder, files)
            sources = inputs.sources_of(model, paths, self.encoder, labels, changing=True)
            kind = label_type(model)

            def apply(model: Estimator) -> None:
                how: How = "learning" if what == "learn" else "withdrawing"
                apply_batches(how, model, sources, kind=kind)

            def samples() -> Any:
                batches = labelled_batches(model, sources, kind, "hashing", silent)
                return ((X, y) for _, _, X, y in batches)

            return self._perform(what, apply, request, wait, samples)

    def forget(self, given: schemas.Classes, request: Request | None, wait: bool) -> Found:
        """Withdraw classes."""
        model = self.served.stored.model
        labels = inputs.labels_of(model, given.classes, len(given.classes)).tolist()

        def apply(model: Estimator) -> None:
            model.forget(labels)

        return self._perform("forget", apply, request, wait)

    def merge(self, sent: Path, request: Request | None, wait: bool) -> Found:
        """Add what another model has learnt."""
        other = load(sent)
        if type(other) is not type(self.served.stored.model):
            raise DataTypeError(
                f"expected a model of {self.served.stored.model.name()}, got {other.name()}"
            )

        def apply(model: Any) -> None:
            model.merge(other)

        return self._perform("merge", apply, request, wait)

    def _perform(
        self,
        what: str,
        apply: Callable[[Estimator], None],
        request: Request | None,
        wait: bool,
        samples: Callable[[], Any] | None = None,
    ) -> Found:
        """Make a change when its turn comes, and say what became of the file."""
        if not self._turns.acquire(blocking=False):
            raise FullError
        try:
            of_receipt = samples if what == "unlearn" else None
            found = self.served.change(what, apply, request, of_receipt, self.limits.seconds)
        finally:
            self._turns.release()
        if not found["repeated"]:
            self.measures.changes.labels(what).inc()
        if wait:
            self.served.wait_built(found["version"], self.limits.seconds)
        found["answering"] = self.served.is_answering(found["version"])
        return found

    def facts(self) -> Found:
        """What the model holds, and what its network tells."""
        stored, answering = self.served.stored, self.served.answering
        model = stored.model
        own = model.self_labelled_
        return {
            "name": self.served.path.name,
            "estimator": model.name(),
            "version": stored.number,
            "sha256": stored.sha256,
            "answering": {
                "version": None if answering is None else answering.number,
                "sha256": None if answering is None else answering.sha256,
                **(NO_FACTS if answering is None else answering.facts),
            },
            "failed": self.served.failed,
            "classes": [{"class": label, "samples": n} for label, n in counts_of(model).items()],
            "samples": sum(model.moments_.counts),
            "self_labelled": 0 if own is None else sum(own.counts),
            "features": model.moments_.n_features,
            "input": inputs.input_of(model, self.encoder),
            "settings": {
                **model.own_settings(),
                "normalize": model.normalize,
                "input_range": model.input_range,
            },
            "reject": REJECT,
            "read_only": self.read_only,
            "receipts": self.served.receipts is not None,
        }

    def health(self) -> tuple[bool, Found]:
        """Whether all is well, and what is not."""
        served = self.served
        problem = served.problem()
        good = problem is None and served.failed is None
        return good, {
            "status": "ok" if good else "failing",
            "version": served.stored.number,
            "answering": None if served.answering is None else served.answering.number,
            "sha256": served.stored.sha256,
            "file": "there" if problem is None else "wrong" if served.is_there() else "missing",
            "failed": problem or served.failed,
        }

    def _samples(self, model: Estimator, given: schemas.Samples) -> NDArray[Any]:
        ways = [given.sample, given.samples, given.text, given.texts]
        if sum(one is not None for one in ways) != 1:
            raise DataError("expected one of sample, samples, text and texts")
        if given.sample is not None:
            return inputs.rows_of(model, [given.sample])
        if given.samples is not None:
            return inputs.rows_of(model, given.samples)
        texts = given.texts if given.text is None else [given.text]
        return inputs.texts_of(texts or [], self.encoder)


def request_of(key: str | None, *parts: bytes | BinaryIO) -> Request | None:
    """A request by its key and all that it asks for; None without a key."""
    if key is None:
        return None
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, bytes):
            digest.update(hashlib.sha256(part).digest())
        else:
            digest.update(hashlib.file_digest(part, "sha256").digest())  # type: ignore[arg-type]
            part.seek(0)
    return Request(key, digest.digest())


def _ranked(P: NDArray[np.float64], top: int) -> NDArray[np.intp]:
    order: NDArray[np.intp] = np.argsort(-P, axis=1, kind="stable")[:, :top]
    return order
