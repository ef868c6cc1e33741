"""Many classes of few samples: factors against matrices, in time and in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import torch

from benchmarks.cases import few_samples, pass_through
from benchmarks.measure import clock

K = int(os.environ.get("BENCH_CLASSES", "1000"))
D, PER_CLASS, NEW = 768, 20, 64

PEAK = f"""
import resource
from benchmarks.cases import few_samples, pass_through
factors, matrices, coding = few_samples({K}, {D}, {PER_CLASS})
first = WHICH
del factors, matrices
import gc; gc.collect()
with open("/proc/self/clear_refs", "w") as f: f.write("5")
def status(key):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(key)) * 1024
before = status("VmRSS")
for work in pass_through(first, coding, {NEW}): work()
print(status("VmHWM") - before + sum(t.nbytes for t in [first.Sigma, *(s.B for s in first.stacks)]))
"""


def test_factors_against_matrices(report: Any) -> None:
    factors, matrices, coding = few_samples(K, D, PER_CLASS)
    names = ("build", "transform")
    lean, dense = (
        dict(zip(names, pass_through(first, coding, NEW), strict=True))
        for first in (factors, matrices)
    )
    for name in names:
        lean[name]()
        times = [[clock(work[name]) for work in (lean, dense)] for _ in range(2)]
        fast, slow = (min(column) for column in zip(*times, strict=True))
        what = "build a layer" if name == "build" else f"transform {NEW} samples"
        report(
            f"{what}, d {D}, k {K}, n_j {PER_CLASS}, in factors",
            measured=fast,
            other=f"matrices: {slow:.3g} s, {slow / fast:.1f} × as long",
        )
    del lean, dense, factors, matrices
    peaks = [_peak(which) for which in ("factors", "matrices")]
    report(
        f"working memory of both, d {D}, k {K}, n_j {PER_CLASS}",
        other=f"factors {peaks[0] / 1e6:.0f} MB, matrices {peaks[1] / 1e6:.0f} MB: "
        f"{peaks[0] / peaks[1]:.3f}",
    )


def _peak(which: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PEAK.replace("WHICH", which)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
    )
    return int(done.stdout)
