"""A short run of forged logs; ``python -m tests.fuzz.receipts N SEED`` is the long one."""

from __future__ import annotations

import pytest

from tests.fuzz.receipts import outcomes

pytestmark = pytest.mark.usefixtures("one_thread")


def test_no_forged_log_is_taken_for_intact_and_none_loses_a_line() -> None:
    found = outcomes(500, seed=0)
    assert not [outcome for outcome in found if outcome.startswith("fault")]
    assert {"refused", "sound", "shorter", "unfinished"} == set(found)
