"""Tables that fit the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from redunet.report.blocks import Table
from redunet_lab.report.text import terminal_table

TASKS = [f"task {number}" for number in range(1, 11)]


@pytest.mark.parametrize(
    ("width", "shown"), [(200, TASKS), (70, TASKS[::2] + TASKS[-1:]), (40, TASKS[::3])]
)
def test_tasks_in_the_middle_are_left_out_where_there_is_no_room(
    width: int, shown: list[str]
) -> None:
    values = [f"0.9{number}0" for number in range(10)]
    table = Table("Accuracy", ["method", *TASKS, "average"], [["a long name", *values, "0.900"]])
    screen = io.StringIO()
    Console(file=screen, width=width).print(terminal_table(table))
    said = screen.getvalue()
    assert "…" not in said
    assert ("(of 10 tasks, those that fit)" in " ".join(said.split())) == (shown != TASKS)
    for value, name in zip(values, TASKS, strict=True):
        assert (f"{value} " in said) == (name in shown or value == values[0])
    assert "long" in said
