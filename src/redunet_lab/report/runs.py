"""Commands, settings, machines and dates; and the settings that were tried."""

from __future__ import annotations

from typing import Any

from redunet.report.blocks import Block, Code, Table, Text
from redunet.report.words import plain
from redunet_lab.report.numbers import UNKNOWN, Record, label

MOST_CANDIDATES = 20


def what_was_run(record: Record) -> list[Block]:
    """The command, the stream, all settings, and where and when."""
    blocks: list[Block] = [Code(record["command"])] if record["command"] else []
    if record.get("seconds"):
        blocks.append(Text(f"It took {record['seconds'] / 60:.1f} minutes."))
    counts = ("train_samples", "test_samples")
    stream = [
        [
            str(number),
            ", ".join(map(str, task["classes"])),
            *(f"{task[key]:,}" if task.get(key) is not None else UNKNOWN for key in counts),
        ]
        for number, task in enumerate(record["stream"], 1)
    ]
    if stream:
        headings = ["task", "classes", "training samples", "test samples, all classes seen"]
        blocks.append(Table("The data as tasks", headings, stream, text_columns=2))
    if record.get("split"):
        blocks.append(Text(f"Test data: {record['split']}."))
    settings = [
        [label(m), in_line(m["settings"]), _seeds(m), m.get("chosen") or UNKNOWN]
        for m in record["methods"]
    ]
    if own := (record.get("orders") or {}).get("settings"):
        settings.append(["ReduNet", in_line(own), UNKNOWN, UNKNOWN])
    headings = ["method", "settings", "seeds", "how they were chosen"]
    blocks.append(Table("Settings and seeds", headings, settings, text_columns=4))
    return [*blocks, *environment(record)]


def in_line(settings: Record) -> str:
    """Settings in one line."""
    return ", ".join(f"{key} {plain(value)}" for key, value in settings.items()) or UNKNOWN


def _seeds(method: Record) -> str:
    seeds = [str(run["seed"]) for run in method["runs"]]
    return ", ".join(seeds) if method["random"] else UNKNOWN


def environment(record: Record) -> list[Block]:
    """Where and when the runs of a record were made."""
    runs = [run for method in record.get("methods", ()) for run in method["runs"]]
    rows = sorted({_place(run) for run in (*runs, record) if run.get("machine")})
    headings = ["date", "machine", "versions"]
    return [Table("Date, machine and versions", headings, rows, text_columns=3)] if rows else []


def _place(run: Record) -> tuple[str, str, str]:
    machine = run["machine"]
    where = machine.get("gpu") or f"{machine['processor']}, {machine['threads']} threads"
    versions = ", ".join(f"{name} {value}" for name, value in (run.get("versions") or {}).items())
    return plain(run.get("date")), where, versions


def candidates(record: Record) -> list[Block]:
    """The best settings that were tried."""
    found = record["candidates"]
    names = list(dict.fromkeys(key for candidate in found for key in candidate))
    rows = [[_value(key, one.get(key)) for key in names] for one in found[:MOST_CANDIDATES]]
    tried = record.get("tried") or f"{len(found)} combinations"
    said = f"Tried: {tried}. Chosen on {record['chosen_on']}; trained on {record['trained_on']}."
    rules = {
        "held_out": "Best held-out accuracy",
        "paper": "Best by the paper's rule",
        "validation": "Chosen",
    }
    best = [
        f"{words}: {in_line(record['chosen'][rule])}."
        for rule, words in rules.items()
        if record["chosen"].get(rule)
    ]
    headings = [name.replace("_", " ") for name in names]
    caption = f"The best {len(rows)} of {len(found)} candidates"
    return [*map(Text, best), Table(caption, headings, rows, strong=[0]), Text(said)]


def _value(key: str, value: Any) -> str:
    if value is None and key.endswith("accuracy"):
        return UNKNOWN
    return f"{value:.4f}" if key.endswith("accuracy") else plain(value)


def searched(record: Record) -> list[Block]:
    """The values that were tried, all other settings, and where and when."""
    grid = [[key, ", ".join(map(plain, values))] for key, values in record["grid"].items()]
    rest = [[key, plain(value)] for key, value in record["settings"].items()]
    return [
        *([Code(record["command"])] if record["command"] else []),
        Table("Values tried", ["setting", "values"], grid, text_columns=2),
        Table("All other settings", ["setting", "value"], rest, text_columns=2),
        *environment(record),
    ]
