"""Answers, changes and facts of a served model, whatever carries the requests."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from redunet.data.apply_batches import How, apply_batches, labelled_batches
from redunet.data.matching import label_type, options_for, read, samples_for
from redunet.data.prediction_file import best
from redunet.data.source import ReadOptions, Source
from redunet.errors import DataError, DataTypeError, SettingsError
from redunet.estimators import Estimator, load
from redunet.progress import silent
from redunet.serve import inputs, schemas
from redunet.serve.batching import Answers, Batcher
from redunet.serve.errors import FullError
from redunet.serve.events import Events
from redunet.serve.measures import Measures
from redunet.serve.model_store import Key, ModelStore
from redunet.serve.options import Options
from redunet.serve.versions import NO_FACTS, REJECT, Found, Version, can_reject

Files = Sequence[tuple[str, BinaryIO]]


class Service:
    """One served model with all that answers for it.

    Parameters
    ----------
    store : ModelStore
    events : Events
    options : Options
    """

    def __init__(self, store: ModelStore, events: Events, options: Options) -> None:
        self.store, self.events, self.options = store, events, options
        wanted = options_for(store.stored.model, ReadOptions(encoder=options.encoder))
        self.encoder = wanted.encoder
        self.batcher = Batcher(store.answers, options.waiting)
        self._turns = threading.BoundedSemaphore(options.waiting)
        self.measures = Measures(
            model_version=lambda: store.stored.number,
            model_version_answering=lambda: store.answering.number if store.answering else 0,
            model_classes=lambda: len(store.stored.model.class_counts_),
            model_samples=lambda: sum(store.stored.model.class_counts_.values()),
            build_seconds=lambda: (
                store.answering.facts["build_seconds"] if store.answering else math.nan
            ),
            waiting_questions=lambda: len(self.batcher),
        )

    def stop(self) -> None:
        """Let listeners go, and whoever waits for the file or the network."""
        self.events.end()
        self.store.stop()

    def end(self) -> None:
        """Finish what was begun."""
        self.batcher.end()
        self.store.end()

    def ask(self, asked: schemas.Question) -> Future[Answers]:
        """Answers to samples or texts, to come."""
        version = self.store.answers()
        novelty = _wants_novelty(version, asked)
        return self.batcher.ask(self._samples(version.model, asked), novelty)

    def answer_files(self, files: Files, asked: schemas.Question) -> Found:
        """Answer images, or the rows of tables and arrays."""
        version = self.store.answers()
        novelty = _wants_novelty(version, asked)
        rows, found, answers = 0, dict[str, Any](), list[Found]()
        with inputs.own_folder() as folder:
            sources = inputs.sources_of(version.model, folder, files, self.encoder)
            for _, batch in read(sources, "labelling", silent):
                rows += len(batch.X)
                if rows > schemas.MOST_SAMPLES:
                    raise DataError(f"expected at most {schemas.MOST_SAMPLES:,} samples")
                future = self.batcher.ask(samples_for(version.model, batch), novelty, version)
                try:
                    found = self.shown(future.result(self.options.seconds), asked)
                except TimeoutError:
                    raise FullError from None
                answers += found["answers"]
        return {**found, "answers": answers}

    def shown(self, answers: Answers, asked: schemas.Question) -> Found:
        """Answers as they are sent."""
        version, P = answers.version, answers.probabilities
        labels, threshold = version.model.classes_.tolist(), version.facts["threshold"]
        if asked.reject is not None:
            threshold = version.model.rejection_threshold(asked.reject)
        order = best(P, asked.top)
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

    def change_samples(self, what: str, given: schemas.Labelled, key: Key, wait: bool) -> Found:
        """Learn or unlearn samples or texts."""
        model = self.store.stored.model
        X = self._samples(model, given)
        if (given.label is None) == (given.labels is None):
            raise DataError("expected label, of all samples, or labels, one each")
        labels = given.labels if given.label is None else [given.label]
        y = inputs.labels_of(model, labels or [], len(X))
        return self._change(what, model, [inputs.source_of(model, X, y)], key, wait)

    def change_files(
        self,
        what: str,
        files: Files,
        labels: Sequence[inputs.Label],
        key: Key,
        wait: bool,
    ) -> Found:
        """Learn or unlearn images, or the rows of tables and arrays."""
        model = self.store.stored.model
        with inputs.own_folder() as folder:
            sources = inputs.sources_of(model, folder, files, self.encoder, labels)
            return self._change(what, model, sources, key, wait)

    def _change(
        self,
        what: str,
        model: Estimator,
        sources: Sequence[Source],
        key: Key,
        wait: bool,
    ) -> Found:
        kind = label_type(model)

        def apply(model: Estimator) -> None:
            how: How = "learning" if what == "learn" else "withdrawing"
            apply_batches(how, model, sources, kind=kind)

        def samples(model: Estimator) -> Any:
            batches = labelled_batches(model, sources, kind, "hashing")
            return ((X, y) for _, _, X, y in batches)

        return self._perform(what, apply, key, wait, samples if what == "unlearn" else None)

    def forget(self, given: schemas.Classes, key: Key, wait: bool) -> Found:
        """Forget classes."""
        model = self.store.stored.model
        labels = inputs.labels_of(model, given.classes, len(given.classes)).tolist()

        def apply(model: Estimator) -> None:
            model.forget(labels)

        return self._perform("forget", apply, key, wait)

    def merge(self, sent: bytes, key: Key, wait: bool) -> Found:
        """Add what another model has learnt, whose file was sent."""
        with inputs.own_folder() as folder:
            path = folder / "the model that was sent"
            path.write_bytes(sent)
            other = load(path)
            kind = self.store.stored.model.name()
            if other.name() != kind:
                raise DataTypeError(f"expected a model of {kind}, got {other.name()}")

            def apply(model: Any) -> None:
                model.merge(other)

            return self._perform("merge", apply, key, wait)

    def _perform(
        self,
        what: str,
        apply: Callable[[Estimator], None],
        key: Key,
        wait: bool,
        samples: Callable[[Estimator], Any] | None = None,
    ) -> Found:
        """Make a change when its turn comes, and say what became of the file."""
        if not self._turns.acquire(blocking=False):
            raise FullError
        try:
            found = self.store.change(what, apply, key, samples)
        finally:
            self._turns.release()
        if not found["repeated"]:
            self.measures.changes.labels(what).inc()
        if wait:
            self.store.wait_built(found["version"], self.options.seconds)
        found["answering"] = self.store.is_answering(found["version"])
        return found

    def facts(self) -> Found:
        """Facts about the model and its network."""
        stored, answering = self.store.stored, self.store.answering
        model = stored.model
        counts = model.class_counts_
        return {
            "name": self.store.path.name,
            "estimator": model.name(),
            "version": stored.number,
            "sha256": stored.sha256,
            "answering": {
                "version": None if answering is None else answering.number,
                "sha256": None if answering is None else answering.sha256,
                **(NO_FACTS if answering is None else answering.facts),
            },
            "failed": self.store.failed,
            "classes": [{"class": label, "samples": n} for label, n in counts.items()],
            "samples": sum(counts.values()),
            "self_labelled": sum(model.self_labelled_counts_.values()),
            "features": model.moments_.n_features,
            "input": inputs.input_of(model, self.encoder),
            "settings": {
                **model.own_settings(),
                "normalize": model.normalize,
                "input_range": model.input_range,
            },
            "reject": REJECT,
            "read_only": self.options.read_only,
            "receipts": self.options.receipts is not None,
        }

    def health(self) -> tuple[bool, Found]:
        """Whether all is well, and what is not."""
        store = self.store
        store.refresh()
        problem, failed = store.problem, store.problem or store.failed
        if not (store.is_kept_up() and self.batcher.is_alive()):
            failed = "a thread of the server has ended: restart the server"
        return failed is None, {
            "status": "ok" if failed is None else "failing",
            "version": store.stored.number,
            "answering": None if store.answering is None else store.answering.number,
            "sha256": store.stored.sha256,
            "file": "there" if problem is None else "wrong" if store.is_there() else "missing",
            "failed": failed,
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


def _wants_novelty(version: Version, asked: schemas.Question) -> bool:
    """Whether to compute how novel samples are; an error where a model cannot reject any."""
    if asked.reject is not None and not can_reject(version.model):
        raise SettingsError(
            f"expected no reject=, as a model of {version.model.name()} does not say how novel "
            f"samples are: leave it out"
        )
    return asked.novelty or asked.reject is not None
