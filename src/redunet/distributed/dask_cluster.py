"""A client of a Dask cluster: one that runs, or one of processes on this machine for a while."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import resource_tracker
from typing import Any

import torch

from redunet.errors import SettingsError, not_installed

CONNECT_SECONDS = 5
"""Long enough for a scheduler that answers at all."""

WORKER_SECONDS = 30
"""Long enough for a worker to load PyTorch and appear."""


def dask_packages() -> Any:
    """The module ``distributed``, with ``dask``; a SettingsError where it is not installed."""
    try:
        return import_module("distributed")  # imports dask
    except ImportError as error:
        raise not_installed("Dask", "dask", error) from error


@contextmanager
def local_client(n_workers: int) -> Iterator[Any]:
    """A client of worker processes on this machine, which end with the block.

    They share the threads that PyTorch would use in this process.
    """
    distributed = dask_packages()
    import dask
    from distributed.system import MEMORY_LIMIT

    each = max(1, torch.get_num_threads() // n_workers)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    with (
        _unchanged_environment(),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        dask.config.set(
            {
                "distributed.nanny.pre-spawn-environ": dict.fromkeys(names, each),
                "temporary-directory": folder,
            }
        ),
    ):
        try:
            with _threads_without_ctrl_c():
                cluster = distributed.LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",  # as None, it would take a known port
                    memory_limit=MEMORY_LIMIT // n_workers,
                    local_directory=folder,
                    silence_logs=logging.CRITICAL,
                )
        except (OSError, RuntimeError) as error:  # the second is all that the library tells
            why = " ".join(str(error).split())[:200]
            raise SettingsError(
                f"expected {n_workers} worker processes to start, but one ended before it had "
                f"({why}): try again, with fewer workers or more free memory"
            ) from error
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client


@contextmanager
def scheduler_client(address: str) -> Iterator[Any]:
    """A client of a running scheduler, such as "tcp://10.0.0.1:8786"."""
    distributed = dask_packages()
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        try:
            distributed.comm.resolve_address(address)  # of an unknown kind no client comes undone
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                f"expected a Dask scheduler at {address}, got no answer within "
                f"{CONNECT_SECONDS} s: start one with `dask scheduler`, or correct the address"
            ) from error
        with client:
            yield client
    finally:
        logger.setLevel(level)


def check_workers(client: Any) -> int:
    """The number of tasks that all workers take at a time; an error where there is no worker."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except (OSError, TimeoutError) as error:
        raise SettingsError(
            f"expected at least one worker at {client.scheduler.address}, got none within "
            f"{WORKER_SECONDS} s: start some with `dask worker {client.scheduler.address}`"
        ) from error
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


@contextmanager
def _unchanged_environment() -> Iterator[None]:
    """Put variables back that Dask sets here for its processes."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _threads_without_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C for threads and processes that start now: the client will end the workers."""
    resource_tracker.ensure_running()  # it would let the thread that starts it hear again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
