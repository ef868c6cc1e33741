"""The cost model of benchmarks/scale.md: sizes are those of moments, its page of its record."""

from __future__ import annotations

import pickle

import pytest

from benchmarks.scale import Constants, Job, held, packed
from benchmarks.scale_page import PAGE, filled, of_files, of_ranks, size, span
from redunet import ReduNetClassifier
from redunet.distributed.partial import Partial
from tests.conftest import classes_on_subspaces


@pytest.mark.parametrize("per_class", [5, 80])
def test_sizes_are_those_of_moments(per_class: int) -> None:
    d, k = 24, 3
    X, y = classes_on_subspaces(k=k, d=d, per_class=per_class, rank=d)
    moments = ReduNetClassifier().fit(X, y).moments_
    on_the_wire = sum(tensor.nbytes for tensor in moments.to_tensors().values())
    # Where classes are held by columns, also which columns these are.
    places = 8 * k * (per_class + 1) if per_class < d / 2 else 0
    assert on_the_wire == k * packed(d, per_class) + places
    job = Job(k * per_class, d, k, 2)
    assert job.file_bytes == k * packed(d, per_class)
    assert job.memory_bytes == k * held(d, per_class)
    assert len(pickle.dumps(Partial(moments, d))) == pytest.approx(on_the_wire, abs=2000)


def test_workers_share_samples_and_not_sums() -> None:
    c = Constants(1e-11, 0.0, 0.0, 0.0, 1e-9, 0.0, float("inf"))
    one, ten = Job(1e9, 1000, 10, 1), Job(1e9, 1000, 10, 10)
    assert one.seconds(c) == pytest.approx(1e9 * 1e6 * 1e-11 + 2 * 10 * 8e6 * 1e-9)
    assert ten.seconds(c) == pytest.approx(1e9 * 1e6 * 1e-11 / 10 + 6 * 10 * 8e6 * 1e-9)
    assert (one.messages, ten.messages) == (1, 40)
    assert ten.processor_seconds(c) == pytest.approx(1e4 + 39 * 10 * 8e6 * 1e-9)
    by_class = Job(1e9, 1000, 10, 10, by_class=True)
    assert by_class.worker_bytes * 40 == by_class.memory_bytes


def test_numbers_for_people() -> None:
    assert [size(n) for n in (2.4e6, 2.37e9, 1.41e12)] == ["2.4 MB", "2.37 GB", "1.41 TB"]
    found = [span(seconds) for seconds in (83, 144, 3600 * 5.5, 86_400 * 40)]
    assert found == ["83 s", "2.4 min", "5.5 h", "40 days"]


def test_the_page_is_that_of_the_records() -> None:
    text = PAGE.read_text()
    assert filled(text) == text


def test_records_of_other_benchmarks_are_compared_too() -> None:
    c = Constants(2e-11, 0.0, 0.0, 0.0, 0.0, 0.0, float("inf"))
    files = [
        {"case": "learn 1,000,000 × 512 float32 from Parquet, one process", "measured": 10.0},
        {"case": "learn 1,000,000 × 512 float32 from Parquet, 2 workers", "measured": 8.0},
    ]
    lines = of_files(files, 10, c).splitlines()[2:]
    assert [line.split(" | ")[1:] for line in lines] == [
        ["10.0", "5.2", "1.91 |"],
        ["8.0", "2.6", "3.05 |"],
    ]
    rows = [
        {
            "case": "200 classes of 600 samples, d 512",
            "ranks": 2,
            "beyond_imports": 3e8,
            "build": 5.0,
        },
        {
            "case": "2,000 classes of 40 samples, d 512",
            "ranks": 4,
            "beyond_imports": 1e8,
            "build": 1.0,
        },
    ]
    found = {"machine": {"settings": {"n_layers": 3}}, "rows": rows}
    dense, few = of_ranks(found, c).splitlines()[2:]
    assert dense.split(" | ")[1:] == ["2", "210 MB", "300 MB", "3.23 s", "5.00 s", "1.55 |"]
    assert few.split(" | ")[1:] == ["4", "81.9 MB", "100 MB", "", "1.00 s", " |"]
