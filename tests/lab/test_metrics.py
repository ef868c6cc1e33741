"""Metrics on cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from redunet.errors import DataError
from redunet.estimators.tuning import calibration_error
from redunet_lab.metrics import (
    average_incremental_accuracy,
    backward_transfer,
    confusion,
    decay,
    forgetting,
    summed_confusion,
)

NAN = float("nan")
A = [[0.8, NAN, NAN], [0.9, 0.7, NAN], [0.5, 0.75, 1.0]]


def test_over_the_stream() -> None:
    assert average_incremental_accuracy([1.0, 0.5, 0.75]) == 0.75
    assert decay([1.0, 0.5, 0.75]) == 0.25


def test_forgetting_counts_from_the_best() -> None:
    assert forgetting(A) == pytest.approx(((0.9 - 0.5) + (0.7 - 0.75)) / 2)
    assert forgetting([[0.3]]) == 0.0


def test_backward_transfer_counts_from_the_first() -> None:
    assert backward_transfer(A) == pytest.approx(((0.5 - 0.8) + (0.75 - 0.7)) / 2)
    assert backward_transfer([[0.3]]) == 0.0


@pytest.mark.parametrize("bad", [[[NAN]], [[1.0, 0.5]], [0.5, 0.5]])
def test_a_matrix_with_holes_is_refused(bad: list[float]) -> None:
    with pytest.raises(DataError, match="square accuracy matrix"):
        forgetting(bad)


def test_calibration_error_by_hand() -> None:
    probabilities = [[0.9, 0.1], [0.92, 0.08], [0.4, 0.6], [0.45, 0.55]]
    correct = [True, False, True, True]
    by_hand = 0.5 * abs(0.5 - 0.91) + 0.25 * abs(1 - 0.6) + 0.25 * abs(1 - 0.55)
    assert calibration_error(probabilities, correct, n_bins=20) == pytest.approx(by_hand)
    sure = np.eye(2)[[0, 1, 0]]
    assert calibration_error(sure, [True, True, True]) == 0.0


@over(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1))
def test_a_confusion_counts_every_pair_once(pairs: list[tuple[int, int]]) -> None:
    found = confusion(*zip(*pairs, strict=True))
    labels = found["labels"]
    assert labels == sorted({label for pair in pairs for label in pair})
    for i, true in enumerate(labels):
        for j, given in enumerate(labels):
            assert found["counts"][i][j] == pairs.count((true, given))


def test_confusions_of_several_runs_add_up() -> None:
    one = confusion(["a", "b"], ["b", "b"])
    other = confusion(["b", "c"], ["c", "c"])
    assert summed_confusion([one, other]) == {
        "labels": ["a", "b", "c"],
        "counts": [[0, 1, 0], [0, 1, 1], [0, 0, 1]],
    }
    assert summed_confusion([one, None]) is None
    assert summed_confusion([]) is None
