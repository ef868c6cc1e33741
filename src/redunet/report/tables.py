"""The results of a reproduction beside the paper's, for the terminal and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from redunet.report.blocks import Grid
from redunet.report.seeds import Record, Spread, by_task, n_tasks, over_seeds

UNKNOWN = "–"
READOUT_NAMES = {
    "subspace": "nearest subspace",
    "coding": "coding length",
    "discriminant": "linear discriminant",
    "regression": "ridge regression",
}
STYLES = {"paper": "", "ours": "bold", "difference": "", "no layers": "dim"}


class Row(NamedTuple):
    """One line of the results: whose it is, its label, a cell a task."""

    kind: Literal["paper", "ours", "difference", "no layers"]
    label: str
    cells: tuple[str, ...]


def accuracy_rows(record: Record) -> list[Row]:
    """Accuracy on all classes seen after each task: the paper's, then each variant's.

    Parameters
    ----------
    record : mapping
        A reproduction record. Where its ``paper`` is None, no row speaks of one.

    Returns
    -------
    list of Row
        The paper's row; then for each variant its own, what it lacks or gains
        against the paper, and the same read-out of the input features. A
        difference is that of the figures as they are shown. All rows have as
        many cells as there are tasks; what is not known is a dash.
    """
    width = n_tasks(record)
    rows = []
    paper: Sequence[float] = record["paper"]["row"] if record.get("paper") else ()
    if paper:
        rows.append(Row("paper", "paper (theirs)", _filled(map(three, paper), width)))
    for variant in record["variants"]:
        ours = by_task(variant, "accuracy")
        label = f"{variant['name']} ({whose(variant)})"
        rows.append(Row("ours", label, _filled(map(shown, ours), width)))
        if paper:
            pairs = zip(ours, paper, strict=False)
            cells = (signed(round(one.mean, 3) - round(other, 3)) for one, other in pairs)
            rows.append(Row("difference", "difference from the paper", _filled(cells, width)))
        if plain := by_task(variant, "no_layers_accuracy"):
            readout = variant["settings"].get("readout", "subspace")
            label = f"{READOUT_NAMES.get(readout, readout)}, no layers"
            rows.append(Row("no layers", label, _filled(map(shown, plain), width)))
    return rows


def whose(variant: Record) -> str:
    """Ours, and over how many seeds where there are several."""
    count = len(variant["runs"])
    return f"ours, mean of {count} seeds" if count > 1 else "ours"


def task_headings(record: Record) -> list[str]:
    """What the columns of tasks are called."""
    return [f"task {number}" for number in range(1, n_tasks(record) + 1)]


def accuracy_table(record: Record) -> Table:
    """The results as a table for the terminal."""
    table = Table(
        title=Text(f"{record['what']}: accuracy on all classes seen"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    table.add_column("")
    for heading in task_headings(record):
        table.add_column(heading, justify="right", no_wrap=True)
    previous = ""
    for kind, label, cells in accuracy_rows(record):
        if kind == "ours" and previous:
            table.add_section()
        # Deviations go on a line of their own: five tasks must fit into 80 columns.
        inside = [Text(cell.replace(" ± ", "\n±")) for cell in cells]
        table.add_row(Text(label), *inside, style=STYLES[kind])
        previous = kind
    return table


def terminal_table(grid: Grid) -> Table:
    """A table for the terminal; deviations and long headings go on lines of their own."""
    table = Table(
        title=Text(grid.caption),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )
    for index, heading in enumerate(grid.headings):
        justify: Literal["left", "right"] = "left" if index < grid.text_columns else "right"
        table.add_column(Text(heading.replace(" ", "\n")), justify=justify, no_wrap=index > 0)
    for index, row in enumerate(grid.rows):
        style = "bold" if index in grid.strong else ""
        table.add_row(*map(_terminal_cell, row), style=style)
    return table


def _terminal_cell(cell: str) -> Text:
    mean, plus_minus, deviation = cell.partition(" ± ")
    return Text.assemble(mean, (f"\n±{deviation}", "dim")) if plus_minus else Text(cell)


def grid_markdown(grid: Grid) -> str:
    """A table as Markdown, without its caption."""
    return markdown_table(
        grid.headings, grid.rows, text_columns=grid.text_columns, strong=grid.strong
    )


def accuracy_markdown(record: Record) -> str:
    """The results as a Markdown table."""
    rows = accuracy_rows(record)
    strong = [index for index, row in enumerate(rows) if row.kind == "ours"]
    lines = [(row.label, *row.cells) for row in rows]
    return markdown_table(["", *task_headings(record)], lines, strong=strong)


def markdown_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text_columns: int = 1,
    strong: Collection[int] = (),
) -> str:
    r"""A Markdown table of plain text, whatever characters it has in it.

    Parameters
    ----------
    headings : sequence of str
    rows : sequence of sequences of str
        Each as long as ``headings``.
    text_columns : int, default=1
        So many columns from the left are text; the others are figures, set to the right.
    strong : collection of int, default=()
        Rows whose labels are set in bold.

    Examples
    --------
    >>> print(markdown_table(["", "task 1"], [["a|b", "0.999"]]))
    |  | task 1 |
    | --- | ---: |
    | a\|b | 0.999 |
    """
    rules = ["---" if column < text_columns else "---:" for column in range(len(headings))]
    lines = [[markdown_text(heading) for heading in headings], rules]
    for index, row in enumerate(rows):
        label, *cells = map(markdown_text, row)
        lines.append([f"**{label}**" if index in strong and label else label, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown_text(text: str) -> str:
    """Text as Markdown that shows it as it is, on one line."""
    text = " ".join(text.split())
    text = re.sub(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def three(value: float) -> str:
    """A figure to three decimals."""
    return f"{value:.3f}"


def shown(spread: Spread, places: int = 3) -> str:
    """A mean, with its deviation where there is one."""
    deviation = spread.deviation
    return f"{spread.mean:.{places}f}" + ("" if deviation is None else f" ± {deviation:.{places}f}")


def measure(summaries: Sequence[Record | None], key: str) -> str:
    """A measure over all seeds; a dash where one of them lacks it."""
    values = [[summary[key]] for summary in summaries if summary and key in summary]
    return shown(over_seeds(values)[0]) if len(values) == len(summaries) else UNKNOWN


def in_seconds(value: float) -> str:
    """A time, to a tenth of a second where it is long."""
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def in_bytes(value: float) -> str:
    """A size in the unit that suits it.

    Examples
    --------
    >>> in_bytes(0), in_bytes(784), in_bytes(98_765), in_bytes(1.5e6), in_bytes(172_160)
    ('0', '784 B', '98.8 kB', '1.50 MB', '172 kB')
    """
    if not value:
        return "0"
    if value < 1000:
        return f"{value:.0f} B"
    unit, size = next((u, s) for u, s in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if value >= s)
    return f"{value / size:#.3g}".rstrip(".") + f" {unit}"


def signed(value: float) -> str:
    """A difference, with its sign; zero has none."""
    return f"{value:+.3f}" if round(value, 3) else "0.000"


def _filled(cells: Iterable[str], width: int) -> tuple[str, ...]:
    known = tuple(cells)
    return known + (UNKNOWN,) * (width - len(known))
