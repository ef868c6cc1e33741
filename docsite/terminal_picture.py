"""Pictures of what commands print: ``python -m docsite.terminal_picture docs``.

The commands are run, each in a process of its own and in a folder that is then removed. What they
print becomes an SVG file, with fonts of the reader's own.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text
from sklearn.datasets import load_wine

from redunet.safety.files import write_bytes

COLUMNS = 84

SESSIONS = {
    "terminal-demo": ("redunet demo",),
    "terminal-own-data": (
        "redunet learn wine.safetensors wine.csv --label cultivar --recipe tables",
        "redunet evaluate wine.safetensors wine-test.csv",
        "redunet predict wine.safetensors new.csv --top 2",
        "redunet forget wine.safetensors barberra",
        "redunet forget wine.safetensors barbera",
    ),
}
"""What is typed in each picture."""

_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono"


def picture(commands: Sequence[str], folder: Path, columns: int = COLUMNS) -> str:
    """What commands print on a terminal, as SVG.

    Parameters
    ----------
    commands : sequence of str
        Each begins with ``redunet``.
    folder : Path
        Where they run.
    columns : int
        Width of the terminal.
    """
    screen = Console(record=True, width=columns, file=io.StringIO(), highlight=False)
    for index, command in enumerate(commands):
        screen.print(Text(("\n" if index else "") + f"$ {command}", style="bold"), soft_wrap=True)
        for line in printed(command, folder, columns).splitlines():
            screen.print(Text.from_ansi(line))
    screen.print()  # the last line would touch the edge
    svg = screen.export_svg(title="", theme=SVG_EXPORT_THEME)
    without = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return without.replace("Fira Code", _FONTS)


def printed(command: str, folder: Path, columns: int) -> str:
    """What a command prints, with its colours, once all that grows has grown."""
    name, *words = shlex.split(command)
    env = {**os.environ, "COLUMNS": str(columns), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    done = subprocess.run(  # noqa: S603 - the commands are those above
        [sys.executable, "-m", name, *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = done.stdout.decode().rpartition("\x1b[?25h")[2]  # what comes after the last bar
    return "\n".join(line.rstrip() for line in text.splitlines())


def write_tables(folder: Path) -> None:
    """The tables of wines that `SESSIONS` use."""
    wine = load_wine(as_frame=True)
    rows = wine.data.assign(cultivar=[("barolo", "grignolino", "barbera")[t] for t in wine.target])
    rows = rows.sample(frac=1, random_state=0)
    rows[:120].to_csv(folder / "wine.csv", index=False)
    rows[120:].to_csv(folder / "wine-test.csv", index=False)
    rows[120:123].drop(columns="cultivar").to_csv(folder / "new.csv", index=False)


def main(words: Sequence[str]) -> int:
    """Write the pictures into a folder."""
    for name, commands in SESSIONS.items():
        with TemporaryDirectory() as folder:
            write_tables(Path(folder))
            svg = picture(commands, Path(folder))
        write_bytes(Path(words[0]) / f"{name}.svg", svg.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
