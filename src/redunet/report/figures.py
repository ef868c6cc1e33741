"""Figures, by Matplotlib, without touching its global state."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, BLUE, ORANGE, GREEN = "#1b1f24", "#6e7781", "#2f6fde", "#d9730d", "#2a9d6f"


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
    _plain(left, "task: classes it brought", "accuracy on all classes seen")
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
            f"{y:.3f}", (x, y), (0, -17), textcoords="offset points", ha="center", fontsize=8
        )
    left.set_xticks(list(positions), list(tasks))
    low = min(min(values) for values in accuracy.values())
    left.set_ylim(max(0.0, low - 0.6 * (1.0 - low) - 0.01), 1.0 + 0.1 * (1.0 - low) + 0.002)
    left.legend(frameon=False, fontsize=9, loc="lower left")
    _plain(right, "layer", "nats")
    for (name, values), color in zip(rates.items(), (BLUE, MUTED, ORANGE), strict=False):
        right.plot(range(len(values)), values, color=color, linewidth=1.8, label=name)
    right.legend(frameon=False, fontsize=9, loc="lower right")
    right.set_ylim(bottom=0)
    return _png(figure)


def _plain(axes: Axes, x: str, y: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.tick_params(colors=INK, labelsize=9)
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.grid(axis="y", color="#e6e8eb", linewidth=0.8)
    axes.set_axisbelow(True)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white")
    return buffer.getvalue()
