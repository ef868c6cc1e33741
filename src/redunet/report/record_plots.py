"""The plots of a record: accuracies, the objective by layer, what is taken for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redunet.report.blocks import Grid, Picture, Plot, View
from redunet.report.palette import KEEP_EXEMPLARS, METHODS, OURS, RATES, RIVALS
from redunet.report.plots import Curve, heat_map, lines
from redunet.report.seeds import Record, Spread, by_task, paper_rows
from redunet.report.tables import UNKNOWN, shown, three

UPPER = 0.6
"""Lines that never fall below this are worth a look by themselves."""

MOST_CLASSES = 40
"""Of more classes, those with most mistakes are drawn: a page must stay small."""

RATE_NAMES = {
    "delta_R": "ΔR = R − R_c, the objective",
    "R": "R, all classes together",
    "R_c": "R_c, class by class",
}


def accuracy_plot(curves: Sequence[Curve], picture: Picture) -> Plot:
    """Accuracy against the number of tasks seen.

    Where some lines fall far below others, a reader may look at the upper ones alone.

    Parameters
    ----------
    curves : sequence of Curve
    picture : Picture
        The same for a form that cannot draw; its words serve both.
    """
    views = [_accuracy_view("all", picture.alt, curves)]
    upper = [curve for curve in curves if min(curve.values) >= UPPER]
    if 1 < len(upper) < len(curves):
        alt = f"{picture.alt} Only those that stay above {UPPER}."
        views.append(_accuracy_view(f"those that stay above {UPPER}", alt, upper))
    return Plot(picture.caption, views, choose="lines", instead=[picture])


def _accuracy_view(name: str, alt: str, curves: Sequence[Curve]) -> View:
    width = max(len(curve.values) for curve in curves)
    rows = []
    for curve in curves:
        deviations: Sequence[float | None] = curve.deviations or [None] * len(curve.values)
        cells = [shown(one) for one in map(Spread, curve.values, deviations)]
        rows.append([curve.name, *cells, *[UNKNOWN] * (width - len(cells))])
    headings = ["", *(f"task {number}" for number in range(1, width + 1))]
    grid = Grid("Accuracy on all classes seen, after each task", headings, rows)
    low = min(min(curve.values) for curve in curves)
    floor = 0.0 if low < UPPER else low - 0.2 * (1 - low) - 0.005
    return lines(
        name,
        alt,
        grid,
        curves,
        first=1,
        x=("number of tasks seen", "task"),
        y="accuracy on all classes seen",
        y_axis={"range": [floor, 1.0 + 0.04 * (1.0 - floor)]},
    )


def reproduction_curves(record: Record) -> list[Curve]:
    """Our variants, then what the paper reports, marked as theirs."""
    curves = []
    for index, variant in enumerate(record["variants"]):
        color, marker = OURS[index % len(OURS)]
        if spread := by_task(variant, "accuracy"):
            name = f"ReduNet, {variant['name']} (ours)"
            curves.append(_curve(name, spread, color, marker, width=2.6))
    for index, (name, values) in enumerate(paper_rows(record).items()):
        if name == "ReduNet":
            curves.append(_paper_curve(values))
            continue
        color, marker = RIVALS[(index - 1) % len(RIVALS)]
        dash = "--" if name in KEEP_EXEMPLARS else "-"
        curves.append(Curve(f"{name} (theirs)", values, color, marker, dash, 1.5))
    return curves


def comparison_curves(record: Record) -> list[Curve]:
    """All methods of a comparison; joint training, which has no tasks, as a line across."""
    curves = []
    for method in record["methods"]:
        spread = by_task(method, "accuracy")
        if method["method"] == "joint":
            across = [spread[-1].mean] * len(record["stream"])
            curves.append(Curve(method["name"], across, "var(--ink)", dash=":", width=1.6))
            continue
        color, marker = METHODS[method["method"]]
        dash = "--" if method["raw_data_kept"] else "-"
        width = 3.0 if method["method"] == "redunet" else 1.5
        curves.append(_curve(method["name"], spread, color, marker, dash, width))
    return curves


def recipe_curves(record: Record) -> list[Curve]:
    """A recipe, its rivals on the same features, and what the paper reports."""
    theirs = [_paper_curve(values) for values in paper_rows(record).values()]
    return [*comparison_curves(record), *theirs]


def _paper_curve(values: Sequence[float]) -> Curve:
    return Curve("ReduNet, paper (theirs)", values, "var(--ink)", "D", width=1.3)


def _curve(
    name: str, spread: Sequence[Spread], color: str, marker: str, dash: str = "-", width: float = 2
) -> Curve:
    bars = [one.deviation for one in spread if one.deviation is not None]
    values = [one.mean for one in spread]
    return Curve(name, values, color, marker, dash, width, bars or None)


def rate_view(rates: Mapping[str, Sequence[float]], alt: str) -> View:
    """ΔR, R and R_c by layer.

    Parameters
    ----------
    rates : mapping from "R", "R_c" and "delta_R" to a value a layer
    alt : str
    """
    curves = [
        Curve(name, rates[key], RATES[key][0], dash=RATES[key][1], width=2.4)
        for key, name in RATE_NAMES.items()
    ]
    rows = [
        [str(layer), *(f"{value:.4f}" for value in values)]
        for layer, values in enumerate(zip(*(rates[key] for key in RATE_NAMES), strict=True))
    ]
    grid = Grid(
        "The objective in nats, by layers passed", ["layers passed", "ΔR", "R", "R_c"], rows
    )
    return lines(
        "rate",
        alt,
        grid,
        curves,
        first=0,
        x=("layers passed", "after layers:"),
        y="nats",
        number_format=".4f",
        y_axis={"rangemode": "tozero"},
    )


def matrix_view(name: str, spreads: Sequence[Sequence[Spread]]) -> View:
    """Accuracy on each task's own classes after each task.

    Parameters
    ----------
    name : str
        Whose accuracy it is.
    spreads : sequence of rows
        Of row t, one for each of the tasks up to t.
    """
    count = len(spreads)
    tasks = [str(number) for number in range(1, count + 1)]
    blank = [""] * count
    cells = [[shown(one) for one in row] for row in spreads]
    table = [
        [f"after task {t}", *row, *blank[len(row) :]] for t, row in zip(tasks, cells, strict=True)
    ]
    headings = ["", *(f"task {task}" for task in tasks)]
    last = ", ".join(three(one.mean) for one in spreads[-1])
    values: list[list[float | None]] = [
        [*(one.mean for one in row), *[None] * (count - len(row))] for row in spreads
    ]
    return heat_map(
        name,
        f"Heat map of the accuracy of {name} on each task's own classes; after task {count}: "
        f"{last}.",
        Grid(f"Accuracy on each task's own classes: {name}", headings, table),
        values,
        rows=("after task", tasks),
        columns=("on task", tasks),
        what="accuracy",
        cells=[["" if v is None else three(v) for v in row] for row in values],
        said=[[cell or UNKNOWN for cell in [*row, *blank[len(row) :]]] for row in cells]
        if any(one.deviation is not None for row in spreads for one in row)
        else None,
    )


def confusion_view(name: str, confusion: Mapping[str, Any]) -> View:
    """What the samples of each class are taken for.

    Parameters
    ----------
    name : str
        Who takes them for it.
    confusion : mapping
        ``labels`` of k classes, and ``counts``, k rows of k whole numbers: a row
        for each true class, a column for each label given.
    """
    every_count = confusion["counts"]
    right = sum(row[j] for j, row in enumerate(every_count))
    everything = sum(map(sum, every_count))
    worst = _most_mistaken(every_count, MOST_CLASSES)
    labels = [str(confusion["labels"][j]) for j in worst]
    counts = [[every_count[i][j] for j in worst] for i in worst]
    totals = [sum(every_count[i]) for i in worst]
    if len(worst) < len(every_count):
        name += f" ({len(worst)} classes with most mistakes of {len(every_count)})"
    shares: list[list[float | None]] = [
        [count / total if total else None for count in row]
        for row, total in zip(counts, totals, strict=True)
    ]
    said = [
        [f"{count:,} of {total:,} samples" for count in row]
        for row, total in zip(counts, totals, strict=True)
    ]
    table = [[label, *(f"{n:,}" for n in row)] for label, row in zip(labels, counts, strict=True)]
    return heat_map(
        name,
        f"Heat map of what {name} takes the samples of each class for: {right:,} of "
        f"{everything:,} are labelled rightly. {_worst(labels, counts)}",
        Grid(f"Samples by true class (rows) and label given: {name}", ["", *labels], table),
        shares,
        rows=("true class", labels),
        columns=("label given", labels),
        what="share",
        number_format=".1%",
        cells=[[f"{v:.0%}" if v and v >= 0.005 else "" for v in row] for row in shares],
        said=said,
    )


def _most_mistaken(counts: Sequence[Sequence[int]], most: int) -> list[int]:
    """The classes with most mistakes, both of them and for them, in the order they had."""
    columns = list(zip(*counts, strict=True))
    mistakes = [sum(row) + sum(columns[j]) - 2 * row[j] for j, row in enumerate(counts)]
    found = sorted(range(len(counts)), key=mistakes.__getitem__, reverse=True)[:most]
    return sorted(found)


def _worst(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    pairs = [
        (count, true, given)
        for true, row in zip(labels, counts, strict=True)
        for given, count in zip(labels, row, strict=True)
        if given != true and count
    ]
    if not pairs:
        return "None is taken for another."
    count, true, given = max(pairs, key=lambda pair: pair[0])
    return f"Most often mistaken: {true} for {given}, {count:,} times."


def confusion_plot(confusions: Mapping[str, Mapping[str, Any]], of: str) -> Plot:
    """What the samples of each class are taken for, by whom a reader chooses."""
    caption = f"What the test samples of each class are labelled as, as shares of the class. {of}"
    views = [confusion_view(name, one) for name, one in confusions.items()]
    return Plot(caption.rstrip(), views, choose="labelled by")
