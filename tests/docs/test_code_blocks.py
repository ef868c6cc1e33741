"""Every block of code in the pages is run, or says visibly why it is not."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

from redunet import LearntFeaturesWarning
from tests.docs.blocks import CODE, DATA, ELSEWHERE, ROOT, Block, blocks, pages
from tests.docs.set_ups import SET_UPS
from tests.own_data import done

pytestmark = pytest.mark.usefixtures("one_thread")

ALL = [block for page in pages() for block in blocks(page)]
SLOW = {
    f"docs/{name}.md"
    for name in ("compare", "export", "images", "many-machines", "reproduce", "tuning")
}
"""Pages that take some seconds each: `make docs` runs them, `make test` does not."""

RUN_HERE = sorted(
    {
        block.page
        for block in ALL
        if block.language in CODE and block.page not in ELSEWHERE and not block.reason
    }
)


def test_every_block_has_a_language_that_says_whether_it_is_run() -> None:
    for block in ALL:
        known = block.language in CODE + DATA or block.page == "CONTRIBUTING.md"
        assert known, f"{block.page}:{block.line}: ```{block.language}"


def test_the_pages_that_take_long_are_there() -> None:
    assert set(RUN_HERE) >= SLOW


def test_every_reason_is_a_sentence() -> None:
    reasons = [block for block in ALL if block.reason]
    assert reasons
    for block in reasons:
        assert block.language in CODE, f"{block.page}:{block.line}"
        assert len(block.reason) > 15, f"{block.page}:{block.line}"
        for name in re.findall(r"`(tests/[\w/.]+)`", block.reason):
            assert (ROOT / name).exists(), f"{block.page}:{block.line}: {name}"


@pytest.mark.parametrize("page", ELSEWHERE)
def test_pages_with_a_test_of_their_own_have_it(page: str) -> None:
    test = (ROOT / ELSEWHERE[page]).read_text(encoding="utf-8")
    assert page in test or Path(page).name in test


def run_line(line: str) -> None:
    """Run one line of a shell."""
    words = shlex.split(line, comments=True)
    if words[0] == "redunet":
        done(*words[1:])
    elif words[:2] == ["pip", "install"]:  # installing takes long: what it names must be there
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for named in re.findall(r"\[([\w,]+)\]", line):
            assert set(named.split(",")) <= set(extras["optional-dependencies"])
    else:
        pytest.fail(f"{line!r} is neither run nor marked as not run")


def run(block: Block, names: dict[str, Any]) -> None:
    """Run a block, with the names that blocks before it left."""
    if block.language == "sh":
        for line in block.code.replace("\\\n", " ").splitlines():
            run_line(line)
        return
    code = "\n" * block.line + block.code  # so that errors name the line of the page
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearntFeaturesWarning)  # pages speak of it
        exec(compile(code, block.page, "exec"), names)


def said_in(code: str) -> list[str]:
    """What comments after print say that it prints, where that is a number or a list."""
    return re.findall(r"^ *print\(.*\)  # ([\d.]+|\[.*\])$", code, re.MULTILINE)


@pytest.mark.parametrize("page", RUN_HERE)
def test_the_code_of_a_page_runs(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if page in SLOW and "ALL_PAGES" not in os.environ:
        pytest.skip("make docs runs this page")
    if page == "docs/many-machines.md":
        pytest.importorskip("dask.array")
    if page == "docs/export.md":
        pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    monkeypatch.setitem(sys.modules, "page", type(sys)("page"))
    names |= SET_UPS.get(page, dict)()
    for block in blocks(ROOT / page):
        if block.language in CODE and not block.reason:
            capsys.readouterr()
            run(block, names)
            printed = [
                line if line.startswith("[") else f"{float(line):.{len(number.partition('.')[2])}f}"
                for line, number in zip(
                    capsys.readouterr().out.splitlines(), said_in(block.code), strict=False
                )
            ]
            assert printed == said_in(block.code), f"{page}:{block.line}"
