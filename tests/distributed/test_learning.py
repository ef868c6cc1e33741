"""Learning on a Dask cluster of real processes: the same file, whatever happens to workers."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from redunet import (
    DataError,
    EnsembleClassifier,
    LearntFeaturesWarning,
    ReduNetClassifier,
    SettingsError,
)
from redunet.distributed import learn, unlearn
from redunet.distributed.cluster import local_client
from redunet.estimators import Ridge
from redunet.features import Flatten, Standardize, Together
from redunet_lab.closed_forms import RanPAC
from tests.conftest import classes_on_subspaces
from tests.own_data import WRITERS, done, refused, write_csv, write_npz, write_parquet

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from distributed.utils import get_mp_context  # noqa: E402

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)
FRAME = pd.DataFrame(X, columns=[f"v{index}" for index in range(12)])
ROWS = range(60)


METHOD = "distributed.worker.multiprocessing-method"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    # Forked from one process that has loaded all, in place of eight that each load it.
    with dask.config.set({METHOD: "forkserver"}):
        context = get_mp_context()
        context.set_forkserver_preload(["distributed", "dask.dataframe", "redunet.distributed"])
        with local_client(8) as opened:
            yield opened


@pytest.fixture
def usual_start() -> Iterator[None]:
    """Worker processes that start as they do for users."""
    with dask.config.set({METHOD: "spawn"}):
        yield


def arrays(*chunks: Any) -> tuple[Any, Any]:
    return da.from_array(X, chunks=(*chunks, 5)), da.from_array(Y, chunks=50)


def file_hash(model: Any, folder: Path) -> str:
    model.save(folder / "hashed")
    return hashlib.sha256((folder / "hashed").read_bytes()).hexdigest()


def plain(X: Any = X, y: Any = Y) -> ReduNetClassifier:
    return ReduNetClassifier().fit(X, y)


def test_arrays_frames_and_bags_give_the_same_file(client: Any, tmp_path: Path) -> None:
    wanted = file_hash(plain(), tmp_path)
    for chunks in (120, 13, (1, 60, 59)):
        assert file_hash(learn(ReduNetClassifier(), arrays(chunks), client), tmp_path) == wanted
    filtered = arrays(20)[0][arrays(20)[1].rechunk(20) < 3], arrays(20)[1][arrays(20)[1] < 3]
    filtered = filtered[0], filtered[1].compute_chunk_sizes().rechunk(7)
    filtered = filtered[0].compute_chunk_sizes(), filtered[1]
    model = learn(ReduNetClassifier(), filtered, client)
    assert model.moments_ == plain(X[Y < 3], Y[Y < 3]).moments_
    bag = db.from_sequence([(x, int(y)) for x, y in zip(X, Y, strict=True)], npartitions=4)
    assert file_hash(learn(ReduNetClassifier(), bag, client), tmp_path) == wanted
    words = FRAME.assign(kind=[f"c{label}" for label in Y])
    frame = dd.from_pandas(words, npartitions=5)
    model = learn(ReduNetClassifier(), frame, client, label="kind")
    expected = file_hash(plain(FRAME, words["kind"]), tmp_path)
    assert file_hash(model, tmp_path) == expected
    unlearn(model, dd.from_pandas(words.iloc[30:90], npartitions=2), client, label="kind")
    rest = [*range(30), *range(90, 120)]
    assert model.moments_ == plain(FRAME.iloc[rest], words["kind"].iloc[rest]).moments_
    # In two calls, with an empty partition, and columns in another order.
    some = dd.from_pandas(words.iloc[30:90][[*words.columns[::-1]]], npartitions=3)
    learn(model, dd.concat([some, some[some["v0"] > 1e9]]), client, label="kind")
    assert file_hash(model, tmp_path) == expected


def test_feature_maps_and_other_estimators(client: Any, tmp_path: Path) -> None:
    images = np.abs(X).reshape(-1, 3, 4)
    features = Standardize.learn(images)
    data = da.from_array(images, chunks=(50, 2, 2)), da.from_array(Y)
    model = learn(Ridge(features=features), data, client)
    assert file_hash(model, tmp_path) == file_hash(
        Ridge(features=features).fit(images, Y), tmp_path
    )
    wide = learn(RanPAC(n_projections=20), arrays(50), client)  # has a map of its own
    assert file_hash(wide, tmp_path) == file_hash(RanPAC(n_projections=20).fit(X, Y), tmp_path)
    two = EnsembleClassifier(Ridge(), features=Together((Flatten((3, 4)), features)))
    whole = file_hash(clone(two).fit(images, Y), tmp_path)
    assert file_hash(learn(two, data, client), tmp_path) == whole
    with pytest.warns(LearntFeaturesWarning):
        unlearn(two, (data[0][:30], data[1][:30]), client)
    assert file_hash(two, tmp_path) == file_hash(clone(two).fit(images[30:], Y[30:]), tmp_path)


def test_files_that_workers_open(client: Any, tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        (tmp_path / name).mkdir()
        first, second = (
            write(tmp_path / name / "1", ROWS[:25]),
            write(tmp_path / name / "2", ROWS[25:]),
        )
        done("learn", tmp_path / "plain", first, second)
        done("learn", tmp_path / name / "m", first, second, "--scheduler", client.scheduler.address)
        expected = (tmp_path / "plain").read_bytes()
        assert (tmp_path / name / "m").read_bytes() == expected
        model = learn(ReduNetClassifier(), [first, second], client)
        assert model.moments_ == ReduNetClassifier.load(tmp_path / "plain").moments_
        done("unlearn", tmp_path / "plain", second)
        done("unlearn", tmp_path / name / "m", second, "--scheduler", client.scheduler.address)
        assert (tmp_path / name / "m").read_bytes() == (tmp_path / "plain").read_bytes()
        (tmp_path / "plain").unlink()


def test_a_fault_is_one_line_and_the_model_stays(client: Any, tmp_path: Path) -> None:
    model = plain()
    before = file_hash(model, tmp_path)
    bad = X.copy()
    bad[60, 3] = np.nan
    labels = da.from_array(Y, chunks=20)
    faults: list[tuple[Any, str]] = [
        ((da.from_array(bad, chunks=(20, 12)), labels), "partition 4 of 6: Input contains NaN"),
        ((da.from_array(X[:, :7], chunks=(60, 7)), labels), "of 2: X has 7 features"),
        ((da.from_array(X, chunks=20), labels.astype(str)), "all int or all str"),
        ((da.from_array(X, chunks=20), labels[:5]), "one label for each of 120 samples, got 5"),
        ((arrays(40)[0].map_blocks(_fails, meta=X), Y), "expected two Dask arrays"),
        (
            (arrays(40)[0].map_blocks(_fails, meta=X), labels),
            "of 3 could not be computed: ZeroDivisionError: division by zero",
        ),
        (dd.from_pandas(FRAME.assign(label=Y), npartitions=1), "without column names"),
        (dd.from_pandas(FRAME, npartitions=1), "to hold the labels of the data frame"),
        (db.from_sequence([1, 2]), "expected a bag of pairs"),
        ((arrays(40)[0][:0], labels[:0]), "expected at least one sample, got none"),
        ((X, Y), "expected two Dask arrays"),
    ]
    for data, said in faults:
        with pytest.raises(DataError, match=said) as caught:
            learn(model, data, client)
        assert "\n" not in str(caught.value)
        assert file_hash(model, tmp_path) == before
    with pytest.raises(DataError, match="expected samples that were learnt before"):
        unlearn(model, (da.from_array(X + 5, chunks=20), labels), client)
    with pytest.raises(SettingsError, match="expected client=None or a"):
        learn(model, arrays(40), "tcp://somewhere")
    assert file_hash(model, tmp_path) == before


def test_the_demonstration_ends_in_the_files_of_one_process(tmp_path: Path) -> None:
    assert "workers end in are identical" in done("demo", "--workers", 2, "--out", tmp_path).stdout
    record = json.loads((tmp_path / "record.json").read_text())
    assert record["workers"] == {
        "number": 2,
        "before": record["forget"]["before"],
        "after": record["forget"]["never_seen"],
    }
    saved = hashlib.sha256((tmp_path / "digits.safetensors").read_bytes()).hexdigest()
    assert saved == record["workers"]["before"]


def test_partitions_that_disagree_with_each_other(client: Any) -> None:
    mixed = db.from_sequence([(X[0], 1), (X[1], "one")], npartitions=2)
    with pytest.raises(DataError, match="all int or all str, got int and str"):
        learn(ReduNetClassifier(), mixed, client)
    widths = db.from_sequence([(X[0], 1), (X[1, :5], 1)], npartitions=2)
    with pytest.raises(
        DataError, match=r"as many values in all partitions, got (12 and 5|5 and 12)"
    ):
        learn(ReduNetClassifier(), widths, client)


def test_a_worker_of_another_version(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redunet._version.__version__", "9.9")
    with pytest.raises(DataError, match=r"expected redunet 9\.9 on every worker, got 0"):
        learn(ReduNetClassifier(), arrays(40), client)


def test_a_bad_file_is_named_and_nothing_changes(client: Any, tmp_path: Path) -> None:
    address = client.scheduler.address
    good, other = write_csv(tmp_path / "good", ROWS), write_csv(tmp_path / "other", ROWS)
    done("learn", tmp_path / "m", good)
    before = (tmp_path / "m").read_bytes()
    lines = other.read_text().splitlines()
    lines[7] = lines[7].replace(lines[7].split(",")[0], "nan", 1)
    other.write_text("\n".join(lines))
    said = refused("learn", tmp_path / "m", good, other, "--scheduler", address)
    assert said == refused("learn", tmp_path / "m", good, other)
    assert f"{other}, row 7, column 'v0': Input" in said
    narrow = tmp_path / "narrow.csv"
    narrow.write_text("v0,label\n1,ant\n")
    assert "lacks 'v1'" in refused("learn", tmp_path / "m", narrow, "--scheduler", address)
    npz = write_npz(tmp_path / "z", ROWS)
    assert "without column names" in refused("learn", tmp_path / "m", npz, "--scheduler", address)
    assert (tmp_path / "m").read_bytes() == before


def test_where_no_scheduler_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redunet.distributed.cluster.CONNECT_SECONDS", 0.2)
    data = write_csv(tmp_path / "data", ROWS)
    for address in ("tcp://127.0.0.1:9", "nonsense://here"):
        said = refused("learn", tmp_path / "m", data, "--scheduler", address)
        assert said.startswith(f"expected a Dask scheduler at {address}, got no answer")
    said = refused("learn", tmp_path / "m", data, "--scheduler", "x", "--workers", 2)
    assert said.startswith("expected --workers or --scheduler, got both")
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = refused("learn", tmp_path / "m", data, "--workers", 2)
    assert said.endswith("pip install 'redunet[dask]'")
    assert not (tmp_path / "m").exists()


@pytest.mark.usefixtures("usual_start")
def test_the_environment_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with local_client(2):
        pass
    assert dict(os.environ) == before


def test_any_number_of_workers(client: Any, tmp_path: Path) -> None:
    wanted = file_hash(plain(), tmp_path)
    for n_workers in (8, 3, 2, 1):
        client.cluster.scale(n_workers)
        _wait(partial(_has_workers, client, n_workers))
        for chunks in (7, (1, 60, 59)):
            assert file_hash(learn(ReduNetClassifier(), arrays(chunks), client), tmp_path) == wanted


def test_a_killed_worker_counts_nothing_twice(client: Any, tmp_path: Path) -> None:
    samples, labels = arrays(10)
    slow = samples.rechunk((10, 12)).map_blocks(_slow, folder=tmp_path, meta=X)
    killed: list[int] = []

    def kill() -> None:
        _wait(lambda: len(list(tmp_path.iterdir())) >= 2)
        killed.append(int(next(iter(tmp_path.iterdir())).name.partition("-")[0]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    model = learn(ReduNetClassifier(), (slow, labels), client)
    killer.join()
    assert killed[0] not in client.run(os.getpid).values()
    assert model.moments_ == plain().moments_


def test_workers_that_are_killed_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    data = write_csv(tmp_path / "data", ROWS)
    with dask.config.set({"distributed.worker.preload": [str(tmp_path / "killed.py")]}):
        said = refused("learn", tmp_path / "m", data, "--workers", 2)
    assert said.startswith("expected 2 worker processes to start, but one ended before it had (")
    assert said.endswith("): try again, with fewer workers or more free memory")
    assert not (tmp_path / "m").exists()


def test_data_that_kills_every_worker(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    samples, labels = arrays(60)
    deadly = samples.rechunk((60, 12)).map_blocks(_kills, meta=X)
    model = plain()
    with pytest.raises(DataError, match=r"^partition . of 2: the workers that read it died"):
        learn(model, (deadly, labels), client)
    assert model.moments_ == plain().moments_


def test_ctrl_c_leaves_no_process_and_the_file_as_it_was(tmp_path: Path) -> None:
    data = write_parquet(tmp_path / "data", ROWS)
    words = [sys.executable, "-m", "redunet", "learn", str(tmp_path / "m"), str(data)]
    command = subprocess.Popen(
        [*words, "--workers", "2"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    parent = psutil.Process(command.pid)
    _wait(lambda: len(parent.children(recursive=True)) >= 3)  # with one that watches resources
    workers = parent.children(recursive=True)
    os.killpg(command.pid, signal.SIGINT)
    said = command.communicate()[1]
    assert (command.returncode, said) == (1, f"redunet: stopped; {tmp_path / 'm'} is as it was\n")
    assert not (tmp_path / "m").exists()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []


@pytest.mark.usefixtures("usual_start")
def test_worker_processes_for_one_command(tmp_path: Path) -> None:
    data = write_parquet(tmp_path / "data", ROWS)
    done("learn", tmp_path / "m", data, "--workers", 2)
    done("learn", tmp_path / "plain", data)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()


def _wait(for_what: Callable[[], bool]) -> None:
    for _ in range(6000):
        if for_what():
            return
        time.sleep(0.01)
    raise TimeoutError


def _has_workers(client: Any, n_workers: int) -> bool:
    return len(client.nthreads()) == n_workers


def _fails(block: Any) -> Any:
    return 1 / 0


def _slow(block: Any, folder: Path) -> Any:
    (folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.2)
    return block


def _kills(block: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
