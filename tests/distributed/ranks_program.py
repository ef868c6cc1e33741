"""What test_group.py has torchrun start: answers of models, written by the first rank."""

from __future__ import annotations

import sys
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
