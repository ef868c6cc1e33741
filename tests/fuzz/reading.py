"""Damaged and hostile data of every kind that is read: it is read, or refused in one line.

``python -m tests.fuzz.reading 1000 7`` forges a thousand files of each kind from seed 7,
and prints how many were read, refused, and at fault. A fault is any other error, a
message of several lines, more than `LONGEST_S` seconds, or `MOST_BYTES` of memory.
"""

from __future__ import annotations

import gzip
import io
import resource
import signal
import struct
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from PIL import Image

from redunet.data import ReadOptions, open_source
from redunet.errors import ReduNetError
from redunet_lab.datasets import files, idx

LONGEST_S = 60
MOST_BYTES = 2**29

Random = np.random.Generator


class _TooSlowError(BaseException):
    """A case that took too long; no library may swallow it."""


def forge(n: int, seed: int) -> dict[str, Counter[str]]:
    """Read n forged files of each kind.

    Parameters
    ----------
    n : int
    seed : int

    Returns
    -------
    dict from kind to counts of "read", "refused" and "fault: ..."
    """
    counts = {kind: Counter[str]() for kind in KINDS}
    with tempfile.TemporaryDirectory() as name:
        for number, (kind, (make, read)) in enumerate(KINDS.items()):
            random = np.random.default_rng([seed, number])
            whole = make(random)
            for index in range(n):
                raw = whole[index] if index < len(whole) else _damaged(whole, random)
                counts[kind][_outcome(read, raw, Path(name))] += 1
    return counts


def _outcome(read: Callable[[bytes, Path], None], raw: bytes, folder: Path) -> str:
    before = _most_memory()
    try:
        with _limited():
            read(raw, folder)
        outcome = "read"
    except ReduNetError as error:
        lines = str(error).splitlines()  # control characters are escaped where they are printed
        outcome = "refused" if len(lines) == 1 else f"fault: not one line, {error!r}"
    except (Exception, RecursionError, _TooSlowError) as error:  # noqa: BLE001 - that is the question
        outcome = f"fault: {type(error).__name__}: {error}"
    if _most_memory() - before > MOST_BYTES:
        outcome = f"fault: {(_most_memory() - before) / 1e6:.0f} MB for {len(raw)} bytes"
    return outcome


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> NoReturn:
        raise _TooSlowError(f"more than {LONGEST_S} s")

    usual = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)


def _damaged(whole: list[bytes], random: Random) -> bytes:
    """A sound file with bytes changed, cut out, repeated, or made to claim much."""
    raw = bytearray(whole[random.integers(len(whole))])
    for _ in range(random.integers(1, 5)):
        if not raw:
            break
        at, length = int(random.integers(len(raw))), int(random.integers(1, 9))
        match int(random.integers(7)):
            case 0:
                raw[at] ^= 1 << int(random.integers(8))
            case 1:
                raw[at : at + length] = random.bytes(length)
            case 2:
                del raw[at : at + length]
            case 3:
                raw[at:at] = raw[at : at + 50 * length]
            case 4:
                raw[at : at + length] = b"\xff" * length
            case 5:
                raw[at : at + 4] = struct.pack("<I", int(random.choice([0, 1, 2**16, 2**31 - 1])))
            case 6:
                other = whole[random.integers(len(whole))]
                raw[at:] = other[int(random.integers(len(other) + 1)) :]
    return bytes(raw)


# How each kind is read


def _as_file(ending: str, labels: bool = True) -> Callable[[bytes, Path], None]:
    def read(raw: bytes, folder: Path) -> None:
        path = folder / f"data{ending}"
        path.write_bytes(raw)
        wanted = ReadOptions()
        if ending == ".npy":
            np.save(folder / "labels.npy", np.arange(len(_X)))
            wanted = ReadOptions(label=str(folder / "labels.npy"))
        for batch in open_source(
            path, wanted if labels else ReadOptions(labels="ignored")
        ).batches():
            assert len(batch.X)

    return read


def _as_image(raw: bytes, folder: Path) -> None:
    path = folder / "image.png"
    path.write_bytes(raw)
    for wanted in (
        ReadOptions(labels="ignored"),
        ReadOptions(labels="ignored", shape=(8, 8, 3), resize=True),
    ):
        for batch in open_source(path, wanted).batches():
            assert batch.X.dtype == np.uint8


def _as_idx(raw: bytes, folder: Path) -> None:
    path = folder / ("x.gz" if raw.startswith(b"\x1f") else "x")
    path.write_bytes(raw)
    idx.decode(files.read_file(path, 4096), (6, 4), "x")


# Sound files, and some that only claim much

_X = np.arange(24, dtype=np.float64).reshape(6, 4)
_Y = np.array(["a", "b", "c", "a", "b", "c"])


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _header(text: str) -> bytes:
    raw = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw


def _npys(_: Random) -> list[bytes]:
    claims = [
        ("<f8", "(6, 999999999999)"),
        ("<f8", "(999999999999, 4)"),
        ("<U99999999", "(6, 4)"),
        ("<f8", "(-6, -4)"),
        ("|O", "(6, 4)"),
    ]
    return [
        _npy(_X),
        _npy(np.asfortranarray(_X)),
        _npy(_X.astype(np.uint8).reshape(6, 2, 2)),
        *(
            _header(f"{{'descr': '{of}', 'fortran_order': {fortran}, 'shape': {shape}}}")
            for of, shape in claims
            for fortran in (False, True)
        ),
        _header("(" * 110),
    ]


def _npzs(_: Random) -> list[bytes]:
    whole = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            archive.writestr("X.npy", _npy(_X))
            archive.writestr("y.npy", _npy(_Y))
        whole.append(stream.getvalue())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(300):
            archive.writestr(f"{index}.npy", _npy(np.zeros((6, 4))))
    return [*whole, stream.getvalue()]


def _table(labels: Any) -> Any:
    return pa.table({**{f"c{index}": _X[:, index] for index in range(4)}, "label": labels})


def _csvs(_: Random) -> list[bytes]:
    stream = io.BytesIO()
    pyarrow.csv.write_csv(_table(_Y), stream)
    usual = stream.getvalue()
    return [
        usual,
        usual.replace(b",", b";"),
        usual.replace(b",", b"\t"),
        usual.decode().encode("utf-16"),
        usual.replace(b'"a"', b"007").replace(b'"b"', b"7").replace(b'"c"', b"1.0"),
        usual.replace(b'"a"', b'"' + b"a" * 100_000 + b'"'),
        b"label," + b"a," * 5000 + b"\n",
        b'"' * 5000,
        b"label,a\nx,1\ny,1\0\n",
    ]


def _parquets(_: Random) -> list[bytes]:
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(6, np.int32)), ["a" * 2**20])
    whole = []
    for labels, options in (
        (_Y, {}),
        (_Y, {"compression": "zstd"}),
        (np.arange(6), {"compression": "gzip", "use_dictionary": False}),
        (pa.array(_Y.tolist()).dictionary_encode(), {"compression": "none"}),
        (long, {"compression": "zstd"}),
    ):
        stream = io.BytesIO()
        pyarrow.parquet.write_table(_table(labels), stream, **options)
        whole.append(stream.getvalue())
    return whole


def _images(random: Random) -> list[bytes]:
    pixels = random.integers(0, 256, (9, 7, 3), dtype=np.uint8)
    whole = []
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
        for mode in ("RGB", "L", "P", "RGBA", "CMYK", "I;16"):
            stream = io.BytesIO()
            try:
                image = Image.fromarray(pixels)
                image = image.convert("L").convert("I").convert(mode) if mode == "I;16" else image
                image.convert(mode).save(stream, kind)
            except (OSError, ValueError, KeyError):
                continue  # a mode that the format does not have
            whole.append(stream.getvalue())
    frames = [Image.new("P", (7, 9), shade) for shade in (1, 2, 3)]
    stream = io.BytesIO()
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    return [*whole, stream.getvalue()]


def _idxs(random: Random) -> list[bytes]:
    sound = idx.header((6, 4)) + random.bytes(24)
    return [sound, gzip.compress(sound), gzip.compress(bytes(2**22)), b""]


KINDS: dict[str, tuple[Callable[[Random], list[bytes]], Callable[[bytes, Path], None]]] = {
    "npy": (_npys, _as_file(".npy")),
    "npz": (_npzs, _as_file(".npz")),
    "csv": (_csvs, _as_file(".csv")),
    "parquet": (_parquets, _as_file(".parquet")),
    "jsonl": (lambda _: [b'{"a": 1}\n'], _as_file(".jsonl")),
    "image": (_images, _as_image),
    "idx": (_idxs, _as_idx),
}


if __name__ == "__main__":
    found = forge(int(sys.argv[1]), int(sys.argv[2]))
    for kind, outcomes in found.items():
        sys.stdout.write(f"{kind}: {dict(outcomes)}\n")
    sys.exit(any(outcome.startswith("fault") for of in found.values() for outcome in of))
