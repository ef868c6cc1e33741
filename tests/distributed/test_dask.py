"""Learning on a Dask cluster of real processes: the same file, whatever happens to workers."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import DataError, ReduNetClassifier, SettingsError
from redunet.distributed import learn, unlearn
from redunet.distributed.dask_cluster import local_client
from redunet.estimators import Ridge
from redunet.features import Standardize
from tests.conftest import classes_on_subspaces
from tests.own_data import WRITERS, done, refused, write_csv, write_npz, write_parquet

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")
import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from distributed.utils import get_mp_context  # noqa: E402

X, Y = classes_on_subspaces(k=5, d=12, per_class=24, rank=3)
FRAME = pd.DataFrame(X, columns=[f"v{index}" for index in range(12)])
ROWS = range(60)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    # Forked from one process that has loaded all, in place of three that each load it.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        context = get_mp_context()
        context.set_forkserver_preload(["distributed", "dask.dataframe", "redunet.distributed"])
        with local_client(3) as opened:
            yield opened


def arrays(*chunks: Any) -> tuple[Any, Any]:
    return da.from_array(X, chunks=(*chunks, 5)), da.from_array(Y, chunks=50)


def file_hash(model: Any, folder: Path) -> str:
    model.save(folder / "hashed")
    return hashlib.sha256((folder / "hashed").read_bytes()).hexdigest()


def plain(X: Any = X, y: Any = Y) -> ReduNetClassifier:
    return ReduNetClassifier().fit(X, y)


def test_arrays_and_frames_give_the_same_file(client: Any, tmp_path: Path) -> None:
    wanted = file_hash(plain(), tmp_path)
    for chunks in (120, 13, (1, 60, 59)):
        assert file_hash(learn(ReduNetClassifier(), arrays(chunks), client), tmp_path) == wanted
    words = FRAME.assign(kind=[f"c{label}" for label in Y])
    frame = dd.from_pandas(words, npartitions=5)
    model = learn(ReduNetClassifier(), frame, client, label="kind")
    expected = file_hash(plain(FRAME, words["kind"]), tmp_path)
    assert file_hash(model, tmp_path) == expected
    unlearn(model, dd.from_pandas(words.iloc[30:90], npartitions=2), client, label="kind")
    rest = [*range(30), *range(90, 120)]
    assert model.moments_ == plain(FRAME.iloc[rest], words["kind"].iloc[rest]).moments_
    # With an empty partition, and columns in another order.
    some = dd.from_pandas(words.iloc[30:90][[*words.columns[::-1]]], npartitions=3)
    learn(model, dd.concat([some, some[some["v0"] > 1e9]]), client, label="kind")
    assert file_hash(model, tmp_path) == expected


def test_feature_maps(client: Any, tmp_path: Path) -> None:
    images = np.abs(X).reshape(-1, 3, 4)
    features = Standardize.learn(images)
    data = da.from_array(images, chunks=(50, 2, 2)), da.from_array(Y)
    model = learn(Ridge(features=features), data, client)
    assert file_hash(model, tmp_path) == file_hash(
        Ridge(features=features).fit(images, Y), tmp_path
    )


def test_files_that_workers_open(client: Any, tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        (tmp_path / name).mkdir()
        first, second = (
            write(tmp_path / name / "1", ROWS[:25]),
            write(tmp_path / name / "2", ROWS[25:]),
        )
        done("learn", tmp_path / "plain", first, second)
        done("learn", tmp_path / name / "m", first, second, "--scheduler", client.scheduler.address)
        assert (tmp_path / name / "m").read_bytes() == (tmp_path / "plain").read_bytes()
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
        ((da.from_array(X, chunks=20), labels.astype(str)), "all int or all str"),
        ((da.from_array(X, chunks=20), labels[:5]), "one label for each of 120 samples, got 5"),
        (
            (arrays(40)[0].map_blocks(_fails, meta=X), labels),
            "of 3 could not be computed: ZeroDivisionError: division by zero",
        ),
        (dd.from_pandas(FRAME, npartitions=1), "to hold the labels of the data frame"),
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


def test_partitions_that_disagree_with_each_other(client: Any) -> None:
    labels = da.from_array(np.array([1, 2, "one", "two"], dtype=object), chunks=2)
    with pytest.raises(DataError, match="all int or all str, got int and str"):
        learn(ReduNetClassifier(), (da.from_array(X[:4], chunks=(2, 12)), labels), client)


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
    npz = write_npz(tmp_path / "z", ROWS)
    assert "without column names" in refused("learn", tmp_path / "m", npz, "--scheduler", address)
    assert (tmp_path / "m").read_bytes() == before


def test_where_no_scheduler_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redunet.distributed.dask_cluster.CONNECT_SECONDS", 0.2)
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


def test_data_that_kills_every_worker(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    samples, labels = arrays(60)
    deadly = samples.rechunk((60, 12)).map_blocks(_kills, meta=X)
    model = plain()
    with pytest.raises(DataError, match=r"^partition . of 2: the workers that read it died"):
        learn(model, (deadly, labels), client)
    assert model.moments_ == plain().moments_


def test_processes_for_one_command_and_ctrl_c(tmp_path: Path) -> None:
    data = write_parquet(tmp_path / "data", ROWS)
    done("learn", tmp_path / "plain", data)
    words = [sys.executable, "-m", "redunet", "learn", str(tmp_path / "m"), str(data)]
    words += ["--workers", "2"]
    command = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    parent = psutil.Process(command.pid)
    _wait(lambda: len(parent.children(recursive=True)) >= 3)  # with one that watches resources
    workers = parent.children(recursive=True)
    os.killpg(command.pid, signal.SIGINT)
    said = command.communicate()[1]
    assert (command.returncode, said) == (1, f"redunet: stopped; {tmp_path / 'm'} is as it was\n")
    assert not (tmp_path / "m").exists()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
    subprocess.run(words, check=True, capture_output=True)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()


def _wait(for_what: Callable[[], bool]) -> None:
    for _ in range(6000):
        if for_what():
            return
        time.sleep(0.01)
    raise TimeoutError


def _fails(block: Any) -> Any:
    return 1 / 0


def _slow(block: Any, folder: Path) -> Any:
    (folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.2)
    return block


def _kills(block: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
