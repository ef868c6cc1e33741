"""The answers of commands on model files, all in one form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redunet.data.source import Source
from redunet.estimators import Estimator


@dataclass(frozen=True)
class Result:
    """The answer of a command.

    Parameters
    ----------
    found : dict
        By name, as ``--json`` prints it.
    left_out : list of str
        Samples that could not be used, with the reason.
    notes : list of str
        Lines that a person should see beside the answer.
    """

    found: dict[str, Any]
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        found: Mapping[str, Any],
        sources: Sequence[Source] = (),
        notes: Iterable[str] = (),
        model: tuple[Path, Estimator] | None = None,
    ) -> Result:
        """The answer of a command that has read sources, and left a model file as it is now."""
        return cls(
            {**found, **({} if model is None else holdings(*model))},
            [file for source in sources for file in source.left_out],
            [*notes, *(note for source in sources for note in source.notes)],
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything by name."""
        return {**self.found, "left_out": self.left_out, "notes": self.notes}


def counted(counts: Mapping[Any, int]) -> list[dict[str, Any]]:
    """Classes and their samples, as rows."""
    return [{"class": label, "samples": count} for label, count in counts.items()]


def holdings(path: Path, model: Estimator) -> dict[str, Any]:
    """Counts of a model file: classes, samples, features, bytes."""
    counts = model.class_counts_
    return {
        "model": str(path),
        "classes": counted(counts),
        "samples": sum(counts.values()),
        "self_labelled": sum(model.self_labelled_counts_.values()),
        "features": model.moments_.n_features,
        "bytes": path.stat().st_size,
    }
