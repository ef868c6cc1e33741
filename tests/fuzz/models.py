"""Model files forged with a valid checksum: refused in one line, or used without fault."""

from __future__ import annotations

import copy
import random
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from redunet import ReduNetError
from redunet.core.packing import NAMES
from redunet.estimators import load, storage

FIXTURES = sorted(Path(__file__).parents[1].glob("fixtures/models/*.safetensors"))
MOST_BYTES = 2**29
"""Memory that a forged file of a few kilobytes may take beyond what is in use."""
MOST_SECONDS = 10.0

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 5, 7, 16, 255, 2**31, 2**53 + 1, 2**63, 10**9, 10**30,
    0.0, 0.5, -0.5, 1e-300, 1e12, 1e308, "", "a", "a\0", "\ud800", "float32", "relative",
    "flatten", "standardize", "gaussian-lift", "patch-filters", "scattering", "root", "chain",
    "mirrored", "together", "ridge", "lda", "qda", "ncm", [], {}, [0], [1, 2], [2, 1], ["a", "b"],
    [8, 8], [8, 8, 1], [64], [10**6, 10**6], [1, 1, 10**9], [-1], [0, 0], [2.0, 4.0], [[1]],
]  # fmt: skip
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.uint8, torch.bool,
]  # fmt: skip
NUMBERS = [0.0, 1.0, -1.0, 0.5, 1e-320, 1e18, 9.3e18, 1e300, float("inf"), float("nan")]

State = tuple[dict[str, Tensor], Any]


def original(path: Path) -> State:
    """What a fixture holds, in the format of today."""
    with tempfile.TemporaryDirectory() as folder:
        load(path).save(Path(folder, "model"))
        return storage.load(Path(folder, "model"))


def forge(n: int, seed: int = 0) -> list[str]:
    """Make n files, read each and use what can be read; a description of each fault."""
    rng = random.Random(seed)
    originals = [original(path) for path in FIXTURES]
    features = [content["embedding"]["features"] for _, content in originals]
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(n):
            index = rng.randrange(len(originals))
            tensors, content = copy.deepcopy(originals[index])
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                with suppress(LookupError, TypeError, RuntimeError):  # no such change can be made
                    _mutate(rng, tensors, content, originals, features)
            try:
                data = storage.encode(tensors, content)
            except (ValueError, TypeError, RuntimeError, RecursionError):
                continue  # no such file can be made
            path = Path(folder, "model")
            path.write_bytes(data)
            fault = attempt(path)
            if fault:
                faults.append(f"file {number} of seed {seed}, {FIXTURES[index].stem}: {fault}")
    return faults


def attempt(path: Path) -> str | None:
    """Load a file and use it; what went wrong, or None."""
    start = time.process_time()
    try:
        with bounded_memory(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = load(path)
            model.device, model.memory = "cpu", "100MB"
            shape = (2, model.n_features_in_)
            model.predict(np.random.RandomState(0).randint(0, 256, shape).astype(np.float64))
    except ReduNetError as error:
        if len(str(error).splitlines()) > 1:
            return f"an error of several lines: {error}"
    except Exception as error:  # noqa: BLE001 - any other is what this looks for
        return f"{type(error).__name__}: {error}"
    took = time.process_time() - start
    return f"took {took:.0f} s" if took > MOST_SECONDS else None


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Let allocations fail that would take much more than is in use."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _mutate(
    rng: random.Random,
    tensors: dict[str, Tensor],
    content: Any,
    originals: list[State],
    features: list[Any],
) -> None:
    """Change one thing."""
    how = rng.random()
    if how < 0.45:
        _change_value(rng, content, rng.choice([None, "embedding", "embedding", "settings"]))
    elif how < 0.75:
        _change_tensor(rng, tensors)
    elif how < 0.85:  # the map of another model, with its tensors or without
        which = rng.randrange(len(features))
        content["embedding"]["features"] = copy.deepcopy(features[which])
        if rng.random() < 0.7:
            for name in [name for name in tensors if name.startswith("features.")]:
                del tensors[name]
            others = originals[which][0]
            tensors |= {k: v.clone() for k, v in others.items() if k.startswith("features.")}
    elif how < 0.95:
        _nest(rng, content, tensors)
    else:
        other, values = rng.choice(originals)
        for name in NAMES:
            tensors.pop(name, None)
        tensors |= {name: other[name].clone() for name in NAMES if name in other}
        content["labels"] = copy.deepcopy(values["labels"])
        content["label_type"] = values["label_type"]


def _change_value(rng: random.Random, content: Any, below: str | None) -> None:
    """Replace, remove or add something in plain values."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict | list):
            for key in list(value) if isinstance(value, dict) else range(len(value)):
                places.append((value, key))
                walk(value[key])

    walk(content if below is None else content[below])
    if not places:
        return
    container, key = rng.choice(places)
    how = rng.random()
    old = container[key]
    if how < 0.6:
        container[key] = copy.deepcopy(rng.choice(VALUES))
    elif how < 0.8 and isinstance(old, int | float):
        container[key] = rng.choice([old + 1, old - 1, -old, old * 2, old * 10**6, float(old)])
    elif how < 0.9:
        del container[key]
    elif isinstance(container, list):
        container.insert(rng.randrange(len(container) + 1), copy.deepcopy(rng.choice(VALUES)))
    else:
        container[rng.choice(["kind", "values", "n", "0", "mean"])] = rng.choice(VALUES)


def _change_tensor(rng: random.Random, tensors: dict[str, Tensor]) -> None:
    """Another dtype, shape or value, another name, or none at all."""
    names = sorted(tensors)
    maps = [name for name in names if name.startswith("features.")]
    name = rng.choice(maps if maps and rng.random() < 0.7 else names)
    tensor = tensors[name]
    how = rng.random()
    if how < 0.2:
        tensors[name] = tensor.to(rng.choice(DTYPES))
    elif how < 0.6:
        values = tensor.clone().reshape(-1)
        if len(values):
            value = rng.choice(NUMBERS)
            where = slice(None) if rng.random() < 0.3 else rng.randrange(len(values))
            if not values.is_floating_point():
                value = int(min(max(value, -(2.0**63)), 2.0**63 - 1025)) if value == value else 7
            values[where] = value
        tensors[name] = values.reshape(tensor.shape)
    elif how < 0.9:
        changes: list[Any] = [
            lambda: tensor.reshape(-1),
            lambda: tensor[None],
            lambda: tensor[..., :-1],
            lambda: tensor[:0],
            lambda: torch.cat([tensor, tensor]),
            lambda: tensor.transpose(0, -1),
            lambda: tensor.reshape(-1)[0],
            lambda: torch.zeros(0, 50_000, dtype=tensor.dtype),
            lambda: torch.zeros(3, 0, dtype=tensor.dtype),
        ]
        try:
            tensors[name] = rng.choice(changes)().contiguous().clone()
        except (RuntimeError, IndexError):
            return
    else:
        moved = tensors.pop(name)
        if rng.random() < 0.5:
            tensors[rng.choice([f"{name}x", "features.mean", "features.0.mean"])] = moved


def _nest(rng: random.Random, content: Any, tensors: dict[str, Tensor]) -> None:
    """Put the map inside of others."""
    inner = content["embedding"]["features"]
    if inner is None:
        shape = rng.choice([[6], [8, 8], [4, 4, 1], [2, 3]])
        inner = {"kind": "flatten", "values": {"input_shape": shape}}
    for _ in range(rng.choice((1, 1, 2, 40))):
        outer = rng.choice(["chain", "mirrored", "mirrored", "together"])
        names = {"chain": ["first", "second"], "mirrored": ["plain"], "together": ["0", "1"]}[outer]
        held = {name: tensor for name, tensor in tensors.items() if name.startswith("features.")}
        values = {name: copy.deepcopy(inner) for name in names}
        if outer == "chain" and rng.random() < 0.7:
            values["second"] = {"kind": "root", "values": {"n_features": rng.choice([6, 64, 24])}}
        for name, tensor in held.items():
            del tensors[name]
            for part in names[: 1 if rng.random() < 0.5 else None]:
                tensors[f"features.{part}.{name.removeprefix('features.')}"] = tensor.clone()
        inner = {"kind": outer, "values": values}
        if len(str(inner)) > 10**5:
            break
    content["embedding"]["features"] = inner


if __name__ == "__main__":
    number, start = map(int, sys.argv[1:])
    found = forge(number, start)
    sys.stdout.write("\n".join([*found, f"{number:,} forged files, {len(found)} faults\n"]))
    sys.exit(bool(found))
