"""A program that torchrun starts as a group: each process writes its answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from redunet import ReduNetClassifier
from redunet.distributed import ShardedClassifier, group


def main(folder: Path, device: str) -> None:
    for name in ("digits", "many"):  # one group after another
        with group() as ranks:
            model = ReduNetClassifier.load(folder / f"{name}.safetensors")
            sharded = ShardedClassifier(model.set_params(device=device), ranks)
            X = np.load(folder / f"{name}.npy")
            found: dict[str, Any] = {
                "labels": sharded.predict(X),
                "scores": sharded.decision_function(X),
                "features": sharded.transform(X),
                "delta_R": sharded.rates_,
            }
            np.savez(folder / f"{name}-{ranks.rank}-of-{ranks.size}.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
