"""A model file and the data that a command learns, withdraws or measures with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redunet.data.matching import open_all
from redunet.data.result import Result
from redunet.data.source import ReadOptions, Source
from redunet.estimators import Estimator, load
from redunet.progress import Progress, silent
from redunet.safety.lock import Tell
from redunet.safety.transaction import Change, Record, replace, transaction


@dataclass(frozen=True)
class ModelFile:
    """A model file with data for it.

    Parameters
    ----------
    path : Path
        Of the model.
    data : sequence of Path
    options : ReadOptions
    device, memory : str
        As for `redunet.load`.
    tell : callable
        Takes lines that a person should see at once.
    progress : callable
    """

    path: Path
    data: Sequence[Path]
    options: ReadOptions
    device: str = "auto"
    memory: str = "2GB"
    tell: Tell = print
    progress: Progress = silent
    sources: list[Source] = field(default_factory=list, init=False)

    def load(self) -> Estimator:
        """Read the model."""
        return load(self.path, self.device, self.memory)

    def open(self, model: Estimator, *, changing: bool = False) -> list[Source]:
        """Open the data, as the model takes it."""
        self.sources[:] = open_all(self.data, self.options, model, changing=changing)
        return self.sources

    def change(
        self,
        apply: Callable[[Any], Any],
        records: Sequence[Record] = (),
        *,
        read: Callable[[], Any] | None = None,
        write: Callable[[Change[Any, Any]], list[str]] = replace,
    ) -> Change[Any, Any]:
        """Change the file by a transaction; see `redunet.safety.transaction`."""
        return transaction(
            self.path, read or self.load, apply, records, tell=self.tell, write=write
        )

    def result(
        self, found: Mapping[str, Any], change: Change[Any, Any], notes: Sequence[str] = ()
    ) -> Result:
        """The answer of a command that has changed the file."""
        return Result.of(found, self.sources, [*change.notes, *notes], (self.path, change.after))
