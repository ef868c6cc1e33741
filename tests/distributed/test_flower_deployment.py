"""A federation of real Flower processes gives the file of one process.

What takes longer, withdrawal, masked sums and a killed client, is run by ``make federation``.
"""

from __future__ import annotations

import numpy as np

from tests.distributed.flower_deployment import X, Y, deployment, file_of, taken


def test_two_clients() -> None:
    parts = [(Y < 3) & (np.arange(len(X)) % 2 == 0), Y > 1]
    parts[1] &= ~parts[0]
    with deployment(parts) as federation:
        log = federation.run("n-clients=2 min-clients=2")
        assert len(taken(log)) == 2, log
        rows = np.logical_or.reduce(parts)
        assert federation.model.read_bytes() == file_of(rows, federation.folder)
