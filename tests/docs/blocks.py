"""The blocks of code in the pages, and which of them is run by what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("python", "py", "sh")
DATA = ("csv", "toml", "text")
ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "docs/adapters.md": "tests/adapters/test_docs.py",
    "docs/encoders.md": "tests/test_encoders.py",
    "docs/federation.md": "tests/distributed/test_flower_deployment.py",
    "docs/texts.md": "tests/test_texts.py",
}
"""Pages with a test of their own, which runs all of their code that does not say otherwise."""

_BLOCK = re.compile(
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?\n(?P<code>.*?)^```$'
    r"(?=(?:\n\n(?P<next>[^\n]+(?:\n[^\n]+)*))?)",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Parameters
    ----------
    page : str
        Of the repository.
    line : int
    language, code : str
    reason : str
        Why it is not run, as the paragraph after it says, or nothing.
    """

    page: str
    line: int
    language: str
    code: str
    reason: str


def pages() -> list[Path]:
    """All pages that people read."""
    folders = ("docs", "benchmarks", "results")
    found = [page for folder in folders for page in sorted((ROOT / folder).glob("*.md"))]
    return [*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        after = " ".join((match["next"] or "").split())
        reason = re.match(r"\*Not run[^*]*?[:,] (.*)\*$", after)
        found.append(
            Block(
                page.relative_to(ROOT).as_posix(),
                text.count("\n", 0, match.start()) + 1,
                match["language"],
                match["code"],
                reason[1] if reason else "",
            )
        )
    assert 2 * len(found) == len(re.findall(r"^ *```", text, re.MULTILINE)), page
    return found
