"""Samples that wait until there are enough of their class to be learnt at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from redunet.core.labels import Label


class Waiting:
    """The samples of each class that were given and are not learnt yet.

    Parameters
    ----------
    learn : callable
        Given a label and a list of arrays or Tensors with its samples.
    most_bytes : float
        What all samples that wait may take.

    Examples
    --------
    >>> import torch
    >>> waiting = Waiting(lambda label, samples: print(label, [*map(len, samples)]), 1000)
    >>> waiting.add("a", torch.ones(2, 5), enough=4)
    >>> waiting.add("b", torch.ones(3, 5), enough=4)
    >>> waiting.add("a", torch.ones(2, 5), enough=4)
    a [2, 2]
    >>> waiting.learn_all()
    b [3]
    """

    def __init__(self, learn: Callable[[Label, list[Any]], None], most_bytes: float) -> None:
        self._learn, self._most_bytes = learn, most_bytes
        self._samples: dict[Label, list[Any]] = defaultdict(list)
        self._rows: Counter[Label] = Counter()
        self._bytes = 0

    def __iter__(self) -> Iterator[Label]:
        return iter(self._rows)

    def add(self, label: Label, samples: Any, enough: int) -> None:
        """Let samples of a class wait, and learn those of a class that has ``enough``."""
        if label in self._rows and self._rows[label] + len(samples) > enough:
            self.learn(label)  # a few rows more would take a product of their own
        self._samples[label].append(samples)
        self._rows[label] += len(samples)
        self._bytes += samples.nbytes
        if self._rows[label] >= enough:
            self.learn(label)
        while self._bytes > self._most_bytes:
            [(longest, _)] = self._rows.most_common(1)
            self.learn(longest)

    def learn(self, label: Label) -> None:
        """Learn the samples of a class, where some wait."""
        if label in self._rows:
            del self._rows[label]
            samples = self._samples.pop(label)
            self._bytes -= sum(part.nbytes for part in samples)
            self._learn(label, samples)

    def learn_all(self) -> None:
        """Learn all that wait, one class after another."""
        for label in [*self]:
            self.learn(label)
