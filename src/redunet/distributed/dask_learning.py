"""Learn and withdraw data on the workers of a Dask cluster.

Each part of the data is learnt by a copy of the model that has learnt nothing, and the sums are
added in pairs. These are pure functions: a worker that dies loses nothing, its tasks run again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from redunet.data import ReadOptions, Source
from redunet.data.apply_batches import How
from redunet.data.matching import open_all
from redunet.distributed.dask_cluster import (
    check_workers,
    dask_packages,
    local_client,
    scheduler_client,
)
from redunet.distributed.dask_parts import Work, of_collection, of_sources
from redunet.distributed.task import Part, Task
from redunet.errors import DataError, ReduNetError, SettingsError
from redunet.estimators import Estimator, moment_deltas
from redunet.progress import Progress, silent

E = TypeVar("E", bound=Estimator)

Said: TypeAlias = list[tuple[str, tuple[list[str], list[str]]]]
"""The name of each part, the samples of it that were left out, and notes."""


def learn(model: E, data: Any, client: Any = None, *, label: str | None = None) -> E:
    """Learn data on the workers of a Dask cluster: all of it, or none after an error.

    The model is, to the byte, the one that `partial_fit` gives with all data in one process,
    for any number of workers and any partitions.

    Parameters
    ----------
    model : estimator
        As for `partial_fit`: one that has learnt something, or a new one.
    data : (X, y), data frame, path or list of paths
        Dask arrays of shape (n, d) or (n, ...), and (n,); a Dask data frame with a column of
        labels; or files as `redunet learn` takes them, which each worker opens by itself under
        the same paths.
    client : distributed.Client, default=None
        None starts a process for each core of this machine, and ends them again. A script then
        needs ``if __name__ == "__main__":``.
    label : str, default=None
        The column or array of labels of data frames and files; None finds one called label,
        class, target or y.

    Returns
    -------
    model
    """
    _change("learning", model, data, client, label)
    return model


def unlearn(model: E, data: Any, client: Any = None, *, label: str | None = None) -> E:
    """Withdraw data on the workers of a Dask cluster, as if it had never been learnt.

    Parameters
    ----------
    model : estimator
    data, client, label
        As for `learn`.

    Returns
    -------
    model
    """
    model.moments_  # noqa: B018 - an error where there is nothing to withdraw
    _change("withdrawing", model, data, client, label)
    return model


@dataclass(frozen=True)
class OnDask:
    """Learns or withdraws files with processes of this machine, or on a running scheduler."""

    workers: int | None = None
    scheduler: str | None = None

    def __call__(
        self,
        how: How,
        model: Estimator,
        sources: Sequence[Source],
        options: ReadOptions,
        progress: Progress = silent,
    ) -> None:
        """Learn or withdraw all samples of sources, or none after an error."""
        progress("starting workers", 0.0)
        if self.scheduler is not None:
            opened = scheduler_client(self.scheduler)
        else:
            opened = local_client(self.workers or os.cpu_count() or 1)
        with opened as client:
            work, kind = of_sources(model, sources, options, check_workers(client))
            said = _changed(how, model, work, kind, client, progress)
        for source in sources:
            of_source = [one for name, one in said if name == str(source.path)]
            source.left_out[:] = [file for left_out, _ in of_source for file in left_out]
            source.notes[:] = dict.fromkeys(note for _, notes in of_source for note in notes)


def _change(how: How, model: Estimator, data: Any, client: Any, label: str | None) -> None:
    dask_packages()
    with _opened(client) as opened:
        if not _are_paths(data):
            _changed(how, model, of_collection(model, data, label), "", opened, silent)
            return
        paths = [Path(data)] if isinstance(data, str | os.PathLike) else [Path(one) for one in data]
        options, created = ReadOptions(label=label), not hasattr(model, "moments_")
        sources = open_all(paths, options, None if created else model, changing=True)
        work, kind = of_sources(model, sources, options, check_workers(opened))
        _changed(how, model, work, kind, opened, silent)
        if created:
            model.set_encoder(sources[0].encoder)


def _are_paths(data: Any) -> bool:
    several = isinstance(data, list | tuple) and len(data) > 0
    return all(isinstance(one, str | os.PathLike) for one in (data if several else [data]))


@contextmanager
def _opened(client: Any) -> Iterator[Any]:
    """The client that is given, or one for the time being."""
    distributed = dask_packages()
    if client is None:
        with local_client(os.cpu_count() or 1) as opened:
            yield opened
        return
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise SettingsError(
            f"expected client=None or a distributed.Client that is not asynchronous, got "
            f"{type(client).__name__}"
        )
    yield client


def _changed(
    how: How,
    model: Estimator,
    work: Sequence[Work],
    kind: str,
    client: Any,
    progress: Progress,
) -> Said:
    """Change the model once all parts are learnt; the left out samples and notes of each part."""
    whole, said = _computed(Task.of(model, kind), work, client, how, progress)
    if whole is None:
        raise DataError("expected at least one sample, got none")
    whole.moments.check()
    if how == "learning":
        moment_deltas.add(model, whole.moments, whole.input["n_columns"], whole.input["names"])
    else:
        moment_deltas.withdraw(model, whole.moments)
    return said


def _computed(
    task: Task, work: Sequence[Work], client: Any, how: str, progress: Progress
) -> tuple[Part | None, Said]:
    """The sum of all parts, added up on the workers in pairs."""
    distributed = dask_packages()
    import dask

    n_workers = check_workers(client)
    sent = dask.delayed(_itself, pure=False)(task)
    add, say = dask.delayed(added, pure=False), dask.delayed(_said_of, pure=False)
    learnt = [dask.delayed(one.learn, pure=False)(sent, *one.blocks) for one in work]
    level = learnt
    while len(level) > 1:
        pairs = [add(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    # A large feature map is meant to be in the graph: it is there once.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        whole, *facts = client.compute([*level, *map(say, learnt)])
    places = {future.key: place for place, future in enumerate(facts)}
    try:
        for done, future in enumerate(distributed.as_completed(facts, loop=client.loop), 1):
            _result(distributed, work[places[future.key]].name, future)
            progress(f"{how} on {n_workers} workers", done / len(facts))
        found = _result(distributed, "the sum of all partitions", whole)
        said = [
            (one.name, _result(distributed, one.name, fact))
            for one, fact in zip(work, facts, strict=True)
        ]
    finally:
        client.cancel([whole, *facts])
    return found, said


def _itself(task: Task) -> Task:
    """The task as a result of its own: sent to a worker once."""
    return task


def added(one: Part | None, other: Part | None) -> Part | None:
    """The sum of two parts."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _said_of(part: Part | None) -> tuple[list[str], list[str]]:
    return ([], []) if part is None else (part.left_out, part.notes)


def _result(distributed: Any, name: str, future: Any) -> Any:
    """The result of a task; whatever went wrong on a worker is one line about its data."""
    try:
        return future.result()
    except (ReduNetError, MemoryError):
        raise
    except distributed.KilledWorker as error:
        raise DataError(
            f"{name}: the workers that read it died, perhaps out of memory: use smaller "
            f"partitions, or more memory a worker"
        ) from error
    except distributed.client.FutureCancelledError as error:
        raise SettingsError(
            "expected the Dask scheduler to stay, but the connection to it was lost: nothing was "
            "learnt or withdrawn; try again"
        ) from error
    except Exception as error:  # code of others runs there: whatever the data is computed by
        why = " ".join(str(error).split())[:200]
        raise DataError(
            f"{name} could not be computed: {type(error).__name__}{why and ': '}{why}"
        ) from error
