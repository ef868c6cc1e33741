"""Servers that are killed, asked by eight clients, or sent odd requests; `make fuzz` does more."""

from __future__ import annotations

import pytest

from tests.fuzz.requests import ask
from tests.fuzz.serving import interleave, kill

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_killed_server_keeps_what_it_answered() -> None:
    assert kill(1, seed=0) == []


def test_clients_at_once_end_like_the_same_changes_in_order() -> None:
    assert interleave(160, seed=0) == []


def test_requests_of_odd_shapes_are_answered_soundly() -> None:
    assert ask(200, seed=0) == []
