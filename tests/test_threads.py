"""Threads of PyTorch that wait for each other soon sleep, unless the user says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SHOW = "import redunet, os; print(os.environ.get('GOMP_SPINCOUNT'))"
NAMES = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_waiting_threads_soon_sleep_unless_told_otherwise(
    given: dict[str, str], expected: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    found = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=environment | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == expected
