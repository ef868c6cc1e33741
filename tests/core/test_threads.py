"""Work on threads: its results, the threads of the others, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from redunet.core import linalg
from redunet.core.construction import Schedule
from redunet.core.moments import ClassMoments
from redunet.core.network import build_network
from redunet.core.threads import on_threads


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_and_products_have_one_thread_each() -> None:
    found = on_threads(lambda i: (i, torch.get_num_threads(), threading.get_ident()), range(20))
    assert [i for i, _, _ in found] == list(range(20))
    assert {n for _, n, _ in found} == {1}
    assert threading.get_ident() not in {ident for *_, ident in found}


def test_other_threads_stay_as_many_as_they_were() -> None:
    on_threads(lambda _: None, range(5))
    assert torch.get_num_threads() == 3
    new: list[int] = []
    thread = threading.Thread(target=lambda: new.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert new == [3]


def test_calls_from_many_threads_leave_the_number_as_it_was() -> None:
    results: list[list[int]] = []
    callers = [
        threading.Thread(target=lambda: results.append(on_threads(lambda i: i * i, range(6))))
        for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [[0, 1, 4, 9, 16, 25]] * 8
    assert torch.get_num_threads() == 3


def test_an_error_in_a_part_is_raised_here() -> None:
    def work(part: int) -> int:
        if part == 2:
            raise ValueError("part 2")
        return part

    with pytest.raises(ValueError, match="part 2"):
        on_threads(work, range(50))
    assert torch.get_num_threads() == 3


INTERRUPTED = """
import os, signal, threading, time
import torch
from redunet.core.threads import on_threads

signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(60)
for at in 1, 20, 59:  # workers that wait for the others when Ctrl-C comes
    def stop():
        while threading.active_count() < 2 + at:
            time.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        while True:
            on_threads(lambda part: part, range(60))
    except KeyboardInterrupt:
        pass
    others = set(threading.enumerate()) - {threading.main_thread()}
    while any(thread.is_alive() for thread in others):  # one may never have been started
        time.sleep(0.01)
    assert torch.get_num_threads() == 60
    assert on_threads(lambda part: part, range(60)) == list(range(60))
print("whole")
"""


@pytest.mark.slow
def test_ctrl_c_while_threads_start_leaves_none_of_them_waiting() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "whole\n", "")


@pytest.mark.parametrize("threads", [2, 3])
def test_layers_of_classes_on_their_own_threads_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(linalg, "_ALONE", 16)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(400, 20, generator=generator, dtype=torch.float64)
    moments = ClassMoments(20).update(X, [i % 7 for i in range(400)])

    def built() -> list[torch.Tensor]:
        network = build_network(moments, 0.5, Schedule(3, 0.3, 0.9, "relative"))
        layers = [tensor for layer in network.layers for tensor in (layer.E, layer.C)]
        return [*layers, network.last_moments(), network.last_means()]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = built()
        torch.set_num_threads(threads)
        assert linalg.side_by_side(moments.Sigma()) == threads
        assert all(torch.equal(a, b) for a, b in zip(built(), expected, strict=True))
        torch.set_num_threads(4)  # more than half of the classes: each product has all of them
        assert linalg.side_by_side(moments.Sigma()) == 1
    finally:
        torch.set_num_threads(before)
