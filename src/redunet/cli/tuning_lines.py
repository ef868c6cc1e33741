"""The tables and lines that searches for settings end in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from redunet.widths import FirstThatFits

Lines = list[Any]

_MOST_COLUMNS = 6


def best(record: Mapping[str, Any]) -> Lines:
    """A table of the best candidates of a search."""
    shown = record["candidates"][:10]
    names = dict.fromkeys(key for one in shown for key, value in one.items() if value is not None)
    same = [
        name for name in names if len(shown) > 1 and len({str(one.get(name)) for one in shown}) == 1
    ]
    if len(names) > _MOST_COLUMNS:  # a terminal has no room for what does not differ
        names = {name: None for name in names if name not in same or name.endswith("accuracy")}
    title = f"{record['what']}: best of {record['tried']} on {record['chosen_on']}"
    left = ", ".join(f"{name}={shown[0][name]}" for name in same if name not in names)
    tables = FirstThatFits(_by_columns(shown, list(names)), _by_words(shown, list(names)))
    return [title, tables, *([f"All of them: {left}."] if left else [])]


def _by_columns(shown: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """Candidates, with a column for each setting."""
    table = Table()
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for candidate in shown:
        table.add_row(*(_cell(name, candidate.get(name)) for name in names))
    return table


def _by_words(shown: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """Candidates, with their settings in one column, for a narrow terminal."""
    accuracies = [name for name in names if name.endswith("accuracy")]
    others = [name for name in names if name not in accuracies]
    table = Table(show_lines=True)
    for name in accuracies:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_column("settings")
    for candidate in shown:
        words = [f"{name}={candidate[name]}" for name in others if candidate.get(name) is not None]
        cells = (_cell(name, candidate.get(name)) for name in accuracies)
        table.add_row(*cells, ", ".join(words))
    return table


def tuned(found: Mapping[str, Any]) -> Lines:
    """What tuning a model came to."""
    before, after, chosen = found["accuracy_before"], found["accuracy"], found["chosen"]
    said = f"Accuracy on {found['samples']:,} validation samples: {before:.4f} before"
    if chosen.keys() - {"temperature"}:
        said += f", {after:.4f} with the settings chosen; the difference is {after - before:.4f} "
        said += f"± {found['standard_error']:.4f}."
    else:
        said += "; no candidate is ahead by more than 1.5 standard errors, so the settings stay."
    errors = [found[key] for key in ("calibration_error_before", "calibration_error")]
    lines = [said, "Calibration error there: {:.4f} before, {:.4f} now.".format(*errors)]
    failed = Counter(one["failed"] for one in found["candidates"] if "failed" in one)
    lines += [f"Failed: {n} of the candidates, as {why}." for why, n in failed.items()]
    if chosen:
        lines.append(f"Chosen: {', '.join(f'{key}={value}' for key, value in chosen.items())}.")
        wrote = f"Wrote {found['model']}"
        asked = f"{found['model']} was not changed: add --write to change it"
        lines.append(wrote if found["written"] else asked)
    return lines


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if name.endswith("accuracy") else str(value)
