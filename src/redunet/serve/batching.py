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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import SettingsError
from redunet.estimators import ReduNetClassifier
from redunet.serve.versions import Version

MOST_ROWS = 1024
"""Samples of several requests that go together."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of the samples of one request.

    Parameters
    ----------
    version : Version
        Which answered.
    probabilities : ndarray of shape (n, k)
    novelty : ndarray of shape (n,), or None
        None where it was not asked for, or the model cannot tell.
    """

    version: Version
    probabilities: NDArray[np.float64]
    novelty: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class _Asked:
    X: NDArray[Any]
    novelty: bool
    version: Version | None
    answers: Future[Answers] = field(default_factory=Future)


class FullError(Exception):
    """As many requests wait as may wait."""


class Answerer:
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
        self._waiting: queue.Queue[_Asked | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._answer, name="answers", daemon=True)
        self._thread.start()

    def ask(
        self, X: NDArray[Any], novelty: bool, version: Version | None = None
    ) -> Future[Answers]:
        """The answers for samples, (n, d) or (n, height, width[, 3]), to come.

        Those of ``version``, where it is given: for requests that ask more than once.
        """
        asked = _Asked(X, novelty, version)
        try:
            self._waiting.put_nowait(asked)
        except queue.Full:
            raise FullError from None
        return asked.answers

    def __len__(self) -> int:
        return self._waiting.qsize()

    def end(self) -> None:
        """Let the thread end after what waits."""
        self._waiting.put(None)
        self._thread.join(5)

    def _answer(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch, ended = [first], False
            rows = len(first.X)
            while rows < MOST_ROWS:
                try:
                    one = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if one is None:
                    ended = True
                    break
                batch.append(one)
                rows += len(one.X)
            self._answer_batch([one for one in batch if one.answers.set_running_or_notify_cancel()])
            if ended:
                return

    def _answer_batch(self, batch: Sequence[_Asked]) -> None:
        now = self._version()
        alike: dict[Any, list[_Asked]] = {}
        for one in batch:
            alike.setdefault((one.version or now, one.X.dtype, one.X.shape[1:]), []).append(one)
        for (version, *_), group in alike.items():
            try:
                _answer_together(version, group)
            except Exception:  # noqa: BLE001 - each hears of its own error, below
                for one in group:
                    _answer_alone(version, one)


def _answer_together(version: Version, group: Sequence[_Asked]) -> None:
    X = group[0].X if len(group) == 1 else np.concatenate([one.X for one in group])
    probabilities = version.model.predict_proba(X)
    novelty = None
    if any(one.novelty for one in group):
        novelty = _novelty(version, X)
    start = 0
    for one in group:
        part = slice(start, start + len(one.X))
        start = part.stop
        own = novelty[part] if novelty is not None and one.novelty else None
        one.answers.set_result(Answers(version, probabilities[part], own))


def _answer_alone(version: Version, one: _Asked) -> None:
    try:
        _answer_together(version, [one])
    except Exception as error:  # noqa: BLE001 - the thread goes on
        one.answers.set_exception(error)


def _novelty(version: Version, X: NDArray[Any]) -> NDArray[np.float64] | None:
    model = version.model
    return model.novelty(X) if isinstance(model, ReduNetClassifier) else None


def check_can_reject(version: Version) -> None:
    """Raise a SettingsError where a model cannot say how novel samples are."""
    if not isinstance(version.model, ReduNetClassifier):
        raise SettingsError(
            f"expected no reject=, as a model of {version.model.name()} does not say how novel "
            f"samples are: leave it out"
        )
