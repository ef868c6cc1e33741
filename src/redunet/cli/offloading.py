"""An option of the commands on model files: models that lie in files instead of memory."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Offload = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Hold the model in memory-mapped files in FOLDER, for one larger than memory.",
    ),
]


def offloadable(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with one more option, --offload."""

    @functools.wraps(command)
    def within(*args: Any, offload: Path | None = None, **kwargs: Any) -> None:
        if offload is None:
            command(*args, **kwargs)
            return
        from redunet.estimators import offloading

        with offloading.offload(offload):
            command(*args, **kwargs)

    given = inspect.signature(command, eval_str=True)
    more = inspect.Parameter(
        "offload", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Offload
    )
    within.__signature__ = given.replace(  # type: ignore[attr-defined]
        parameters=[*given.parameters.values(), more]
    )
    within.__annotations__ = {**command.__annotations__, "offload": Offload}
    return within
