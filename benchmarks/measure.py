"""Clocks, yardsticks and records, for the suites and for the GPU script alike."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Work = Callable[[], object]


def clock(work: Work, device: str = "cpu") -> float:
    """Seconds that one call takes."""
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def interleaved(works: Mapping[str, Work], rounds: int, device: str = "cpu") -> dict[str, float]:
    """Median seconds of each, taken in turns, after one turn that does not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            seconds = clock(work, device)
            if turn:
                times[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def yardsticks(d: int, dtype: torch.dtype, device: str = "cpu") -> dict[str, Work]:
    """A full d × d product, and a Cholesky factor with its inverse, each called alone."""
    generator = torch.Generator().manual_seed(d)
    X = torch.randn(d, d, generator=generator, dtype=torch.float64).to(device, dtype)
    A = X @ X.mT / d + torch.eye(d, dtype=dtype, device=device)
    out = torch.empty_like(A)

    def inverse() -> Tensor:
        return torch.cholesky_inverse(torch.linalg.cholesky_ex(A)[0])

    return {"product": lambda: torch.mm(X, A, out=out), "inverse": inverse}


def build_floor(k: int, d: int, product: float) -> float:
    """Seconds of (4k + 1) d³ operations at the rate of the product, 2 d³ in so many seconds."""
    return (4 * k + 1) / 2 * product


def build_primitives(k: int, product: float, inverse: float) -> float:
    """Seconds of the same work as separate calls."""
    return (k + 1) * inverse + 1.5 * k * product


def transform_floor(k: int, d: int, n: int, product: float) -> float:
    """Seconds of 2 (k + 1) n d² operations."""
    return (k + 1) * n / d * product


def moments_floor(m: int, d: int, product: float) -> float:
    """Seconds of m d² operations."""
    return m / (2 * d) * product


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms."""
    x, y = [math.log(v) for v in sizes], [math.log(v) for v in seconds]
    return statistics.linear_regression(x, y).slope


def machine(device: str = "cpu") -> dict[str, Any]:
    """What the figures were measured on, and when."""
    names = {"cpu": _cpu_name(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    if device != "cpu":
        names["gpu"] = torch.cuda.get_device_name()
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    load = os.getloadavg()[0]
    return {**names, "load_before": round(load, 1), "date": today}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


Row = dict[str, Any]

_COLUMNS = (
    ("floor", 1e3, "floor ms"),
    ("primitives", 1e3, "primitives ms"),
    ("measured", 1e3, "measured ms"),
    ("over_floor", 1, "/ floor"),
    ("over_primitives", 1, "/ primitives"),
    ("faster_than_a", 1, "× (a)"),
    ("faster_than_b", 1, "× (b)"),
    ("faster_than_c", 1, "× (c)"),
    ("other", 1, ""),
)


def table(rows: Sequence[Row]) -> str:
    """All rows as one Markdown table."""
    heads = ["case", *(head for _, _, head in _COLUMNS)]
    cells = [heads, ["---", *["---:"] * (len(_COLUMNS) - 1), "---"]]
    for row in rows:
        line = [row["case"]]
        for key, scale, _ in _COLUMNS:
            value = row.get(key, "")
            line.append(f"{value * scale:.4g}" if isinstance(value, float) else str(value))
        cells.append(line)
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in cells
    )


def record(path: Path, about: dict[str, Any], rows: Sequence[Row]) -> None:
    """Write machine, date and rows as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": about, "rows": list(rows)}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n")
