"""Parts of the work on several threads, each with products on one thread.

PyTorch splits every product over its threads, which then wait for each other. Many small
products are faster if each thread has samples of its own, and much faster where other programs
use the same processor: a thread that has to wait for its turn then makes nobody wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Lock
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")

_starting = Lock()


def on_threads(
    work: Callable[[Part], Result], parts: Iterable[Part], never_here: bool = False
) -> list[Result]:
    """The results of ``work`` for each part, in their order.

    As many threads as PyTorch may use take the parts in turn. The threads that other work of the
    process uses stay as many as they were.

    Parameters
    ----------
    work : callable
    parts : iterable
    never_here : bool, default=False
        Whether one part is done on a thread of its own too, so that its products are computed by
        one thread as those of many parts are. Otherwise it is done here, with all threads.
    """
    waiting = list(parts)
    threads = min(torch.get_num_threads(), len(waiting))
    if threads < 2 and (not never_here or torch.get_num_threads() == 1):
        return [work(part) for part in waiting]
    with _starting:
        before, started = torch.get_num_threads(), Barrier(threads + 1)

        def start() -> None:
            torch.get_num_threads()  # settles the number of this thread, which is then changed
            torch.set_num_threads(1)  # of this thread, and of threads that are new
            with suppress(BrokenBarrierError):  # the caller was interrupted
                started.wait()

        pool = ThreadPoolExecutor(threads, initializer=start)
        try:
            results = pool.map(work, waiting)
            started.wait()
        except BaseException:
            started.abort()  # or the others would wait for the caller for ever
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            torch.set_num_threads(before)
    try:
        return list(results)
    finally:
        pool.shutdown(cancel_futures=True)
