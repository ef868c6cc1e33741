"""The report of a record: a folder of files, and what commands print."""

from __future__ import annotations

import json
from pathlib import Path

from redunet.report.blocks import Figure
from redunet.report.html import to_html
from redunet.safety.files import make_folder, write_bytes
from redunet_lab.report.numbers import Record
from redunet_lab.report.sections import chapter
from redunet_lab.report.text import to_markdown


def write(record: Record, folder: Path) -> list[Path]:
    """Write a record and its report into a folder."""
    from redunet.report.figures import png  # Matplotlib takes long to load

    make_folder(folder)
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    files = {"record.json": text.encode() + b"\n"}
    found = chapter(record)
    figures = [b for section in found.sections for b in section.blocks if isinstance(b, Figure)]
    names = [figure.name for figure in figures]
    files["report.html"] = to_html([found]).encode()
    files["report.md"] = to_markdown(found, names).encode()
    files |= {f"{figure.name}.png": png(figure) for figure in figures}
    for name, data in files.items():
        write_bytes(folder / name, data)
    return [folder / name for name in files]
