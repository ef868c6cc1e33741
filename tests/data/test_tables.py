"""CSV and Parquet as people have them: orders, delimiters, encodings, columns that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from redunet.data import ReadOptions, csv_files, open_source
from redunet.data.source import Batch, Source, read_once, reading
from redunet.data.tables import Table
from redunet.errors import DataError, FileAccessError
from redunet.safety.untrusted import open_regular
from tests.own_data import COLUMNS, done, redunet, refused, table, write_csv

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = range(20)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_are_matched_by_name(tmp_path: Path, kind: str) -> None:
    write = pyarrow.parquet.write_table if kind == "parquet" else pyarrow.csv.write_csv
    first, second = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"
    write(table(range(10)), first)
    write(table(range(10, 20)), second)
    done("learn", tmp_path / "usual", first, second)
    write(table(range(10, 20)).select(["label", *reversed(COLUMNS)]), second)
    done("learn", tmp_path / "at-once", first, second)
    done("learn", tmp_path / "later", first)
    done("learn", tmp_path / "later", second)
    assert (tmp_path / "at-once").read_bytes() == (tmp_path / "usual").read_bytes()
    assert (tmp_path / "later").read_bytes() == (tmp_path / "usual").read_bytes()
    predicted = [done("predict", tmp_path / "usual", path).stdout for path in (second,)]
    write(table(range(10, 20)), second)
    assert predicted == [done("predict", tmp_path / "usual", second).stdout]


@pytest.mark.parametrize(
    ("delimiter", "decimal", "encoding", "newline"),
    [
        (";", ".", "utf-8", "\n"),
        (";", ",", "utf-8", "\r\n"),
        ("\t", ".", "utf-8", "\n"),
        (",", ".", "utf-8-sig", "\r\n"),
        (",", ".", "utf-16", "\n"),
        ("\t", ".", "utf-16-be", "\r\n"),
    ],
)
def test_delimiters_and_encodings_are_found_out(
    tmp_path: Path, delimiter: str, decimal: str, encoding: str, newline: str
) -> None:
    rows = [["été", "a,b", "label"], ["1.5", "-2", "x"], ["0.25", "3", "y"], ["1", "1e3", "x"]]
    usual = "\n".join(",".join(f'"{value}"' for value in row) for row in rows) + "\n"
    (tmp_path / "usual.csv").write_text(usual, encoding="utf-8")
    lines = [f'été{delimiter}"a,b"{delimiter}label']
    lines += [delimiter.join(row).replace(".", decimal) for row in rows[1:]]
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "t.csv").write_bytes((mark + newline.join(lines) + newline).encode(encoding))
    done("learn", tmp_path / "usual", tmp_path / "usual.csv")
    done("learn", tmp_path / "m", tmp_path / "t.csv")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "usual").read_bytes()


def test_an_index_column_is_pointed_out(tmp_path: Path) -> None:
    lines = write_csv(tmp_path / "t", ROWS).read_text().splitlines()
    numbered = [
        ",".join([head, line]) for head, line in zip(['""', *map(str, ROWS)], lines, strict=False)
    ]
    (tmp_path / "t.csv").write_text("\n".join(numbered) + "\n")
    result = redunet("learn", tmp_path / "m", tmp_path / "t.csv")
    assert result.exit_code == 0
    assert "column '' of" in result.stderr
    assert "is called like row numbers, and is taken as a feature" in result.stderr
    lines = write_csv(tmp_path / "t", ROWS).read_text().splitlines()
    assert "row numbers" not in redunet("learn", tmp_path / "n", tmp_path / "t.csv").stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_label_column_is_known_by_the_columns_of_the_model(tmp_path: Path, kind: str) -> None:
    write = pyarrow.parquet.write_table if kind == "parquet" else pyarrow.csv.write_csv
    usual, own = tmp_path / f"usual.{kind}", tmp_path / f"own.{kind}"
    write(table(ROWS), usual)
    write(table(ROWS).rename_columns({"label": "species"}), own)
    assert "name it with --label" in refused("learn", tmp_path / "m", own)
    done("learn", tmp_path / "m", own, "--label", "species", "--set", "n_layers=2")
    done("learn", tmp_path / "usual", usual, "--set", "n_layers=2")
    # What the labels were called leaves no trace.
    once = (tmp_path / "m").read_bytes()
    assert once == (tmp_path / "usual").read_bytes()
    for command in ("learn", "unlearn", "evaluate"):
        said = redunet(command, tmp_path / "m", own)
        assert said.exit_code == 0
        assert f"the labels are those of column 'species' of {own}, the only one" in said.stderr
    assert (tmp_path / "m").read_bytes() == once
    assert "labels" not in redunet("evaluate", tmp_path / "m", usual).stderr
    given = [done("predict", tmp_path / "m", path).stdout for path in (usual, own)]
    assert given[0] == given[1]
    done("report", tmp_path / "m", "--samples", own, "-o", tmp_path / "page.html")
    assert f" of 20 samples of {own} correctly" in (tmp_path / "page.html").read_text()
    # A column of row numbers is none of labels, and of two none is chosen.
    write(table(ROWS).rename_columns({"label": "id"}), own)
    assert "name it with --label" in refused("learn", tmp_path / "m", own)
    write(table(ROWS).rename_columns({"label": "a"}).append_column("b", [["x"] * 20]), own)
    assert "name it with --label" in refused("evaluate", tmp_path / "m", own)


def test_one_long_label_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    # 100,000 rows of one label of 8 MB: 800 GB, were it written out for each.
    label = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), ["a" * 2**23])
    path = tmp_path / "t.parquet"
    columns = {"y": label, "a": np.zeros(100_000), "b": np.ones(100_000)}
    pyarrow.parquet.write_table(pa.table(columns), path, compression="zstd")
    assert path.stat().st_size < 15_000
    pa.default_memory_pool().release_unused()
    assert "got one of over 64 kB" in refused("learn", tmp_path / "m", path)
    assert pa.total_allocated_bytes() < 2**26
    assert pa.default_memory_pool().max_memory() < 2**28


def test_a_footer_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    """PyArrow ends the process where it is asked for some of these columns."""
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [1.0, 2.0], "y": ["p", "q"]}), path)
    raw = path.read_bytes()
    footer = int.from_bytes(raw[-8:-4], "little")
    refusals = 0
    for at in range(len(raw) - 8 - footer, len(raw) - 8):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        try:
            for batch in open_source(path, ReadOptions()).batches():
                assert batch.X.shape == (2, 1)
        except (DataError, FileAccessError):
            refusals += 1
    assert 0 < refusals < footer


def test_a_dictionary_that_lacks_a_label_is_refused(tmp_path: Path) -> None:
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 2]), ["p", "q"], safe=False)
    table = pa.table({"a": [1.0, 2.0], "y": labels})
    source = Table(tmp_path / "t.parquet", ("a",), "y")
    with (
        pytest.raises(DataError, match=r"t\.parquet is not a Parquet file, or is damaged: .*2"),
        reading(tmp_path / "t.parquet", "a Parquet file"),
    ):
        list(source.batches(iter([(table, 1.0)])))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("y;a;b\np;1,5;2\nq;3,5;two\n", "column 'b' of {}, got 'two' in row 2"),
        ("y,a,b\np, 1 ,2\nq,,1.5x\n", "column 'b' of {}, got '1.5x' in row 2"),
        ("y,a,b\np,1,2\nq,2020-01-31,3\n", "column 'a' of {}, got '2020-01-31'"),
        ("y,a,b\np,1,2\nq,true,3\n", "column 'a' of {}, got 'true'"),
    ],
)
def test_a_value_that_is_no_number_is_named(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert wanted.format(path) in refused("learn", tmp_path / "m", path)


def test_errors_of_ours_do_not_read_as_damage(tmp_path: Path) -> None:
    for error in (RuntimeError, AttributeError, TypeError, KeyError, AssertionError, MemoryError):
        with pytest.raises(error), reading(tmp_path / "t", "a table"):
            raise error("of ours")
    with pytest.raises(DataError, match="t is not a table, or is damaged: no"):  # noqa: SIM117
        with reading(tmp_path / "t", "a table"):
            raise ValueError("no")


@pytest.mark.parametrize("recipe", ["vectors", "tables"])
def test_a_csv_file_is_opened_once_to_sniff_and_once_to_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    opened = []

    def counted(path: Path) -> object:
        opened.append(path)
        return open_regular(path)

    monkeypatch.setattr(csv_files, "open_regular", counted)
    done("learn", tmp_path / "m", write_csv(tmp_path / "t", ROWS), "--recipe", recipe)
    assert len(opened) == 2


def test_batches_stay_in_memory_only_where_there_is_room() -> None:
    times = list[int]()

    def batches() -> Iterator[Batch]:
        times.append(len(times))
        for index in range(3):
            yield Batch(np.full((2, 4), index), None, ["1", "2"], 1.0)

    for room, readings in ((10**6, 1), (0, 2)):
        source = read_once(Source(Path("x"), batches), room)
        assert next(source.batches()).X[0, 0] == 0
        for _ in range(2):
            assert [batch.X[0, 0] for batch in source.batches()] == [0, 1, 2]
        assert len(times) == readings
        times.clear()
