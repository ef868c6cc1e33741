"""Writing files: links, what is no file, modes, temporary names, several writers at once."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redunet import FileAccessError
from redunet.safety import files
from redunet.safety.files import refuse_overwriting, write_bytes, writing
from tests.safety.test_kills import listing

ROOT = Path(__file__).parents[1]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal(path: Path, data: bytes = b"new") -> str:
    with pytest.raises(FileAccessError) as caught:
        write_bytes(path, data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Links


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_bytes(b"old")
    (tmp_path / "folder").symlink_to("there")
    (tmp_path / "link").symlink_to("folder/file")
    (tmp_path / "chain").symlink_to(tmp_path / "link")
    (tmp_path / "there" / "up").symlink_to("../chain")
    for link in ("link", "chain", "folder/file", "folder/up", "there/../chain"):
        data = link.encode()
        write_bytes(tmp_path / link, data)
        assert (tmp_path / "there" / "file").read_bytes() == data
    assert all((tmp_path / link).is_symlink() for link in ("link", "chain", "there/up", "folder"))
    assert listing(tmp_path / "there") == ["file", "up"]


def test_a_link_to_nothing_says_where_the_new_file_is_to_be(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/new")
    (tmp_path / "lost").symlink_to("nowhere/new")
    write_bytes(tmp_path / "link", b"new")
    assert (tmp_path / "there" / "new").read_bytes() == b"new"
    assert "No such file" in refusal(tmp_path / "lost")
    assert (tmp_path / "lost").is_symlink()


# Folders, pipes, devices, streams


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "folder").mkdir()
    for path, kind in (
        (tmp_path / "pipe", "a pipe"),
        (tmp_path / "link", "a pipe"),
        (tmp_path / "folder", "a folder"),
        (Path("/dev/null"), "a device"),
    ):
        said = f"cannot write {path}: expected a regular file, got {kind}: name another"
        assert refusal(path) == said
    assert listing(tmp_path) == ["folder", "link", "pipe"]


def test_the_file_that_is_printed_into_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("old,")
    (tmp_path / "link").symlink_to("/dev/stdout")
    program = (
        "import sys; from redunet.safety.files import write_bytes\n"
        "from redunet import ReduNetError\n"
        "try: write_bytes(sys.argv[1], b'new')\n"
        "except ReduNetError as error: print(error)"
    )
    for name in ("/dev/stdout", tmp_path / "link", tmp_path / "log"):
        in_a_process(program, name, shell=f'"$@" >> {tmp_path}/log')
    text = (tmp_path / "log").read_text()
    assert text.startswith("old,")
    assert text.count("got the file that standard output goes to: name another\n") == 3


def in_a_process(program: str, *words: object, shell: str) -> None:
    """Run Python through a shell, which may redirect its streams."""
    subprocess.run(
        ["/bin/sh", "-c", shell, "sh", sys.executable, "-c", program, *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=60,
    )


# Access rights


@pytest.mark.parametrize("wanted", [0o600, 0o640, 0o664, 0o444, 0o755])
def test_a_file_keeps_its_mode(tmp_path: Path, wanted: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(wanted)
    with writing(path) as file:
        temporary = tmp_path / next(name for name in listing(tmp_path) if name != "file")
        assert mode(temporary) == 0o600
        file.write(b"new")
    assert (mode(path), path.read_bytes()) == (wanted, b"new")


# Temporary names


def test_temporary_names_differ_and_planted_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set()
    for _ in range(3):
        with writing(tmp_path / "file") as file:
            file.write(b"old")
            names |= set(listing(tmp_path)) - {"file"}
    assert len(names) == 3
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    planted = tmp_path / next(iter(names))
    planted.symlink_to(victim)
    write_bytes(tmp_path / "file", b"new")  # a leftover in name only
    foreseen = planted.name.removeprefix(".redunet-").removesuffix(".tmp")
    monkeypatch.setattr(secrets, "token_hex", lambda _: foreseen)
    assert "File exists" in refusal(tmp_path / "file")
    assert victim.read_bytes() == b"precious"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert planted.is_symlink()


def leftover(folder: Path, digit: str) -> Path:
    path = folder / f".redunet-{digit * 32}.tmp"
    path.write_bytes(b"half")
    return path


def test_leftovers_go_unless_their_process_lives(tmp_path: Path) -> None:
    dead, living = leftover(tmp_path, "a"), leftover(tmp_path, "b")
    for name in (".redunet-x.tmp", "redunet-notes.tmp", ".hidden"):
        (tmp_path / name).touch()
    with open(living, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_bytes(tmp_path / "file", b"new")
        assert not dead.exists()
        assert living.exists()
    write_bytes(tmp_path / "file", b"new")
    assert listing(tmp_path) == [".hidden", ".redunet-x.tmp", "file", "redunet-notes.tmp"]


def test_a_file_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = fcntl.flock, list[str]()

    def flock(handle: int, how: int) -> None:
        if not seen:  # another writer looks before this one has the lock
            seen.extend(listing(tmp_path))
            files._remove_leftovers(tmp_path)
            assert listing(tmp_path) == []
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    write_bytes(tmp_path / "file", b"new")
    assert len(seen) == 1
    assert listing(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [ValueError("no number"), KeyboardInterrupt(), OSError(5, "EIO")])
def test_a_block_that_fails_leaves_the_file_as_it_was(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    expected = FileAccessError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), writing(path) as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert listing(tmp_path) == ["file"]


def test_what_was_put_there_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    refused = pytest.raises(FileAccessError, match="something else was put there")
    with refused, writing(tmp_path / "pipe") as file:
        file.write(b"new")
        os.mkfifo(tmp_path / "pipe")
    assert listing(tmp_path) == ["pipe"]


# Outputs that are inputs


@contextmanager
def moved_to(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def test_an_output_that_is_an_input_by_any_name(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "ant").mkdir(parents=True)
    file = data / "ant" / "1.npz"
    file.write_bytes(b"data")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "there").symlink_to(data)
    os.link(file, tmp_path / "hard")
    names: list[Callable[[], Path]] = [
        lambda: file,
        lambda: Path("data/ant/1.npz"),
        lambda: Path("data/../data/ant/./1.npz"),
        lambda: Path("link"),
        lambda: Path("hard"),
        lambda: tmp_path / "there" / "ant" / "1.npz",
    ]
    with moved_to(tmp_path):
        for output in names:
            for given in names:
                with pytest.raises(FileAccessError, match=r"is one of the inputs \(.*another name"):
                    refuse_overwriting(output(), [tmp_path / "missing", given()])
        for folder in ("data", "there", ".", "data/ant", "/"):
            with pytest.raises(FileAccessError, match="is one of the inputs"):
                refuse_overwriting(file, [folder])
    (tmp_path / "other").write_bytes(b"data")
    for output in (lambda: tmp_path / "other", lambda: tmp_path / "new", lambda: Path("/dev/null")):
        refuse_overwriting(output(), [file, data, "/dev/null", "digits", "nul\0"])


# Several at once
