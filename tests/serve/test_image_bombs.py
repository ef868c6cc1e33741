"""Small images that unpack to much: refused in one line, in bounded memory, and nothing changed."""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from redunet import ReduNetClassifier
from redunet.features import Flatten
from tests.fuzz.serving import process
from tests.serve.running import Client

pytestmark = pytest.mark.usefixtures("one_thread")
_MOST_MEGABYTES = 900  # more than the server had before; an image may be 33 million pixels


def png(
    width: int, height: int, bits: int = 8, rows: int | None = None, more: bytes = b""
) -> bytes:
    """A black PNG, of so many bits a pixel, of which fewer rows may be there than are claimed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    packer = zlib.compressobj(9)
    row = bytes(1 + -(-width * bits // 8))
    data = b"".join(packer.compress(row) for _ in range(height if rows is None else rows))
    head = struct.pack(">IIBBBBB", width, height, min(bits, 8), 6 * (bits == 32), 0, 0, 0)
    extra = chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(10**7))) if more else b""
    pixels = chunk(b"IDAT", data + packer.flush())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + pixels + chunk(b"IEND", b"")


def gif(width: int, height: int, frame: tuple[int, int] = (1, 1), frames: int = 1) -> bytes:
    """A GIF of small frames on a canvas."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    one = b"\x2c" + struct.pack("<HHHHB", 0, 0, *frame, 0) + b"\x02\x02\x44\x01\x00"
    return head + one * frames + b"\x3b"


def tiff(width: int, height: int, pages: int = 1, kind: int = 8) -> bytes:
    """A TIFF whose pages all claim a size, compressed as kind says; the last leads to the first."""
    tags = {256: width, 257: height, 258: 8, 259: kind, 262: 1, 273: 8, 277: 1, 278: height, 279: 9}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    size = 2 + len(entries) + 4
    out = b"II*\0" + struct.pack("<I", 17) + zlib.compress(b"")[:9].ljust(9, b"\0")
    for page in range(pages):
        after = 17 + (page + 1) % pages * size
        out += struct.pack("<H", len(tags)) + entries + struct.pack("<I", after)
    return out


def saved(image: Image.Image, kind: str, **settings: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def jpeg(width: int, height: int) -> bytes:
    """A JPEG of 16 × 16 pixels that claims more."""
    data = bytearray(saved(Image.new("L", (16, 16)), "JPEG"))
    place = data.index(b"\xff\xc0")
    data[place + 5 : place + 9] = struct.pack(">HH", height, width)
    return bytes(data)


BOMBS = {
    "claims.png": png(60_000, 60_000, rows=1),
    "colour.png": png(30_000, 30_000, bits=1),
    "wide.png": png(33_000_000, 1, rows=0),
    "high.png": png(1, 33_000_000, rows=1000),
    "text.png": png(5, 5, more=b"text"),
    "claims.gif": gif(65_535, 65_535),
    "beyond.gif": gif(5, 5, frame=(65_535, 65_535)),
    "claims.webp": saved(Image.new("RGB", (16_383, 5_500)), "WEBP", lossless=True),
    "claims.tif": tiff(60_000, 60_000),
    "packed.tif": tiff(60_000, 60_000, kind=8),
    "claims.jpg": jpeg(65_500, 65_500),
    "claims.bmp": b"BM" + bytes(8) + struct.pack("<IIiiHHI", 54, 40, 30_000, -30_000, 1, 8, 1),
    "claims.ppm": b"P6 65000 65000 255\n",
}
"""Refused by every model."""

LARGE = {
    "large.png": png(5_000, 5_000, bits=32),
    "large.webp": saved(Image.new("RGB", (5_700, 5_700)), "WEBP", lossless=True),
    "large.gif": gif(8_000, 4_000),
    "frames.gif": gif(5, 5, frames=200_000),
    "pages.tif": tiff(5, 5, pages=10_000, kind=1),
}
"""Large, or long, but what may be sent where a model scales images."""


@pytest.fixture(scope="module", params=[False, True], ids=["as they are", "scaled"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Client, Path, bool]]:
    """A model of images in a process of its own: its file, a client, and what its memory is."""
    path = tmp_path_factory.mktemp("served") / "model.safetensors"
    images = np.random.RandomState(0).randint(0, 256, (20, 5, 5), dtype=np.uint8)
    model = ReduNetClassifier(n_layers=1, n_components=1, features=Flatten((5, 5)))
    model.fit(images, ["a", "b"] * 10)
    (model.resize_images() if request.param else model).save(path)
    with process(path) as (running, client):
        yield path, client, Path(f"/proc/{running.pid}/status"), request.param


def megabytes(status: Path) -> float:
    """The most memory that a process had."""
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1000 if found else 0.0


@pytest.mark.parametrize("what", ["learn", "predict"])
@pytest.mark.parametrize("name", [*BOMBS, *LARGE])
def test_image_bombs(server: tuple[Path, Client, Path, bool], what: str, name: str) -> None:
    path, client, status, scaled = server
    before, memory = path.read_bytes(), megabytes(status)
    data = BOMBS.get(name) or LARGE[name]
    asked = f"/v1/{what}/files"
    fields = {"labels": "a"} if what == "learn" else {}
    if name in BOMBS:
        answered, found = client.files(asked, [(name, data)], fields)
        assert answered == 422, found
        assert "cannot be used" in found["error"]
        assert "\n" not in found["error"]
        assert path.read_bytes() == before
    elif what == "predict":
        answered, found = client.files(asked, [(name, data)], fields)
        assert answered == (200 if scaled or name == "pages.tif" else 422), found
    assert megabytes(status) - memory < _MOST_MEGABYTES
    assert client.send("GET", "/health")[0] == 200
