"""Options that have other processes or machines learn the data of a command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from redunet.errors import SettingsError

Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Read and learn with N processes; needs redunet[dask]."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Have the workers of this Dask scheduler read and learn, such as "
        "tcp://10.0.0.1:8786; they need the same paths.",
    ),
]


def change_of(workers: int | None, scheduler: str | None) -> Any:
    """What learns or withdraws data: this process, or workers."""
    from redunet.data.apply_batches import apply_batches

    if workers is None and scheduler is None:
        return apply_batches
    if workers is not None and scheduler is not None:
        raise SettingsError("expected --workers or --scheduler, got both: leave one out")
    from redunet.distributed.dask_cluster import dask_packages
    from redunet.distributed.dask_learning import OnDask

    dask_packages()
    return OnDask(workers, scheduler)
