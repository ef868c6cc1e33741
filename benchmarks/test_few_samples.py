"""Many classes of few samples: factors against matrices, in time and in memory.

Of 1,000 classes the second moments alone take 4.7 GB as matrices. Both forms
are built in turns, but of the matrices only the moments on their way and one
layer are held, about 10 GB in all; the samples are moved by the layer that is
in memory when building is done. `BENCH_CLASSES` asks for fewer classes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import torch

from benchmarks.cases import Travel, few_samples
from benchmarks.measure import clock

K = int(os.environ.get("BENCH_CLASSES", "1000"))
D, PER_CLASS, NEW, ROUNDS = 768, 20, 64, 2
FORMS: tuple[Any, ...] = ("factors", "matrices")

PEAK = f"""
import re
from benchmarks.cases import Travel, few_samples
first, coding = few_samples({K}, {D}, {PER_CLASS}, FORM)
def status(key):
    return int(re.search(key + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
with open("/proc/self/clear_refs", "w") as f: f.write("5")  # the peak begins anew
given = sum(t.nbytes for t in [first.Sigma, *(stack.B for stack in first.stacks)])
before = status("VmRSS") - given
travel = Travel(first, coding, {NEW})
del first
travel.build(); travel.rest(); travel.transform()
print(status("VmHWM") - before)
"""


def test_factors_against_matrices(report: Any) -> None:
    travels = [Travel(*few_samples(K, D, PER_CLASS, form), NEW) for form in FORMS]
    case = f"d {D}, k {K}, n_j {PER_CLASS}"
    _compare(report, f"build a layer, {case}", [travel.build for travel in travels])
    for travel in travels:
        travel.rest()
    what = f"transform {NEW} samples, {case}"
    _compare(report, what, [travel.transform for travel in travels])
    factors, matrices = (travel.Z for travel in travels)
    difference = float((factors - matrices).abs().max())
    assert difference < 1e-9
    report(f"features after them, {case}", other=f"differ by {difference:.1e} at most")


def _compare(report: Any, what: str, works: list[Any]) -> None:
    times = [[clock(work) for work in works] for _ in range(ROUNDS)]
    fast, slow = (min(column) for column in zip(*times, strict=True))
    report(
        f"{what}, in factors",
        measured=fast,
        faster_than_matrices=slow / fast,
        other=f"matrices: {slow:.3g} s, {slow / fast:.1f} × as long",
    )


def test_memory(report: Any) -> None:
    factors, matrices = (_peak(form) for form in FORMS)
    report(
        f"working memory of both, d {D}, k {K}, n_j {PER_CLASS}",
        share_of_matrices=factors / matrices,
        other=f"factors {factors / 1e6:.0f} MB, matrices {matrices / 1e6:.0f} MB: "
        f"{factors / matrices:.3f}",
    )


def _peak(form: str) -> int:
    """Most bytes for moments, a layer and samples, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK.replace("FORM", repr(form))],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
    )
    return int(done.stdout)
