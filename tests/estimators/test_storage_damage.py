"""Model files that are damaged or forged: any altered byte is refused, in one line."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redunet import ModelFileError, ReduNetClassifier
from redunet.core.moments import ClassMoments
from redunet.estimators import NearestMean, load, storage
from redunet.features import Flatten, register
from tests.estimators.test_storage import TINY, X, file_of, fresh, refusal

pytestmark = pytest.mark.usefixtures("one_thread")

COUNTS, SUMS, SECOND = (
    safetensors.torch.load(TINY)[name] for name in ("counts", "sums", "second_moments")
)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "model"


@pytest.mark.parametrize("mask", [0x01])
def test_every_byte_counts(damaged: Path, mask: int) -> None:
    for index in range(len(TINY)):
        data = bytearray(TINY)
        data[index] ^= mask
        damaged.write_bytes(data)
        assert "another copy" in (message := refusal(damaged)) or "upgrade" in message


def test_every_truncation_is_noticed(damaged: Path) -> None:
    for length in range(len(TINY)):
        damaged.write_bytes(TINY[:length])
        assert "another copy" in refusal(damaged)


@given(st.integers(0, len(TINY)), st.integers(0, 20), st.binary(max_size=20))
@settings(max_examples=200, deadline=None)
def test_bytes_put_in_taken_out_or_exchanged(
    damaged: Path, start: int, length: int, insert: bytes
) -> None:
    data = TINY[:start] + insert + TINY[start + length :]
    damaged.write_bytes(data)
    if data != TINY:
        assert refusal(damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"label,x\n1,2\n",
        "ünïcode, but no model".encode(),
        random.Random(0).randbytes(5000),
        TINY + b"\x00",
        TINY + TINY,
        safetensors.torch.save({"weight": torch.ones(3)}),
        safetensors.torch.save({"weight": torch.ones(3)}, {"format": "pt"}),
        safetensors.torch.save({"a": torch.ones(3)}, {"redunet": "no JSON"}),
        safetensors.torch.save({"a": torch.ones(3).bool()}, {"redunet": '{"version":1}'}),
    ],
    ids=["empty", "zeros", "text", "utf-8", "random", "appended", "twice", "other", "format",
         "entry", "content"],
)  # fmt: skip
def test_what_is_no_model_is_refused(damaged: Path, data: bytes) -> None:
    damaged.write_bytes(data)
    assert "another copy" in refusal(damaged)


def test_no_depth_of_nesting_is_too_much(damaged: Path) -> None:
    for depth in range(sys.getrecursionlimit()):  # where reading ends and writing does is no matter
        nest = f'{{"version":1,"content":{"[" * depth + "]" * depth}}}'
        damaged.write_bytes(safetensors.torch.save({"counts": COUNTS}, {"redunet": nest}))
        assert "another copy" in refusal(damaged)


LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from redunet.cli.app import main

path = sys.argv[1]
main(["verify", path], standalone_mode=False)  # which imports all that it needs
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
codes = []
while 0 not in codes:
    limit = used + (4 + 4 * len(codes)) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    codes.append(main(["verify", path], standalone_mode=False))
print(codes)
"""


def test_too_little_memory_does_not_read_as_damage(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((4000, 2048))
    NearestMean().fit(rows, [0] * 4000).save(tmp_path / "model")
    words = [sys.executable, "-c", LITTLE_MEMORY, str(tmp_path / "model")]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    codes = ran.stdout.splitlines()[-1]
    assert set(ran.stderr.splitlines()) == {"redunet: out of memory; nothing was changed"}
    assert re.fullmatch(r"\[(1, )+0\]", codes)


@register
@dataclass(frozen=True)
class Broken(Flatten):
    """A feature map with a fault in its program."""

    kind: ClassVar[str] = "broken"

    def __post_init__(self) -> None:
        if self.input_shape == (2,):
            raise AttributeError("a fault of the program")


def test_a_fault_of_a_feature_map_does_not_read_as_damage(damaged: Path) -> None:
    damaged.write_bytes(TINY)
    tensors, content = storage.load(damaged)
    content["embedding"]["features"] = {"kind": "broken", "values": {"input_shape": [2]}}
    storage.save(damaged, tensors, content)
    with pytest.raises(AttributeError, match="a fault of the program"):
        load(damaged)


@pytest.mark.parametrize("length", [7, 8, 2**31, 2**63, 2**64 - 1])
def test_a_header_longer_than_the_file_is_refused(damaged: Path, length: int) -> None:
    damaged.write_bytes(length.to_bytes(8, "little") + TINY[8:])
    assert "another copy" in refusal(damaged)
    for read in (storage.sizes, storage.version):
        with pytest.raises(ModelFileError, match="another copy"):
            read(damaged)


HEADERS = {
    "list": [],
    "number": 3,
    "side": {"counts": {"dtype": "I64", "shape": ["2"], "data_offsets": [0, 16]}},
    "negative": {"counts": {"dtype": "I64", "shape": [-2, -1], "data_offsets": [0, 16]}},
    "endless": {"counts": {"dtype": "I64", "shape": [2**62] * 3 + [0], "data_offsets": [0, 0]}},
    "other-size": {"counts": {"dtype": "I64", "shape": [3], "data_offsets": [0, 16]}},
    "unaligned": {"counts": {"dtype": "I64", "shape": [1], "data_offsets": [1, 9]}},
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_of_another_kind_is_refused(damaged: Path, case: str) -> None:
    header = HEADERS[case]
    if isinstance(header, dict):
        header = {"__metadata__": {"redunet": '{"version":1,"content":{}}'}, **header}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    damaged.write_bytes(len(text).to_bytes(8, "little") + text + bytes(16))
    assert "another copy" in refusal(damaged)


def test_a_newer_version_asks_for_an_upgrade(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(storage, "_version", lambda *_: 4)
        storage.save(damaged, {"other": torch.ones(1)}, ["what a later version may hold"])
    assert "version 4" in (message := refusal(damaged))
    assert "upgrade redunet" in message


def flatten(**values: Any) -> dict[str, Any]:
    return {"kind": "flatten", "values": values}


WRONG_CONTENT: list[tuple[str, Any]] = [
    ("labels", [0]), ("labels", [0, 0]), ("labels", [1, 0]), ("labels", 3), ("labels", [0, "1"]),
    ("labels", "ab"), ("labels", [[0], [1]]), ("labels", []), ("label_type", "str"),
    ("n_features_in", 3), ("feature_names", ["a"]), ("feature_names", [1, 2]), ("settings", []),
    ("settings.eps", -1.0), ("settings.unknown", 1), ("unknown", 1), ("settings.tol", None),
    ("embedding", None), ("embedding.normalize", "none"), ("embedding.input_range", [0, 1]),
    ("embedding.features", {"kind": "unknown", "values": {}}), ("embedding.features", []),
    ("embedding.features", flatten(x={})), ("embedding.features", flatten(input_shape=[5])),
    ("embedding.features", {"kind": "standardize", "values": {"input_shape": [2]}}),
]  # fmt: skip
WRONG_TENSORS: dict[str, Any] = {
    "counts-zero": COUNTS * 0, "counts-negative": -COUNTS, "counts-over": COUNTS + 2**23,
    "counts-int32": COUNTS.int(), "counts-short": COUNTS[:1], "counts-gone": None,
    "sums-float": SUMS.double(), "sums-wide": torch.zeros(2, 3).long(), "sums-gone": None,
    "sums-large": SUMS * 0 + 2**62, "sums-none": torch.zeros(2, 0).long(),
    "second_moments-float": SECOND.double(), "second_moments-negative": -SECOND,
    "second_moments-large": SECOND * 0 + 2**62, "second_moments-gone": None,
    "unknown-tensor": COUNTS, "features.mean-tensor": COUNTS,
}  # fmt: skip


@pytest.mark.parametrize(("where", "value"), WRONG_CONTENT, ids=str)
def test_content_that_makes_no_model_is_refused(damaged: Path, where: str, value: Any) -> None:
    damaged.write_bytes(TINY)
    tensors, content = storage.load(damaged)
    *parents, last = where.split(".")
    entry = content
    for name in parents:
        entry = entry[name]
    entry[last] = value
    storage.save(damaged, tensors, content)
    assert refusal(damaged)


@pytest.mark.parametrize("case", WRONG_TENSORS)
def test_tensors_that_make_no_model_are_refused(damaged: Path, case: str) -> None:
    damaged.write_bytes(TINY)
    tensors, content = storage.load(damaged)
    tensors[case.split("-")[0]] = WRONG_TENSORS[case]
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    storage.save(damaged, kept, content)
    assert refusal(damaged)


FEW = file_of(fresh(n_components=1).fit(X[:4], [0, 0, 1, 1]))
PIVOTS, N_COLUMNS, ENTRIES = (
    safetensors.torch.load(FEW)[name] for name in ("pivots", "n_columns", "second_moments")
)


def of_columns(columns: torch.Tensor, *pivots: int) -> dict[str, torch.Tensor]:
    """The tensors of two classes that are held by the same columns."""
    needed = torch.ones(6, len(pivots)).bool()
    needed[list(pivots)] = needed[list(pivots)].tril()
    return {
        "n_columns": torch.tensor([len(pivots)] * 2),
        "pivots": torch.tensor([*pivots] * 2, dtype=torch.int64),
        "second_moments": columns[needed].repeat(2),
    }


ONES = torch.ones(6, 2).long()
EYE = torch.eye(6).long()
WRONG_COLUMNS: dict[str, dict[str, torch.Tensor]] = {
    "pivots out of order": {"pivots": PIVOTS.flip(0)},
    "pivots out of range": {"pivots": PIVOTS + 6},
    "pivots twice": {"pivots": PIVOTS * 0},
    "pivots later than the first": {"pivots": PIVOTS + 1},
    "more columns than there are": {"n_columns": N_COLUMNS + 100},
    "as many as overflow": {"n_columns": N_COLUMNS * 0 + 2**62},
    "entries left over": {"second_moments": torch.cat([ENTRIES, ENTRIES[:1]])},
    "entries missing": {"second_moments": ENTRIES[1:]},
    "all entries equal": {"second_moments": ENTRIES * 0 + 1},
    "entries below zero": {"second_moments": -ENTRIES},
    "one other entry": {"second_moments": ENTRIES + (torch.arange(len(ENTRIES)) == 5)},
    "dependent columns": of_columns(ONES, 0, 1),
    "a diagonal beyond 64 bits": of_columns(EYE[:, :1] + ONES[:, :1] * 2**40, 0),
    "a diagonal below zero": of_columns(-EYE[:, :1], 0),
    "whole, though of rank 1": {
        "n_columns": torch.tensor([6, 6]),
        "pivots": PIVOTS[:0],
        "second_moments": torch.ones(42).long(),
    },
}


def test_columns_make_a_model_where_nothing_is_wrong(damaged: Path) -> None:
    damaged.write_bytes(FEW)
    tensors, content = storage.load(damaged)
    assert tensors["n_columns"].tolist() == [2, 2]
    equal = ClassMoments(6).update(torch.ones(2, 6), [0, 1])
    assert equal.to_tensors()["n_columns"].tolist() == [1, 1]
    storage.save(damaged, tensors | equal.to_tensors(), content)
    assert ReduNetClassifier.load(damaged).moments_ == equal


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_columns_that_make_no_model_are_refused(damaged: Path, case: str) -> None:
    damaged.write_bytes(FEW)
    tensors, content = storage.load(damaged)
    storage.save(damaged, tensors | WRONG_COLUMNS[case], content)
    assert refusal(damaged)
