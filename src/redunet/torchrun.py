"""Several processes that torchrun started to run one command: one of them is heard."""

from __future__ import annotations

import os
from pathlib import Path


def is_used() -> bool:
    """Whether this is one of several processes that torchrun started."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_first_rank() -> bool:
    """Whether this process is the first of those, or the only one."""
    return not is_used() or os.environ.get("RANK") == "0"


def is_first_to_speak() -> bool:
    """Whether no other process of this machine has asked before: the one to say what went wrong.

    The first that fails knows why; the others fail because it did. A file in torchrun's folder
    for errors, which it removes at its end, tells at every moment, even from a signal handler.
    """
    place = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not is_used() or place is None:
        return is_first_rank()
    try:
        (Path(place).parent.parent / "redunet-has-spoken").touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return is_first_rank()
    return True
