"""A short run of each attack; ``make fuzz`` makes the long ones."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import ATTACKS, part

SHORT = {
    "forged model files": 100,
    "forged moments": 300,
    "forged data files, of each kind": 60,
    "forged receipts logs": 500,
    "interruptions at a bytecode": 100,
    "interruptions while loading": 10,
    "operations compared with joint training": 400,
    "SIGINT of learn": 3,
    "SIGKILL and SIGINT of learn and forget": 6,
    "SIGKILL and SIGINT of tune and calibrate": 2,
    "SIGKILL while writing": 20,
    "SIGKILL of serve": 1,
    "requests of eight clients": 160,
    "turns at a lock": 200,
    "writers of one file": 10,
}


def test_every_attack_has_a_short_run() -> None:
    assert SHORT.keys() == ATTACKS.keys()


@pytest.mark.parametrize("name", SHORT)
def test_there_are_no_faults(name: str) -> None:
    seconds, faults = part(name, SHORT[name], seed=0)
    assert faults == [], f"after {seconds} s"
