"""Learn and withdraw data on the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from redunet.core.moments import ClassMoments
from redunet.data import ReadOptions, Source
from redunet.data.apply_batches import How
from redunet.data.matching import open_all
from redunet.distributed.cluster import (
    check_workers,
    dask_packages,
    local_client,
    scheduler_client,
)
from redunet.distributed.partial import Job, added, said_of, shared
from redunet.distributed.partitions import Partitions, of_collection, of_sources
from redunet.errors import DataError, ReduNetError, SettingsError
from redunet.estimators import Estimator
from redunet.estimators import partial as in_parts
from redunet.progress import Progress, silent

E = TypeVar("E", bound=Estimator)

Said: TypeAlias = list[tuple[str, tuple[list[str], list[str]]]]
"""Of each part its name, the samples that were left out, and notes."""


def learn(model: E, data: Any, client: Any = None, *, label: str | None = None) -> E:
    """Learn data on the workers of a Dask cluster: all of it, or none after an error.

    The model is, to the byte, the one that `partial_fit` gives with all data in one process,
    for any number of workers and any partitions.

    Parameters
    ----------
    model : estimator
        As for `partial_fit`: one that has learnt something, or a new one.
    data : (X, y), data frame, bag, path or list of paths
        Dask arrays of shape (n, d) or (n, ...), and (n,); a Dask data frame with a column of
        labels; a Dask bag of pairs, (sample, label); or files as `redunet learn` takes them,
        which each worker opens by itself under the same paths.
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
    _change("withdrawing", model, data, client, label)
    return model


@dataclass(frozen=True)
class OnDask:
    """Learns or withdraws files on a Dask cluster, for the commands on model files.

    Parameters
    ----------
    workers : int, default=None
        How many processes to start on this machine.
    scheduler : str, default=None
        The address of a running scheduler instead.
    """

    workers: int | None = None
    scheduler: str | None = None

    def __call__(
        self,
        how: How,
        model: Estimator,
        sources: Sequence[Source],
        wanted: ReadOptions,
        progress: Progress = silent,
    ) -> None:
        """Learn or withdraw all samples of sources, or none after an error."""
        parts = of_sources(model, sources, wanted)
        progress("starting workers", 0.0)
        if self.scheduler is not None:
            opened = scheduler_client(self.scheduler)
        else:
            opened = local_client(self.workers or os.cpu_count() or 1)
        with opened as client:
            said = _changed(how, model, parts, client, progress)
        for source in sources:
            of_source = [one for name, one in said if name == str(source.path)]
            source.left_out[:] = [file for left_out, _ in of_source for file in left_out]
            source.notes[:] = dict.fromkeys(note for _, notes in of_source for note in notes)


def _change(how: How, model: Estimator, data: Any, client: Any, label: str | None) -> None:
    if how == "withdrawing":
        model.moments_  # noqa: B018 - an error where there is nothing to withdraw
    dask_packages()
    sources: list[Source] = []
    if _are_paths(data):
        paths = [Path(data)] if isinstance(data, str | os.PathLike) else [Path(one) for one in data]
        wanted = ReadOptions(label=label)
        fitted = model if hasattr(model, "moments_") else None
        sources = open_all(paths, wanted, fitted, changing=True)
        parts = of_sources(model, sources, wanted)
    else:
        parts = of_collection(model, data, label)
    created = not hasattr(model, "moments_")
    with _opened(client) as opened:
        _changed(how, model, parts, opened, silent)
    if created and sources:
        model.set_encoder(sources[0].encoder)


def _are_paths(data: Any) -> bool:
    if isinstance(data, str | os.PathLike):
        return True
    return (
        isinstance(data, list | tuple)
        and len(data) > 0
        and all(isinstance(one, str | os.PathLike) for one in data)
    )


@contextmanager
def _opened(client: Any) -> Iterator[Any]:
    """A client: the one given, or one for the time being."""
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
    how: How, model: Estimator, parts: Partitions, client: Any, progress: Progress
) -> Said:
    """Change the model once the moments of all parts are there; give what is said of each part."""
    job = Job.of(in_parts.without_moments(model), parts.kind)
    moments, n_columns, said = _computed(job, parts, client, how, progress)
    if how == "learning":
        in_parts.add(model, moments, n_columns, parts.columns)
    else:
        in_parts.withdraw(model, moments)
    return said


def _computed(
    job: Job, parts: Partitions, client: Any, how: str, progress: Progress
) -> tuple[ClassMoments, int, Said]:
    """The moments of all parts, added up on the workers in pairs, and the values of a sample."""
    distributed = dask_packages()
    import dask

    n_workers = check_workers(client)
    tasks = parts.tasks(dask.delayed(shared, pure=False)(job), n_workers)
    names = [name for name, _ in tasks]
    add = dask.delayed(added, pure=False)
    say = dask.delayed(said_of, pure=False)
    level = [task for _, task in tasks]
    while len(level) > 1:
        pairs = [add(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    # A large feature map is meant to be in the graph: it is there once.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        whole, *facts = client.compute([*level, *(say(task) for _, task in tasks)])
    places = {future.key: place for place, future in enumerate(facts)}
    try:
        for done, future in enumerate(distributed.as_completed(facts, loop=client.loop), 1):
            _result(distributed, names[places[future.key]], future)
            progress(f"{how} on {n_workers} workers", done / len(facts))
        found = _result(distributed, "the sum of all partitions", whole)
        said = [
            (name, _result(distributed, name, one)) for name, one in zip(names, facts, strict=True)
        ]
    finally:
        client.cancel([whole, *facts])
    if found.moments is None:
        raise DataError("expected at least one sample, got none: all partitions are empty")
    found.moments.check()
    return found.moments, found.n_columns, said


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
