"""Only regular files are opened, whatever a name leads to, and none waits or goes on for ever."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from redunet.errors import DataError, FileAccessError
from redunet.safety.untrusted import open_regular


def test_a_file_is_opened_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("real")
    for name in ("real", "link"):
        with open_regular(tmp_path / name, 3) as file:
            assert file.read() == b"abc"
    with pytest.raises(DataError, match=r"expected at most 2 bytes in .*real, got 3"):
        open_regular(tmp_path / "real", 2)


def test_what_is_no_regular_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "round").symlink_to("round")
    with socket.socket(socket.AF_UNIX) as one:
        monkeypatch.chdir(tmp_path)  # a name of a socket must be short
        one.bind("socket")
    for name, found in {
        "pipe": "expected a regular file, got a pipe",
        "link": "expected a regular file, got a pipe",
        "endless": "expected a regular file, got a device",
        "socket": "expected a regular file, got a socket",
        ".": "expected a regular file, got a folder",
        "none": "No such file or directory",
        "round": "Too many levels of symbolic links",
        "n" * 300: "File name too long",
        "n\0": "embedded null byte",
    }.items():
        with pytest.raises(FileAccessError, match=f"^cannot read .*: {found}$"):
            open_regular(tmp_path / name)
