"""A server that is killed, and one asked by eight clients; `make fuzz` does both more often."""

from __future__ import annotations

import pytest

from tests.fuzz.serving import interleave, kill

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_killed_server_keeps_what_it_answered() -> None:
    assert kill(1, seed=0) == []


def test_clients_at_once_end_like_the_same_changes_in_order() -> None:
    assert interleave(160, seed=0) == []
