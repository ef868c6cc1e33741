"""Records with damaged numbers: a page, or one line that refuses them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.own_data import redunet

RESULTS = Path(__file__).parents[2] / "results"


def numbers(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each number of a record, as its container and its place in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for place, part in items:
        if isinstance(part, dict | list):
            yield from numbers(part)
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield value, place


def test_damaged_numbers(tmp_path: Path) -> None:
    record = json.loads((RESULTS / "compare-digits.json").read_text())
    one_of_each_name = {place: container for container, place in numbers(record)}
    for place, container in one_of_each_name.items():
        kept, container[place] = container[place], float("nan")
        (tmp_path / "record.json").write_text(json.dumps(record))
        container[place] = kept
        result = redunet("report", tmp_path / "record.json", "-o", tmp_path / "page.html")
        assert result.exit_code in (0, 2), place
        if result.exit_code == 2:
            assert result.stderr.startswith("redunet: ")
            assert result.stderr.count("\n") == 1
