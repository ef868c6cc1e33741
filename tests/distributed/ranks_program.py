"""What test_group.py starts as a group, by torchrun or without: each rank writes its answers."""

from __future__ import annotations

import os
import random
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np

from redunet.distributed import group
from redunet.estimators import ReduNetClassifier, load


def main(folder: Path, device: str) -> None:
    for name in ("digits", "many"):  # one group after another
        with group() as ranks:
            model = load(folder / f"{name}.safetensors", device)
            assert isinstance(model, ReduNetClassifier)
            X = np.load(folder / f"{name}.npy")
            found = {
                "labels": model.predict(X),
                "probabilities": model.predict_proba(X),
                "features": model.transform(X),
                "novelty": model.novelty(X),
                "delta_R": [rate.delta_R for rate in model.network_.rates()],
                "own": len(model._fitted().moments),
                "messages": ranks.messages,  # type: ignore[attr-defined]
                "bytes": ranks.n_bytes,  # type: ignore[attr-defined]
            }
            np.savez(folder / f"{name}-{ranks.rank}-of-{ranks.size}.npz", **found)


def forked(n: int, folder: Path, device: str) -> int:
    """Run main in n ranks without torchrun, which have loaded PyTorch once; how many failed."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(n))
    children = []
    for rank in range(n):
        pid = os.fork()
        if not pid:
            os.environ["RANK"] = str(rank)
            status = 1
            try:
                main(folder, device)
                status = 0
            except BaseException:  # noqa: BLE001 - the parent counts it
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(pid)
    return sum(os.waitpid(pid, 0)[1] != 0 for pid in children)


def free_port() -> int:
    """A port below those that systems hand out: no other test is given it meanwhile."""
    for port in random.Random(os.getpid()).sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no free port was found")


if __name__ == "__main__":
    folder, device, *n = sys.argv[1:]
    if n:
        sys.exit(forked(int(n[0]), Path(folder), device))
    main(Path(folder), device)
