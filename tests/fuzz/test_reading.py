"""A short run of forged data; ``python -m tests.fuzz.reading N SEED`` is the long one."""

from __future__ import annotations

from tests.fuzz.reading import KINDS, forge


def test_forged_data_is_read_or_refused() -> None:
    found = forge(60, seed=0)
    faults = {
        kind: outcome
        for kind, outcomes in found.items()
        for outcome in outcomes
        if outcome.startswith("fault")
    }
    assert not faults
    for kind in KINDS:
        assert found[kind]["refused"] > 0
        assert found[kind].total() == 60
        assert kind == "jsonl" or found[kind]["read"] > 0
