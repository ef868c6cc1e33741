"""The tables of ``benchmarks/scale.md``, from its record: ``python -m benchmarks.scale_page``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import readme
from benchmarks.scale import RECORD, Constants, Job, held

PAGE = Path(__file__).parent / "scale.md"
OF_FILES = RECORD.parent / "dask-cpu.json"
"""The record of `benchmarks.dask_learning`, where it exists."""
OF_RANKS = RECORD.parent / "ranks-cpu.json"
"""The record of `benchmarks.ranks`, where it exists."""

CLASSES, FEATURES = (1_000, 21_000), (768, 1_024, 4_096)
SAMPLES, WORKERS = (10**6, 10**7, 10**8, 10**9), (1, 10, 100, 1_000)
MEMORY = 64e9
"""Bytes that a worker may have."""


def sizes(c: Constants) -> str:
    """How large moments are, and what a layer takes."""
    heads = ("classes", "features", "file", "in memory", "as many rows of float32")
    lines = [[*heads, "one layer, 1 core", "means and one covariance"]]
    for k in CLASSES:
        for d in FEATURES:
            job = Job(10**12, d, k, 1)
            layer = (4 * k + 1) * d**3 * c.square
            pooled = 8 * (k * (d + 1) + d * (d + 1) / 2)
            rows = job.file_bytes / (4 * d)
            sized = [size(job.file_bytes), size(job.memory_bytes), f"{rows:,.0f}"]
            lines.append([f"{k:,}", f"{d:,}", *sized, span(layer), size(pooled)])
    return table(lines, 0)


def times(c: Constants) -> str:
    """How long learning takes, and where it does not fit."""
    heads = ["1 worker", *(f"{n:,} workers" for n in WORKERS[1:]), "1,000, sorted by class"]
    lines = [["classes", "features", "samples", *heads]]
    for k in CLASSES:
        for d in FEATURES:
            for n in SAMPLES:
                jobs = [Job(n, d, k, workers) for workers in WORKERS]
                cells = [cell(job, c) for job in [*jobs, Job(n, d, k, 1_000, by_class=True)]]
                lines.append([f"{k:,}", f"{d:,}", power(n), *cells])
    return table(lines, 0)


def cell(job: Job, c: Constants) -> str:
    """The time of a job, or the memory that a worker would need for it."""
    if job.worker_bytes > MEMORY:
        return f"*{size(job.worker_bytes)}*"
    return span(job.seconds(c))


def checks(rows: Sequence[dict[str, Any]], c: Constants) -> str:
    """What was measured, beside what the model says."""
    heads = ["job", "workers", "partitions", "messages", "model", "MB sent", "model"]
    lines = [[*heads, "processor s", "model", "measured / model", "wall s"]]
    for row in rows:
        job = Job(*(row[name] for name in ("samples", "features", "classes", "workers")))
        model = job.processor_seconds(c)
        sent = [str(row["messages"]), str(job.messages), f"{row['wire_bytes'] / 1e6:.1f}"]
        times = [f"{row['processor']:.2f}", f"{model:.2f}", f"{row['processor'] / model:.2f}"]
        most = f"{job.wire_bytes / 1e6:.1f}"
        made = [row["case"], str(row["workers"]), str(row["partitions"])]
        lines.append([*made, *sent, most, *times, f"{row['wall']:.2f}"])
    return table(lines, 1)


def of_files(rows: Iterable[dict[str, Any]], classes: int, c: Constants) -> str:
    """The same of commands that read files, as `benchmarks.dask_learning` measures them."""
    lines = [["command", "measured s", "model s, without reading and starting", "ratio"]]
    for row in rows:
        found = re.match(r"learn ([\d,]+) × (\d+) .*?(?:(\d+) workers?)?$", row["case"])
        if found is None:
            continue
        n, d = int(found[1].replace(",", "")), int(found[2])
        model = Job(n, d, classes, int(found[3] or 1)).seconds(c)
        ratio = f"{row['measured'] / model:.2f}"
        lines.append([row["case"], f"{row['measured']:.1f}", f"{model:.1f}", ratio])
    return table(lines, 1)


def of_ranks(found: dict[str, Any], c: Constants) -> str:
    """What `benchmarks.ranks` measured of processes that share the classes of a model."""
    heads = ["model", "ranks", "moments a rank", "measured beyond imports"]
    lines = [[*heads, "build, model", "measured", "measured / model"]]
    layers = found["machine"]["settings"]["n_layers"]
    for row in found["rows"]:
        words = re.match(r"([\d,]+) classes of ([\d,]+) samples, d ([\d,]+)", row["case"])
        if words is None:
            continue
        k, n, d = (int(word.replace(",", "")) for word in words.groups())
        own = k / row["ranks"]
        cells = [
            size(own * held(d, n)),
            size(row["beyond_imports"]),
            "",
            f"{row['build']:.2f} s",
            "",
        ]
        if n >= d / 2:  # of classes of few samples, layers take other operations
            seconds = layers * (4 * own + 1) * d**3 * c.square
            cells[2], cells[4] = f"{seconds:.2f} s", f"{row['build'] / seconds:.2f}"
        lines.append([row["case"], str(row["ranks"]), *cells])
    return table(lines, 1)


def table(lines: Sequence[Sequence[str]], n_words: int) -> str:
    """Lines as a Markdown table, the first columns to the left."""
    rule = ["---"] * n_words + ["---:"] * (len(lines[0]) - n_words)
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def size(n_bytes: float) -> str:
    """Bytes, for people."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9)):
        if n_bytes >= 0.995 * scale:
            return f"{n_bytes / scale:.3g} {unit}"
    return f"{n_bytes / 1e6:.3g} MB"


def span(seconds: float) -> str:
    """Seconds, for people."""
    for unit, scale in (("years", 3.15e7), ("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 1.5 * scale:
            return f"{seconds / scale:,.{0 if seconds >= 9.5 * scale else 1}f} {unit}"
    return f"{seconds:.0f} s"


def power(n: int) -> str:
    """A power of ten, as one writes it."""
    digits = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "10" + str(len(str(n)) - 1).translate(digits)


def filled(text: str, folder: Path = RECORD.parent) -> str:
    """The page with the tables of all records in a folder where they belong."""
    found = json.loads((folder / RECORD.name).read_text())
    files, ranks = (
        json.loads((folder / path.name).read_text()) if (folder / path.name).exists() else None
        for path in (OF_FILES, OF_RANKS)
    )
    about, c = found["machine"], Constants(**found["machine"]["constants"])
    words = ", ".join(
        f"{key.replace('_', ' ')} {about[key]}" for key in ("cpu", "torch", "load_before", "date")
    )
    bodies = [f"{words}:", checks(found["rows"], c)]
    if files is not None:
        bodies.append(of_files(files["rows"], files["machine"]["classes"], c))
    if ranks is not None:
        bodies.append(of_ranks(ranks, c))
    text = readme.between(text, "scale: sizes", sizes(c))
    text = readme.between(text, "scale: times", times(c))
    return readme.between(text, "scale: measured", "\n\n".join(bodies))


def main() -> None:
    """Fill the page."""
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
