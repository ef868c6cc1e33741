"""The figures of a record: accuracy over tasks, the objective by layer, heat maps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from colorsys import hls_to_rgb
from itertools import cycle
from typing import Any

from redunet.report.blocks import INK, Curve, Figure, HeatMap, Lines, View
from redunet.report.numbers import (
    Record,
    Spread,
    by_task,
    label,
    over_seeds,
    paper_rows,
    shown,
    three,
)
from redunet.rivals import GRADIENT

# Okabe and Ito's colours and some of Tol's, told apart by colour-blind readers with the markers.
STYLES = {
    "redunet": ("#0072B2", "o"),
    "subspace": ("#4b3fae", "s"),
    "ncm": ("#56B4E9", "<"),
    "lda": ("#009E73", ">"),
    "ridge": ("#8a6d3b", "h"),
    "qda": ("#117a8b", "p"),
    "pairwise": ("#DDAA33", "*"),
    "slda": ("#332288", "8"),
    "air": ("#999933", "H"),
    "fecam": ("#882255", "P"),
    "ranpac": ("#AA4499", "X"),
    "klda": ("#CC6677", "d"),
}
"""Colours and markers of methods on class moments; those by gradient descent bring their own."""

RATES = {
    "delta_R": ("ΔR = R − R_c, the objective", "#0072B2", "-"),
    "R": ("R, all classes together", "#56B4E9", "--"),
    "R_c": ("R_c, class by class", "#D55E00", "-."),
}
KEEP_EXEMPLARS = frozenset({"iCaRL", "ER", "DER++"})
UPPER = 0.6
"""Curves that never fall below this are worth a view of their own."""

MOST_CLASSES = 40
"""Of more classes a heat map shows a part: a page must stay small and readable."""


def styles() -> dict[str, tuple[str, str]]:
    """The colour and marker of each method that has them."""
    own = {
        key: (getattr(one, "color", ""), getattr(one, "marker", ""))
        for key, one in GRADIENT.items()
    }
    return STYLES | {key: style for key, style in own.items() if all(style)}


def accuracy_figure(record: Record) -> list[Figure]:
    """Accuracy against the number of tasks seen; nothing where no method ran.

    Where some curves fall far below others, a second view has the upper ones alone.
    """
    curves = accuracy_curves(record)
    if not curves:
        return []
    alt = in_words("Line chart of accuracy against the number of tasks seen", curves)
    views = [View("all", alt, _accuracy_lines(curves))]
    upper = [curve for curve in curves if min(curve.values) >= UPPER]
    if 1 < len(upper) < len(curves):
        alt = f"{alt} Only those that stay above {UPPER}."
        views.append(View(f"those that stay above {UPPER}", alt, _accuracy_lines(upper)))
    caption = "Accuracy on the test samples of all classes seen, against the number of tasks seen."
    if any(curve.dash == "--" for curve in curves):
        caption += " Dashed: exemplars kept."
    if any(method["method"] == "joint" for method in record["methods"]):
        caption += " Dotted: joint training, all classes at once."
    if any(curve.deviations for curve in curves):
        caption += " Bars: one standard deviation over seeds."
    if any(curve.name.endswith("(theirs)") for curve in curves):
        caption += f" Theirs: as printed in {record['paper']['source']}, not run again here."
    return [Figure("accuracy", str(record["what"]), caption, views, choose="lines")]


def accuracy_curves(record: Record) -> list[Curve]:
    """All methods of a record, and what the paper reports of others; no two in one colour."""
    methods = record["methods"]
    papers = {
        name: values
        for name, values in paper_rows(record).items()
        if name not in {method["name"] for method in methods}
    }
    first_of_each = {method["method"]: method for method in reversed(methods)}
    looks, papers_of = styles(), {getattr(one, "title", key): key for key, one in GRADIENT.items()}
    known = {key for key in first_of_each if key in looks}
    taken = {looks[key][0] for key in known}
    taken |= {looks[papers_of[name]][0] for name in papers if name in papers_of}
    spare = _styles_but(taken)
    curves = []
    for method in methods:
        if not (spread := by_task(method)):
            continue
        if method["method"] == "joint":
            across = [spread[-1].mean] * len(record["stream"])
            bars = [spread[-1].deviation or 0.0] * len(across) if spread[-1].deviation else None
            curves.append(Curve(label(method), across, INK, None, ":", 1.6, bars))
            continue
        own = method["method"] in known and method is first_of_each[method["method"]]
        color, marker = looks[method["method"]] if own else next(spare)
        dash = "--" if method["raw_data_kept"] else "-"
        width = 2.6 if method["method"] == "redunet" else 1.5
        curves.append(_curve(label(method), spread, color, marker, dash, width))
        if joint := _joint(method):
            curves.append(Curve("joint training at each task", joint, "#D55E00", "D", "", 1.4))
    for name, theirs in papers.items():
        if name == "ReduNet":
            curves.append(Curve("ReduNet, paper (theirs)", theirs, INK, "D", width=1.3))
            continue
        color, marker = looks[papers_of[name]] if name in papers_of else next(spare)
        dash = "--" if name in KEEP_EXEMPLARS else "-"
        curves.append(Curve(f"{name} (theirs)", theirs, color, marker, dash, 1.5))
    return curves


def _styles_but(taken: Collection[str]) -> Iterator[tuple[str, str]]:
    """Colours and markers for methods of one's own and for variants, none of them taken."""
    yield from (style for style in reversed(styles().values()) if style[0] not in taken)
    for number, (_, marker) in enumerate(cycle(styles().values())):
        parts = hls_to_rgb(0.618 * number % 1, (0.35, 0.5)[number % 2], 0.6)
        yield "#" + "".join(f"{round(255 * part):02x}" for part in parts), marker


def _joint(method: Record) -> list[float]:
    """Accuracy of joint training after each task, where it was run each time."""
    by_seed = [[task.get("joint") for task in run["tasks"]] for run in method["runs"]]
    if not all(one for joint in by_seed for one in joint):
        return []
    return [one.mean for one in over_seeds([[j["accuracy"] for j in row] for row in by_seed])]


def _curve(
    name: str, spread: Sequence[Spread], color: str, marker: str, dash: str, width: float
) -> Curve:
    bars = [one.deviation for one in spread if one.deviation is not None]
    return Curve(name, [one.mean for one in spread], color, marker, dash, width, bars or None)


def in_words(what: str, curves: Iterable[Curve]) -> str:
    """The ends of a chart's lines, for a reader who cannot see it."""
    ends = [f"{c.name} from {three(c.values[0])} to {three(c.values[-1])}" for c in curves]
    return f"{what}: {'; '.join(ends)}."


def accuracy_lines(record: Record) -> Lines:
    """Accuracy of all methods against the number of tasks seen."""
    return _accuracy_lines(accuracy_curves(record))


def _accuracy_lines(curves: Sequence[Curve]) -> Lines:
    low = min(min(curve.values) for curve in curves)
    floor = 0.0 if low < UPPER else low - 0.2 * (1 - low) - 0.005
    bounds = (floor, 1.0 + 0.04 * (1.0 - floor))
    axes = "number of tasks seen", "accuracy on all classes seen", "task"
    return Lines(curves, *axes, bounds=bounds)


def rate_figure(rates: Mapping[str, Sequence[float]], title: str) -> Figure:
    """ΔR, R and R_c by layer.

    Parameters
    ----------
    rates : mapping from "R", "R_c" and "delta_R" to a value a layer
    title : str
    """
    curves = [
        Curve(name, rates[key], color, dash=dash, width=2.4)
        for key, (name, color, dash) in RATES.items()
    ]
    axes = "layers passed", "nats", "layers passed"
    drawing = Lines(curves, *axes, first=0, number_format=".4g")
    caption = "ΔR = R − R_c before each layer; R of all classes together, R_c class by class."
    view = View("the objective", in_words("Line chart by layer", curves), drawing)
    return Figure("rate", title, caption, [view])


def rate_words(rates: Mapping[str, Sequence[float]]) -> str:
    """From where to where the objective goes."""
    delta = rates["delta_R"]
    if len(delta) == 1:
        return f"Before the only layer the rate reduction ΔR is {three(delta[0])} nats."
    return (
        f"From the first to the last of {len(delta)} layers the rate reduction ΔR goes from "
        f"{three(delta[0])} to {three(delta[-1])} nats ({delta[-1] - delta[0]:+.3f})."
    )


def task_view(name: str, spreads: Sequence[Sequence[Spread]]) -> View:
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
    values: list[list[float | None]] = [
        [*(one.mean for one in row), *[None] * (count - len(row))] for row in spreads
    ]
    figures = [[*map(shown, row), *[""] * (count - len(row))] for row in spreads]
    deviations = any(one.deviation is not None for row in spreads for one in row)
    alt = f"Heat map of the accuracy of {name} on each task's own classes; after task {count}: "
    chart = HeatMap(
        values,
        rows=("after task", tasks),
        columns=("on task", tasks),
        what="accuracy",
        cells=[["" if v is None else three(v) for v in row] for row in values],
        figures=figures,
        notes=figures if deviations else None,
    )
    return View(name, f"{alt}{', '.join(three(one.mean) for one in spreads[-1])}.", chart)


def confusion_view(name: str, confusion: Mapping[str, Any]) -> View:
    """The confusion matrix; colours are spent on mistakes.

    Parameters
    ----------
    name : str
        Who gave the labels.
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
    notes = [
        [f"{count:,} of {total:,} samples" for count in row]
        for row, total in zip(counts, totals, strict=True)
    ]
    mistakes = [v for i, row in enumerate(shares) for j, v in enumerate(row) if v and i != j]
    return View(
        name,
        f"Confusion matrix of {name}: {right:,} of {everything:,} samples are labelled correctly. "
        f"{_worst(labels, counts)}",
        HeatMap(
            shares,
            rows=("true class", labels),
            columns=("label given", labels),
            what="share of the class",
            bounds=(0.0, max(mistakes, default=1.0)),
            number_format=".1%",
            cells=[[f"{v:.0%}" if v and v >= 0.005 else "" for v in row] for row in shares],
            figures=[[f"{count:,}" for count in row] for row in counts],
            notes=notes,
            mask_diagonal=True,
        ),
    )


def confusion_figure(views: Sequence[View], more: str = "") -> Figure:
    """Confusion matrices, of which a reader chooses."""
    caption = "How the test samples of each class are labelled, as shares of the class; correct "
    caption += f"labels, on the diagonal, have no colour. {more}"
    title = f"Confusion matrix: {views[0].name}"
    return Figure("confusion", title, caption.rstrip(), views, choose="labelled by")


def _most_mistaken(counts: Sequence[Sequence[int]], most: int) -> list[int]:
    """The classes with most mistakes, in their rows and columns, in the order they had."""
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
        return "There is no mistake."
    count, true, given = max(pairs, key=lambda pair: pair[0])
    return f"Most frequent mistake: {true} labelled as {given}, {count:,} times."
