"""Where a function of the package stands in its file."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def definitions(path: Path) -> dict[str, int]:
    """The first line of each function, class, method and constant of a Python file, by name."""
    found: dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found[prefix + child.name] = child.lineno
                visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.Assign | ast.AnnAssign):
                for target in child.targets if isinstance(child, ast.Assign) else [child.target]:
                    if isinstance(target, ast.Name):
                        found[prefix + target.id] = child.lineno

    visit(ast.parse(path.read_text(encoding="utf-8")), "")
    return found


def line_of(path: Path, code: str) -> int:
    """The line of a file that a piece of code in a page refers to.

    Parameters
    ----------
    path : Path
    code : str
        A name that the file defines, such as "Coding.alpha", or a part of one single line.

    Returns
    -------
    int
        From 1.
    """
    known = definitions(path)
    if code in known:
        return known[code]
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines, 1) if code in line]
    if len(found) != 1:
        name = path.relative_to(ROOT)
        raise LookupError(f"expected {code!r} once in {name}, got {len(found)}: change the page")
    return found[0]
