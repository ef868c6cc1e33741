"""The figures on CUDA, from the same code: ``python -m benchmarks.gpu FOLDER``.

Needs PyTorch and this package, no test runner; takes a few minutes and writes
``FOLDER/cuda.json``. ``--device cpu --small`` tries the script out without a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.cases import (
    STEP,
    Travel,
    few_samples,
    one_layer,
    one_transform,
    second_moments,
)
from benchmarks.from_samples import FromSamples, Way
from benchmarks.measure import (
    Row,
    build_floor,
    build_primitives,
    clock,
    exponent,
    interleaved,
    machine,
    record,
    table,
    transform_floor,
    yardsticks,
)
from redunet.core.construction import Pass
from redunet.core.second_moments import SecondMoments

K = 10
WAYS: tuple[Way, ...] = ("a", "b", "c")
FORMS: tuple[Literal["factors", "matrices"], ...] = ("factors", "matrices")


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def layers(device: str, d: int, dtype: torch.dtype) -> Row:
    """One layer against floor and primitives."""
    Sigma, coding = second_moments(K, d, device=device)
    works = {**yardsticks(d, dtype, device), "layer": one_layer(Sigma.to(dtype), coding)}
    took = interleaved(works, 7, device)
    floor = build_floor(K, d, took["product"])
    primitives = build_primitives(K, took["product"], took["inverse"])
    return {
        "case": f"build a layer, d {d}, k {K}, {short(dtype)}",
        "floor": floor,
        "primitives": primitives,
        "measured": took["layer"],
        "over_floor": took["layer"] / floor,
        "over_primitives": took["layer"] / primitives,
    }


def whole_build(device: str, d: int, n_layers: int) -> Row:
    """All layers of a network, streamed, with the peak of the device's memory."""
    Sigma, coding = second_moments(K, d, device=device)
    first = SecondMoments.of_matrices(Sigma)

    def work() -> None:
        going = Pass(first, coding, reuse=True)
        for index in range(n_layers):
            going.layer(STEP * 0.933**index)
            going.move()

    clock(lambda: Pass(first, coding, reuse=True).layer(STEP), device)
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    seconds = clock(work, device)
    peak = torch.cuda.max_memory_allocated() / 1e9 if device != "cpu" else 0.0
    return {
        "case": f"build {n_layers} layers, d {d}, k {K}, float64",
        "measured": seconds,
        "other": f"{seconds:.3g} s, {peak:.2f} GB at the peak",
    }


def transforms(device: str, d: int, n: int) -> list[Row]:
    """Samples through one layer, in float64 and in float32."""
    Sigma, coding = second_moments(K, d, device=device)
    works: dict[str, Any] = {"product": yardsticks(d, torch.float64, device)["product"]}
    works["float64"] = one_transform(Sigma, coding, n, 2048)
    works["float32"] = one_transform(Sigma.float(), coding, n, 2048)
    took = interleaved(works, 5, device)
    floor = transform_floor(K, d, n, took["product"])
    rows = []
    for name in list(works)[1:]:
        row: Row = {
            "case": f"transform {n:,} samples, d {d}, k {K}, {name}",
            "measured": took[name],
        }
        if name == "float64":
            row |= {"floor": floor, "over_floor": took[name] / floor}
        else:
            row["other"] = f"{took['float64'] / took[name]:.2f} × as fast as float64"
        rows.append(row)
    return rows


def against_samples(device: str, d: int, m: int, dtype: torch.dtype) -> Row:
    """The constructions from the samples."""
    Sigma, coding = second_moments(K, d, m, device)
    Z = [torch.randn(m // K, d, dtype=dtype, device=device) for _ in range(K)]
    works: dict[str, Callable[[], object]] = {"layer": one_layer(Sigma.to(dtype), coding)}
    for way in WAYS:
        samples = FromSamples(Z, coding.eps, way)
        works[way] = lambda samples=samples: samples.layer(STEP)  # type: ignore[misc]
    took = interleaved(works, 3, device)
    return {
        "case": f"build a layer, d {d}, k {K}, m {m:,}, {short(dtype)}",
        "measured": took["layer"],
        **{f"faster_than_{way}": took[way] / took["layer"] for way in WAYS},
        "other": ", ".join(f"({way}) {took[way]:.3g} s" for way in WAYS),
    }


def growth(device: str, sizes: list[int]) -> Row:
    """Build time as d grows."""
    works = {str(d): one_layer(*second_moments(4, d, device=device)) for d in sizes}
    seconds = list(interleaved(works, 5, device).values())
    points = ", ".join(f"{d}: {x * 1e3:.3g}" for d, x in zip(sizes, seconds, strict=True))
    return {
        "case": "build a layer, k 4, over d",
        "other": f"exponent {exponent(sizes, seconds):.2f} (ms at {points})",
    }


def factors(device: str, k: int) -> list[Row]:
    """Many classes of few samples."""
    travels = {
        form: Travel(*few_samples(k, 768, 20, form, device), 1024, 64 if device == "cpu" else 256)
        for form in FORMS
    }
    rows = []
    for what, does in (("build a layer", "build"), ("transform 1,024 samples", "transform")):
        if does == "transform":
            for travel in travels.values():
                travel.rest()
        works: dict[str, Any] = {form: getattr(travel, does) for form, travel in travels.items()}
        took = interleaved(works, 2, device)
        ratio = took["matrices"] / took["factors"]
        rows.append(
            {
                "case": f"{what}, d 768, k {k}, n_j 20, in factors",
                "measured": took["factors"],
                "faster_than_matrices": ratio,
                "other": f"matrices: {took['matrices']:.3g} s, {ratio:.1f} × as long",
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for trying the script out")
    chosen = parser.parse_args()
    device, small = chosen.device, chosen.small
    near, far, n = (96, 200, 256) if small else (784, 5120, 10_000)
    steps: list[Callable[[], Row | list[Row]]] = [
        lambda: layers(device, near, torch.float64),
        lambda: layers(device, near, torch.float32),
        lambda: whole_build(device, near, 5 if small else 200),
        lambda: layers(device, far, torch.float64),
        lambda: whole_build(device, far, 2 if small else 50),
        lambda: transforms(device, near, n),
        lambda: transforms(device, far, n),
        lambda: against_samples(device, near, 600 if small else 60_000, torch.float64),
        lambda: against_samples(device, near, 600 if small else 60_000, torch.float32),
        lambda: growth(device, [48, 96, 192] if small else [392, 784, 1568, 3136]),
        lambda: factors(device, 20 if small else 1000),
    ]
    about, rows = machine(device), []
    for step in steps:
        start = time.perf_counter()
        found = step()
        rows += found if isinstance(found, list) else [found]
        print(f"{rows[-1]['case']}: done in {time.perf_counter() - start:.1f} s", flush=True)
        record(chosen.folder / f"{device}.json", about, rows)
        if device != "cpu":
            torch.cuda.empty_cache()
    print(table(rows))


if __name__ == "__main__":
    main()
