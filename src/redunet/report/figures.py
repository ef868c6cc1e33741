"""Figures, by Matplotlib, without touching its global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from redunet.errors import DataError
from redunet.report.lines import INK, MUTED, Line, framed, name_lines, plain, png
from redunet.report.palette import KEEP_EXEMPLARS, METHODS, OURS, RATES, RIVALS
from redunet.report.seeds import Record, by_task, n_tasks, paper_rows
from redunet.report.tables import shown, three

BLUE, ORANGE = "#2f6fde", "#d9730d"

DASHED = (0, (5, 2))


def accuracy_and_rate(
    accuracy: Mapping[str, Sequence[float]],
    tasks: Sequence[str],
    rates: Mapping[str, Sequence[float]],
    title: str,
) -> bytes:
    """Accuracy after each task beside the objective at each layer, as a PNG picture.

    Parameters
    ----------
    accuracy : mapping from a learner's name to its accuracy after each task
    tasks : sequence of str
        What each task is called on the axis.
    rates : mapping from a quantity's name to its value at each layer
    title : str
    """
    figure = Figure(figsize=(9.6, 3.9), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(title, x=0.012, ha="left", fontsize=11, fontweight="bold", color=INK)
    plain(left, "task: classes it brought", "accuracy on all classes seen")
    positions = range(len(tasks))
    styles = [("o", "-", BLUE, 5.5, 1.8), ("D", "none", ORANGE, 9.5, 1.4)]
    for (name, values), (marker, line, color, size, width) in zip(
        accuracy.items(), styles, strict=False
    ):
        left.plot(
            positions,
            values,
            marker=marker,
            linestyle=line,
            color=color,
            markersize=size,
            linewidth=width,
            markerfacecolor="none" if line == "none" else color,
            label=name,
        )
    for x, y in zip(positions, next(iter(accuracy.values())), strict=True):
        left.annotate(
            f"{y:.3f}",
            (x, y),
            (0, -18),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    left.set_xticks(list(positions), list(tasks))
    low = min(min(values) for values in accuracy.values())
    left.set_ylim(max(0.0, low - 0.6 * (1.0 - low) - 0.01), 1.0 + 0.1 * (1.0 - low) + 0.002)
    left.legend(frameon=False, fontsize=9, loc="lower left")
    plain(right, "layer", "nats")
    for (name, values), color in zip(rates.items(), (BLUE, MUTED, ORANGE), strict=False):
        right.plot(range(len(values)), values, color=color, linewidth=1.8, label=name)
    right.legend(frameon=False, fontsize=9, loc="lower right")
    right.set_ylim(bottom=0)
    return png(figure)


def accuracy_over_tasks(record: Record) -> bytes:
    """Accuracy against the number of tasks seen, in the form of the paper's figure, as a PNG.

    Ours, variant by variant, with bars of one standard deviation where there
    are several seeds; and, marked as theirs, the paper's ReduNet and its
    rivals: solid lines for methods that keep no samples, dashed for those that do.

    Parameters
    ----------
    record : mapping
        A reproduction record.
    """
    lines = [*_paper_lines(record), *_our_lines(record)]
    notes = ["accuracy on the test samples of all classes seen"]
    if len(paper_rows(record)) > 1:
        notes.append("solid: no samples kept, dashed: exemplars kept")
    if any(line.deviations for line in lines):
        notes.append("ours: mean and one standard deviation over seeds")
    if record.get("paper"):
        notes.append(f"theirs: as printed in {record['paper']['source']}, not run again here")
    return _over_tasks(record["what"], "; ".join(notes), 5.0, lines, n_tasks(record))


def methods_over_tasks(record: Record) -> bytes:
    """Accuracy of all methods of a comparison against the number of tasks seen, as a PNG.

    Solid lines for methods that keep no samples, dashed for those that do,
    and a dotted line across for joint training, which sees all tasks at once.

    Parameters
    ----------
    record : mapping
        A comparison record with at least one finished run.
    """
    count = len(record["stream"])
    lines = [_method_line(method, count) for method in reversed(record["methods"])]
    notes = ["accuracy on the test samples of all classes seen"]
    notes.append("solid: no samples kept, dashed: exemplars kept, dotted: joint training")
    if any(line.deviations for line in lines):
        notes.append("bars: one standard deviation over seeds")
    height = max(5.0, 1.6 + 0.32 * len(lines))
    return _over_tasks(record["what"], "; ".join(notes), height, lines, count)


def recipe_over_tasks(record: Record) -> bytes:
    """Accuracy of a recipe against the number of tasks seen, as a PNG.

    Beside it the closed-form methods on the same features, and the paper's network.

    Parameters
    ----------
    record : mapping
        A record of `redunet ablate`.
    """
    count = len(record["stream"])
    ours = [_method_line(method, count) for method in reversed(record["methods"])]
    lines = [*_paper_lines(record), *ours]
    notes = ["accuracy on the test samples of all classes seen, all from the same class moments"]
    if any(line.deviations for line in lines):
        notes.append("bars: one standard deviation over seeds")
    if record.get("paper"):
        notes.append(f"theirs: as printed in {record['paper']['source']}, not run again here")
    return _over_tasks(record["what"], "; ".join(notes), 5.0, lines, count, zero_below=0.0)


def _over_tasks(
    title: str,
    notes: str,
    height: float,
    lines: Sequence[Line],
    n_tasks: int,
    zero_below: float = 0.6,
) -> bytes:
    """Lines over tasks; the axis begins at zero where one of them falls below a mark."""
    figure, axes = framed(title, notes, height)
    axes.set_xlabel("number of tasks seen", fontsize=9.5, color=INK)
    low = min(min(line.values) for line in lines)
    floor = 0.0 if low < zero_below else max(0.0, low - 0.2 * (1.0 - low) - 0.005)
    axes.set_ylim(floor, 1.0 + 0.03 * (1.0 - low))
    axes.set_xlim(0.85, n_tasks + 0.15)
    axes.set_xticks(range(1, n_tasks + 1))
    for line in lines:
        x = range(1, len(line.values) + 1)
        axes.errorbar(x, line.values, line.deviations, capsize=5, clip_on=False, **line.style)
    name_lines(axes, lines, first=1)
    return png(figure)


def rate_by_layer(record: Record) -> bytes:
    """The objective ΔR and its parts R and R_c from layer to layer, as a PNG.

    Parameters
    ----------
    record : mapping
        A reproduction record; its first variant's first run is drawn.
    """
    variant = record["variants"][0]
    run = variant["runs"][0]
    if not run["rates"]["delta_R"]:
        raise DataError("expected the rates of at least one layer, got none: leave out this figure")
    lines = []
    for key, name in (
        ("R", "$R$, all classes together"),
        ("R_c", "$R_c$, class by class"),
        ("delta_R", "$\\Delta R = R - R_c$, the objective"),
    ):
        color, dash = RATES[key]
        values = run["rates"][key]
        style = {"color": color, "linestyle": dash, "linewidth": 2.0}
        lines.append(Line(f"{values[-1]:.4g}  {name}", values, style))
    notes = f"nats, after task {len(run['tasks'])}; {variant['name']}, seed {run['seed']}"
    figure, axes = framed(f"{record['what']}: rate reduction by layer", notes, 3.9)
    axes.set_xlabel("layers passed", fontsize=9.5, color=INK)
    axes.set_ylim(0.0, 1.08 * max(max(line.values) for line in lines))
    for line in lines:
        axes.plot(range(len(line.values)), line.values, **line.style)
    name_lines(axes, lines, first=0, parse_math=True)
    return png(figure)


def _paper_lines(record: Record) -> list[Line]:
    lines = []
    rows = paper_rows(record)
    for index, (name, values) in enumerate(reversed(rows.items())):
        if name == "ReduNet":
            style = {"color": INK, "marker": "D", "markersize": 9, "markerfacecolor": "none"}
            label = f"{three(values[-1])}  ReduNet, paper (theirs)"
            lines.append(Line(label, values, style | {"linewidth": 1.2}))
            continue
        color, marker = RIVALS[(len(rows) - 2 - index) % len(RIVALS)]
        style = {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.5}
        kept = name in KEEP_EXEMPLARS
        whence = "theirs, with exemplars" if kept else "theirs"
        style["linestyle"] = DASHED if kept else "-"
        lines.append(Line(f"{three(values[-1])}  {name} ({whence})", values, style))
    return lines


def _our_lines(record: Record) -> list[Line]:
    lines = []
    for index, variant in enumerate(record["variants"]):
        color, marker = OURS[index % len(OURS)]
        style = {"color": color, "marker": marker, "markersize": 5, "linewidth": 2.0}
        if not (spread := by_task(variant, "accuracy")):
            continue
        bars = [one.deviation for one in spread if one.deviation is not None]
        means = [one.mean for one in spread]
        label = f"{shown(spread[-1])}  ReduNet, {variant['name']} (ours)"
        lines.append(Line(label, means, style, bars or None))
    return lines


def _method_line(method: Record, n_tasks: int) -> Line:
    spread = by_task(method, "accuracy")
    label = f"{shown(spread[-1])}  {method['name']}"
    if method["method"] == "joint":
        bound = {"color": INK, "linestyle": ":", "linewidth": 1.5}
        return Line(label, [spread[-1].mean] * n_tasks, bound)
    color, marker = METHODS[method["method"]]
    ours = method["method"] == "redunet"
    style = {
        "color": color,
        "marker": marker,
        "markersize": 6 if ours else 5,
        "linewidth": 2.4 if ours else 1.4,
        "linestyle": DASHED if method["raw_data_kept"] else "-",
    }
    bars = [one.deviation for one in spread if one.deviation is not None]
    return Line(label, [one.mean for one in spread], style, bars or None)
