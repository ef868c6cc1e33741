"""What is printed: no markup, no control characters, wherever the text came from."""

from __future__ import annotations

import io

import pytest
from rich.table import Column, Table
from rich.text import Text

from redunet.cli.terminal import Screen, note, say_json

HOSTILE = "a\x1b]0;owned\x07[bold]b[/]\x9b2J\u202ec\u2028\udcff"
SHOWN = "a\\x1b]0;owned\\x07[bold]b[/]\\x9b2J\\u202ec\\u2028\\udcff"


@pytest.mark.parametrize("terminal", [False, True])
def test_strings_and_cells_are_shown_as_they_are(terminal: bool) -> None:
    file = io.StringIO()
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    Screen(file=file, force_terminal=terminal, width=300).print(HOSTILE, table, sep="\n")
    assert file.getvalue().count(SHOWN) == 4


@pytest.mark.parametrize("terminal", [False, True])
def test_text_that_rich_has_prepared_is_safe_too(terminal: bool) -> None:
    file = io.StringIO()
    table = Table(Column(Text(HOSTILE)), title=Text(HOSTILE))
    table.add_row(Text(HOSTILE))
    screen = Screen(file=file, force_terminal=terminal, width=300, no_color=True)
    screen.print(Text(HOSTILE), table, sep="\n")
    for bad in ("\x9b", "\u202e", "\u2028", "\udcff", "\x07", "\x1b]"):
        assert bad not in file.getvalue()


def test_notes_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    note(f"cannot read {HOSTILE}\nredunet: all is well")
    assert capsys.readouterr().err == (f"redunet: cannot read {SHOWN}\\nredunet: all is well\n")


def test_json_is_plain_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    say_json({"class": HOSTILE + "\x7f"})
    said = capsys.readouterr().out
    assert said.strip().isprintable()
    assert said.isascii()
