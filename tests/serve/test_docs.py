"""What the pages about serving and receipts say is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from benchmarks.serve import DOCS, page
from redunet.cli.app import main
from redunet.serve.middleware import CHANGES
from tests.serve.running import serving, small_model

RECEIPTS = DOCS.parent / "receipts.md"


def test_the_table_is_that_of_the_records() -> None:
    assert page(DOCS.read_text()) == DOCS.read_text()


@pytest.mark.usefixtures("one_thread")
def test_every_request_that_is_named_is_there(tmp_path: Path) -> None:
    small_model().save(tmp_path / "m")
    with serving(tmp_path / "m") as client:
        paths = set(client.send("GET", "/openapi.json")[1]["paths"])
    named = set(
        re.findall(r"`(?:GET|POST)? ?(/(?:v1|health|metrics)[a-z0-9/]*)`", DOCS.read_text())
    )
    assert named <= paths
    assert paths - named <= {"/v1/learn/files", "/v1/unlearn/files"}
    assert paths >= CHANGES


@pytest.mark.parametrize(
    "text", [DOCS.read_text(), RECEIPTS.read_text()], ids=["serve", "receipts"]
)
def test_every_option_that_is_named_is_there(text: str) -> None:
    commands = get_command(main).commands  # type: ignore[attr-defined]
    known = {
        option
        for name in ("serve", "forget", "unlearn", "receipts")
        for command in (commands[name], *getattr(commands[name], "commands", {}).values())
        for parameter in command.params
        for option in parameter.opts
    }
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= known
