"""Answers to many clients: what waits while one batch is computed becomes the next batch.

One thread computes, so that a small model is not slowed down by threads that take turns, and
samples of several requests go through it together. All samples of a request are answered by one
version of the model.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.serve.errors import FullError
from redunet.serve.versions import Version, can_reject

MOST_ROWS = 1024
"""Samples of several requests that go together."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a model to the samples of one request.

    Parameters
    ----------
    version : Version
        The one that answered.
    probabilities : ndarray of shape (n, k)
    novelty : ndarray of shape (n,), or None
        None where it was not asked for, or the model cannot tell.
    """

    version: Version
    probabilities: NDArray[np.float64]
    novelty: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class _Question:
    X: NDArray[Any]
    novelty: bool
    version: Version | None
    answers: Future[Answers] = field(default_factory=Future)


class Batcher:
    """The thread that answers.

    Parameters
    ----------
    version : callable
        Gives the version that answers now.
    most_waiting : int
        Requests.
    """

    def __init__(self, version: Callable[[], Version], most_waiting: int) -> None:
        self._version = version
        self._waiting: queue.Queue[_Question | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._run, name="answers", daemon=True)
        self._thread.start()

    def ask(
        self, X: NDArray[Any], novelty: bool, version: Version | None = None
    ) -> Future[Answers]:
        """The answers for samples, (n, d) or (n, height, width[, 3]), to come.

        Those of ``version``, where it is given: for requests that ask more than once.
        """
        question = _Question(X, novelty, version)
        try:
            self._waiting.put_nowait(question)
        except queue.Full:
            raise FullError from None
        return question.answers

    def __len__(self) -> int:
        return self._waiting.qsize()

    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Let the thread end after what waits, without waiting for much."""
        try:
            self._waiting.put(None, timeout=5)
        except queue.Full:  # it ends with the process
            return
        self._thread.join(5)

    def _run(self) -> None:
        last: _Question | None = self._waiting.get()
        while last is not None:
            batch, rows = [last], len(last.X)
            while rows < MOST_ROWS and not self._waiting.empty():
                last = self._waiting.get()
                if last is None:
                    break
                batch.append(last)
                rows += len(last.X)
            _answer(
                [one for one in batch if one.answers.set_running_or_notify_cancel()], self._version
            )
            if last is not None:
                last = self._waiting.get()


def _answer(batch: Sequence[_Question], version: Callable[[], Version]) -> None:
    """Answer those together that ask alike; where that fails, each hears of its own error."""
    alike: dict[Any, list[_Question]] = {}
    for one in batch:
        try:
            key = one.version or version(), one.X.dtype, one.X.shape[1:]
        except Exception as error:  # noqa: BLE001 - the thread goes on
            one.answers.set_exception(error)
        else:
            alike.setdefault(key, []).append(one)
    for (now, *_), group in alike.items():
        try:
            _answer_together(now, group)
        except Exception as error:  # noqa: BLE001 - the thread goes on
            if len(group) == 1:
                group[0].answers.set_exception(error)
                continue
            for one in group:
                _answer([replace(one, version=now)], version)


def _answer_together(version: Version, group: Sequence[_Question]) -> None:
    X = np.concatenate([one.X for one in group])
    probabilities = version.model.predict_proba(X)
    novelty = None
    if any(one.novelty for one in group) and can_reject(version.model):
        novelty = version.model.novelty(X)
    start = 0
    for one in group:
        part = slice(start, start + len(one.X))
        start = part.stop
        own = novelty[part] if novelty is not None and one.novelty else None
        one.answers.set_result(Answers(version, probabilities[part], own))
