"""A server killed a few times, and asked by eight clients; `make fuzz` does both more often."""

from __future__ import annotations

import pytest

from tests.fuzz.serving import interleave, kill

pytestmark = pytest.mark.usefixtures("one_thread")


def test_killed_servers_keep_what_they_answered() -> None:
    assert kill(2, seed=0) == []


def test_clients_at_once_end_like_the_same_changes_in_order() -> None:
    assert interleave(160, seed=0) == []
