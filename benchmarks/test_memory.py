"""Peak memory above the process after import, each case in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

START = """
import re
import torch
from benchmarks.cases import pixels, some_moments
from redunet.core.grid import unit_rows
from redunet.core.moments import ClassMoments
from redunet.core.network import Schedule, build_network
# Not getrusage: its figure begins with that of the process that started this one.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
before = peak()
"""
CASES = {
    "moments and a streamed build of 200 layers, d 784, k 10": """
moments = some_moments(10, 784, 1000)
build_network(moments, 0.5, Schedule(200, 0.5, 0.933), keep=False).last_moments()
""",
}


@pytest.mark.parametrize("case", CASES)
def test_peak(report: Any, case: str) -> None:
    program = START + CASES[case] + "print(peak() - before)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    report(case, other=f"{int(done.stdout) / 1e6:.0f} MB at the peak")
