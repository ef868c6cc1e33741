"""The notebooks of docs/notebooks: run, and shown as pages of the site.

``python -m docsite.notebooks`` runs them and writes their outputs into the files;
with ``--check`` it runs them and compares what they print with what the files have.
"""

from __future__ import annotations

import argparse
import base64
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from docsite.source import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = ("a-class-a-day", "look-inside", "withdraw-and-prove")


def read(name: str) -> Any:
    """A notebook as it is in its file."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def run(notebook: Any, folder: Path) -> Any:
    """The notebook with the outputs of running it in a folder."""
    made = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        config=Config({"KernelManager": {"transport": "ipc"}}),  # no open port
    ).execute()
    for cell in made.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            output.pop("metadata", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = {}
    made.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return made


def printed(notebook: Any) -> list[str]:
    """What each cell of code says in text."""
    return [
        "".join(_text(output) for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?!\w)")


def alike(one: str, other: str, by: float = 0.05) -> bool:
    """Whether two texts are the same but for decimals, which other machines may round otherwise."""
    numbers = [[float(x) for x in _DECIMAL.findall(text)] for text in (one, other)]
    return _DECIMAL.sub("", one) == _DECIMAL.sub("", other) and all(
        abs(a - b) <= by for a, b in zip(*numbers, strict=True)
    )


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    data = output.get("data", {})
    return "" if "image/png" in data else str(data.get("text/plain", ""))


def pictures(name: str) -> dict[str, bytes]:
    """The pictures of a notebook, by the name that they have on the site."""
    data = [o.get("data", {}) for cell in read(name).cells for o in cell.get("outputs", [])]
    found = [one["image/png"] for one in data if "image/png" in one]
    return {f"{name}-{n}.png": base64.b64decode(one) for n, one in enumerate(found, 1)}


def as_page(name: str) -> str:
    """A notebook as a page of Markdown."""
    parts, n = [], 0
    for cell in read(name).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                n += 1
                parts.append(f"![Output of the code above]({name}-{n}.png)")
            elif _text(output).strip():
                parts.append(f"```text\n{_text(output).rstrip()}\n```")
    return "\n\n".join(parts)


def main(arguments: list[str]) -> int:
    """Run all notebooks; write them, or compare them with their files."""
    parser = argparse.ArgumentParser(prog="python -m docsite.notebooks", description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    differ = 0
    for name in NOTEBOOKS:
        before, started = read(name), time.perf_counter()
        made = run(read(name), ROOT)
        took = time.perf_counter() - started
        said = list(zip(printed(before), printed(made), strict=True))
        same = all(alike(*pair) for pair in said)
        differ += check and not same
        if not check:
            nbformat.write(made, FOLDER / f"{name}.ipynb")
        print(f"{name}: {took:.0f} s, {'as in the file' if same else 'not as in the file'}")
        for old, new in said:
            if check and not alike(old, new):
                print(f"--- in the file\n{old}\n--- now\n{new}")
    if differ:
        print("run `python -m docsite.notebooks` and look at what changed")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
