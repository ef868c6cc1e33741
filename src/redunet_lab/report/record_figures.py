"""The figures that only records have: accuracy over tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from colorsys import hls_to_rgb
from itertools import cycle

from redunet.report.blocks import INK, Curve, Figure, Lines, View
from redunet.report.shared_figures import in_words
from redunet_lab.baselines import GRADIENT
from redunet_lab.report.numbers import Record, Spread, by_task, label, over_seeds, paper_rows

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

KEEP_EXEMPLARS = frozenset({"iCaRL", "ER", "DER++"})
UPPER = 0.6
"""Where no curve falls below this, the axis does not begin at zero."""


def styles() -> dict[str, tuple[str, str]]:
    """The colour and marker of each method that has them."""
    own = {
        key: (getattr(one, "color", ""), getattr(one, "marker", ""))
        for key, one in GRADIENT.items()
    }
    return STYLES | {key: style for key, style in own.items() if all(style)}


def accuracy_figure(record: Record) -> list[Figure]:
    """Accuracy against the number of tasks seen; nothing where no method ran."""
    curves = accuracy_curves(record)
    if not curves:
        return []
    alt = in_words("Line chart of accuracy against the number of tasks seen", curves)
    caption = "Accuracy on the test samples of all classes seen, against the number of tasks seen."
    if any(curve.dash == "--" for curve in curves):
        caption += " Dashed: exemplars kept."
    if any(method["method"] == "joint" for method in record["methods"]):
        caption += " Dotted: joint training, all classes at once."
    if any(curve.deviations for curve in curves):
        caption += " Bars: one standard deviation over seeds."
    if any(curve.name.endswith("(theirs)") for curve in curves):
        caption += f" Theirs: as printed in {record['paper']['source']}, not run again here."
    view = View("all", alt, _accuracy_lines(curves))
    return [Figure("accuracy", str(record["what"]), caption, [view], choose="lines")]


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


def accuracy_lines(record: Record) -> Lines:
    """Accuracy of all methods against the number of tasks seen."""
    return _accuracy_lines(accuracy_curves(record))


def _accuracy_lines(curves: Sequence[Curve]) -> Lines:
    low = min(min(curve.values) for curve in curves)
    floor = 0.0 if low < UPPER else low - 0.2 * (1 - low) - 0.005
    bounds = (floor, 1.0 + 0.04 * (1.0 - floor))
    axes = "number of tasks seen", "accuracy on all classes seen", "task"
    return Lines(curves, *axes, bounds=bounds)
