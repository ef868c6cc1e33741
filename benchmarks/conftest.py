"""One table and one record of everything that a run measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import Row, Work, clock, machine, record, table

ROWS: list[Row] = []
ABOUT = machine()


def pytest_addoption(parser: pytest.Parser) -> None:
    here = Path(__file__).parent / "results" / "cpu.json"
    parser.addoption("--record", default=str(here), help="where the figures are written")


@pytest.fixture
def report() -> Callable[..., None]:
    """Add a row to the table."""

    def add(case: str, **figures: Any) -> None:
        ROWS.append({"case": case, **figures})

    return add


@pytest.fixture
def medians(benchmark: Any) -> Callable[..., dict[str, float]]:
    """Median seconds of a piece of work and of yardsticks, taken in turns.

    The yardsticks run in pytest-benchmark's set-up of each round.
    """

    def measure(work: Work, sticks: Mapping[str, Work], rounds: int) -> dict[str, float]:
        times: dict[str, list[float]] = {name: [] for name in sticks}

        def set_up() -> None:
            for name, stick in sticks.items():
                times[name].append(clock(stick))

        work()
        for stick in sticks.values():
            stick()
        benchmark.pedantic(work, setup=set_up, rounds=rounds)
        found = {name: statistics.median(seconds) for name, seconds in times.items()}
        return {"measured": benchmark.stats.stats.median, **found}

    return measure


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if ROWS:
        terminalreporter.write_line("")
        for line in table(ROWS).splitlines():
            terminalreporter.write_line(line)
        record(Path(config.getoption("--record")), ABOUT, ROWS)
