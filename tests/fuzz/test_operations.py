"""A short run of random operations; ``python -m tests.fuzz.operations N SEED`` is the long one."""

from __future__ import annotations

import pytest

from tests.fuzz.operations import operate


@pytest.mark.usefixtures("one_thread")
def test_random_operations_equal_joint_training() -> None:
    assert operate(400, seed=3) == []
