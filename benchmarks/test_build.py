"""Building layers: against floor and primitives, against the samples, and as sizes grow."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks.cases import STEP, one_layer, second_moments
from benchmarks.from_samples import FromSamples, Way
from benchmarks.measure import (
    Work,
    build_floor,
    build_primitives,
    clock,
    exponent,
    interleaved,
    yardsticks,
)
from redunet.core.linalg import add_identity, spd_inverse_

DTYPES = [torch.float64, torch.float32]
WAYS: tuple[Way, ...] = ("a", "b", "c")
K = 10


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize(("d", "rounds"), [(784, 21), (2048, 5)])
def test_a_layer(medians: Any, report: Any, d: int, rounds: int, dtype: torch.dtype) -> None:
    Sigma, coding = second_moments(K, d)
    took = medians(one_layer(Sigma.to(dtype), coding), yardsticks(d, dtype), rounds)
    floor = build_floor(K, d, took["product"])
    primitives = build_primitives(K, took["product"], took["inverse"])
    report(
        f"build a layer, d {d}, k {K}, {name(dtype)}",
        floor=floor,
        primitives=primitives,
        measured=took["measured"],
        over_floor=took["measured"] / floor,
        over_primitives=took["measured"] / primitives,
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize(("d", "rounds"), [(784, 21), (2048, 5)])
def test_an_inverse(medians: Any, report: Any, d: int, rounds: int, dtype: torch.dtype) -> None:
    Sigma, coding = second_moments(1, d)
    A = add_identity(Sigma.to(dtype), 1 / coding.alpha)
    used, out = torch.empty_like(A), torch.empty_like(A)
    took = medians(lambda: spd_inverse_(used.copy_(A), out), yardsticks(d, dtype), rounds)
    report(
        f"one inverse by halves, d {d}, {name(dtype)}",
        floor=took["product"] / 2,
        primitives=took["inverse"],
        measured=took["measured"],
        over_floor=2 * took["measured"] / took["product"],
        over_primitives=took["measured"] / took["inverse"],
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("m", [6_000, 20_000, 60_000])
def test_a_layer_against_the_samples(report: Any, m: int, dtype: torch.dtype) -> None:
    d = 784
    Sigma, coding = second_moments(K, d, m)
    Z = [torch.randn(m // K, d, dtype=dtype) for _ in range(K)]
    Z = [z.div_(z.norm(dim=1, keepdim=True)) for z in Z]
    ways = {way: FromSamples(Z, coding.eps, way) for way in WAYS}
    layer = one_layer(Sigma.to(dtype), coding)
    works: dict[str, Work] = {
        way: lambda samples=samples: samples.layer(STEP)  # type: ignore[misc]
        for way, samples in ways.items()
    }
    # Between the slow ones the layer is measured each time, so that it has many turns.
    times: dict[str, list[float]] = {way: [] for way in ("layer", *WAYS)}
    layer()
    for _ in range(3):
        for way, work in works.items():
            times["layer"] += [clock(layer) for _ in range(5)]
            times[way].append(clock(work))
    took = {way: statistics.median(seconds) for way, seconds in times.items()}
    report(
        f"build a layer, d {d}, k {K}, m {m:,}, {name(dtype)}",
        measured=took["layer"],
        **{f"faster_than_{way}": took[way] / took["layer"] for way in WAYS},
        other=", ".join(f"({way}) {took[way]:.3g} s" for way in WAYS),
    )


def test_the_number_of_samples_does_not_matter(report: Any) -> None:
    d = 784
    works = {f"{m:,}": one_layer(*second_moments(K, d, m)) for m in (6_000, 60_000)}
    took = interleaved(works, 31)
    few, many = took.values()
    report(
        f"build a layer, d {d}, k {K}, m 60,000 over m 6,000, float64",
        measured=many,
        other=f"{many / few:.3f} of the time at m 6,000",
    )


GROWTH: dict[str, tuple[list[int], Callable[[int], Any]]] = {
    "m": ([3_000, 12_000, 48_000], lambda m: one_layer(*second_moments(K, 392, m))),
    "d": ([392, 784, 1568], lambda d: one_layer(*second_moments(4, d))),
    "k": ([5, 10, 20, 40], lambda k: one_layer(*second_moments(k, 392))),
}


@pytest.mark.parametrize("over", GROWTH)
def test_growth(report: Any, over: str) -> None:
    sizes, make = GROWTH[over]
    took = interleaved({str(size): make(size) for size in sizes}, 7)
    growth(report, f"build a layer, over {over}", sizes, list(took.values()))


def test_growth_over_layers(report: Any) -> None:
    sizes = [5, 10, 20, 40]
    work = one_layer(*second_moments(K, 392))
    works = {str(n): lambda n=n: [work() for _ in range(n)] for n in sizes}
    growth(report, "build, over layers", sizes, list(interleaved(works, 5).values()))


@pytest.mark.parametrize("way", WAYS)
def test_growth_from_samples(report: Any, way: Way) -> None:
    d, sizes, works = 392, [3_000, 12_000, 48_000], {}
    for m in sizes:
        samples = FromSamples([torch.randn(m // K, d).double() for _ in range(K)], 0.5, way)
        works[str(m)] = lambda samples=samples: samples.layer(STEP)
    took = list(interleaved(works, 3).values())
    growth(report, f"build a layer from samples ({way}), over m", sizes, took)


def growth(report: Any, case: str, sizes: list[int], seconds: list[float]) -> None:
    points = ", ".join(f"{size}: {x * 1e3:.3g}" for size, x in zip(sizes, seconds, strict=True))
    report(case, other=f"exponent {exponent(sizes, seconds):.2f} (ms at {points})")
