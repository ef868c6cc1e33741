"""Short runs of random operations; ``python -m tests.fuzz.operations N SEED`` is a long one."""

from __future__ import annotations

import pytest

from tests.fuzz import unlabelled
from tests.fuzz.operations import operate


@pytest.mark.usefixtures("one_thread")
def test_random_operations_equal_joint_training() -> None:
    assert operate(400, seed=3) == []


@pytest.mark.usefixtures("one_thread")
def test_random_operations_with_samples_that_models_label_themselves() -> None:
    assert unlabelled.self_label(150, seed=4) == []
