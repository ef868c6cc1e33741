"""Threads of PyTorch that wait for each other soon sleep, unless the user says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

IMPORT = "import os, redunet.cli.app, redunet.encoders; print(os.environ.get('GOMP_SPINCOUNT'))"
COMMAND = """
import os, sys
from redunet.__main__ import main
sys.argv = ["redunet", "--version"]
try:
    main()
finally:
    print(os.environ.get("GOMP_SPINCOUNT"))
"""
NAMES = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"


def spins(program: str, given: dict[str, str]) -> str:
    """What a program leaves in its environment."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | given,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_waiting_threads_of_a_command_soon_sleep_unless_told_otherwise(
    given: dict[str, str], expected: str
) -> None:
    assert spins(COMMAND, given) == expected


@pytest.mark.parametrize("given", [{}, {"GOMP_SPINCOUNT": "7"}])
def test_an_import_changes_nothing_of_the_environment(given: dict[str, str]) -> None:
    assert spins(IMPORT, given) == given.get("GOMP_SPINCOUNT", "None")
