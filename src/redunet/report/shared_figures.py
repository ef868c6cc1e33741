"""Figures that pages of models and of records share: confusion matrices, and ΔR by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redunet.report.blocks import Curve, Figure, HeatMap, Lines, View
from redunet.report.words import three

RATES = {
    "delta_R": ("ΔR = R − R_c, the objective", "#0072B2", "-"),
    "R": ("R, all classes together", "#56B4E9", "--"),
    "R_c": ("R_c, class by class", "#D55E00", "-."),
}

MOST_CLASSES = 40
"""Of more classes a heat map shows a part: a page must stay small and readable."""


def in_words(what: str, curves: Iterable[Curve]) -> str:
    """The ends of a chart's lines, for a reader who cannot see it."""
    ends = [f"{c.name} from {three(c.values[0])} to {three(c.values[-1])}" for c in curves]
    return f"{what}: {'; '.join(ends)}."


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
