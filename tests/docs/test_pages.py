"""The pages of the documentation: all in the navigation, no link leads nowhere, all is current."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import redunet
from docsite import commands, reference
from docsite.links import PAGES as OUTSIDE
from docsite.links import anchors, for_site, links, repository_path
from docsite.source import line_of
from tests.docs.blocks import ROOT, pages

CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION = re.findall(
    r"(?:- |: )([\w/-]+\.md)$", CONFIG.partition("\nnav:")[2].partition("\n\n")[0], re.MULTILINE
)
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
EVERY = [*pages(), ROOT / "CHANGELOG.md"]


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_once() -> None:
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    made = {place for place in OUTSIDE.values() if place != "index.md"}
    made |= {f"notebooks/{path.stem}.md" for path in NOTEBOOKS}
    made |= {"commands.md", *reference.pages()}
    assert set(NAVIGATION) == written | made
    assert len(NAVIGATION) == len(set(NAVIGATION))


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    written = page.read_text(encoding="utf-8")
    for link in links(written):
        if link.external:
            assert link.to.startswith("https://"), link.to
            continue
        there = ROOT / repository_path(name, link)
        assert there.exists(), link.to
        if link.anchor:
            assert link.anchor in anchors(there.read_text(encoding="utf-8")), link.to
    for_site(written, name, OUTSIDE.get(name, name.removeprefix("docs/")))  # finds lines of code


def test_anchors_are_those_of_headings() -> None:
    page = "# Why 20 %?\n\n```sh\n# no heading\n```\n\n## (5) `E`, or: expansion\n"
    assert anchors(page) == {"why-20", "5-e-or-expansion"}


def test_code_is_no_link() -> None:
    page = "`[a](b.md)` [c](d.md#e)\n```text\n[f](g.md)\n```\n![h](i.png)"
    assert [link.to for link in links(page)] == ["d.md#e", "i.png"]


def test_every_equation_of_the_paper_has_its_code() -> None:
    page = text("equations.md")
    sections = re.split(r"^### ", page, flags=re.MULTILINE)[1:]
    numbers: list[int] = []
    for section in sections:
        found = re.findall(r"\((\d+)\)", section.partition("\n")[0])
        numbers += [int(number) for number in found]
        if found:
            assert "$$" in section, section
            assert re.search(r"Code: ", section), section
    assert numbers == list(range(1, 20))
    named = [link for link in links(page) if link.path.endswith(".py")]
    assert len(named) > 50
    for link in named:
        assert (ROOT / repository_path("docs/equations.md", link)).is_file()


def test_a_line_of_code_that_is_gone_is_noticed() -> None:
    path = ROOT / "src" / "redunet" / "core" / "rate.py"
    assert "def alpha" in path.read_text().splitlines()[line_of(path, "Coding.alpha") - 1]
    with pytest.raises(LookupError, match=r"expected 'no_such_name' once .*, got 0: change the"):
        line_of(path, "no_such_name")


def test_every_command_and_public_name_is_in_the_reference() -> None:
    assert "## redunet learn" in commands.page()
    written = "".join(reference.pages().values())
    named = {name.rpartition(".")[2] for name in re.findall(r"^::: (.+)$", written, re.MULTILINE)}
    assert set(redunet.__all__) - {"__version__"} <= named


def test_public_names_have_an_example() -> None:
    stored_otherwise = {"AbstractLayer", "LowRankLayer"}
    for name in set(redunet.__all__) - stored_otherwise - {"__version__"}:
        there = getattr(redunet, name)
        if not (isinstance(there, type) and issubclass(there, Exception)):
            assert ">>> " in there.__doc__, name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_hold_small_outputs(path: Path) -> None:
    assert path.stat().st_size < 60_000
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code), "run python -m docsite.notebooks"
    for cell in code:
        compile("".join(cell["source"]), path.name, "exec")
        assert all(output["output_type"] != "error" for output in cell["outputs"])
        assert all(len(line) <= 88 for line in "".join(cell["source"]).splitlines())
    written = "".join("".join(c["source"]) for c in notebook["cells"] if c not in code)
    for link in links(written):
        there = ROOT / repository_path(f"docs/notebooks/{path.name}", link)
        assert there.exists(), link.to
        if link.anchor:
            assert link.anchor in anchors(there.read_text(encoding="utf-8"))
