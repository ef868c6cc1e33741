"""The figures and tables of ``results/images.md`` over the number of features, from their records.

``python -m benchmarks.widths_page`` puts them there, for each record that the page names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.readme import between
from benchmarks.widths import CLOSED, NETWORK, RESULTS, SAME
from redunet.report.drawing import MUTED, RULE, TEXT
from redunet.safety.files import write_bytes
from redunet_lab.report.record_figures import STYLES

FOLDER = Path(__file__).parent.parent / "results"
PAGE = FOLDER / "images.md"
MARK = re.compile(r"<!-- (widths table: \.\./benchmarks/results/(widths-[\w+.-]+)\.json) -->")
NAMES = {NETWORK: "network", SAME: "same read-out, no layers", "LDA": "LDA", "ridge": "ridge"}
LOOKS = {NETWORK: "redunet", SAME: "subspace", "LDA": "lda", "ridge": "ridge"}


def records(page: str) -> dict[str, str]:
    """The marks of tables on the page, and the names of their records."""
    return {match[1]: match[2] for match in MARK.finditer(page)}


def read(name: str) -> dict[str, Any]:
    """A record by its name."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def picture(name: str) -> Path:
    """Where the figure of a record lies."""
    return FOLDER / "figures" / f"{name}.png"


def figure(record: dict[str, Any]) -> Figure:
    """Accuracy over the number of features, a line for each method."""
    drawing = Figure(figsize=(8, 4.2), dpi=110, facecolor="white", layout="constrained")
    axes = drawing.subplots()
    for method in (*CLOSED, NETWORK):
        rows = [row for row in record["summary"] if method in row["accuracy"]]
        color, marker = STYLES[LOOKS[method]]
        axes.errorbar(
            [row["features"] for row in rows],
            [row["accuracy"][method] for row in rows],
            [row["deviation"][method] or 0.0 for row in rows],
            color=color,
            marker=marker,
            markersize=5,
            capsize=3,
            elinewidth=1.2,
            linewidth=2.8 if method == NETWORK else 1.6,
            linestyle=(0, (5, 2)) if method == SAME else "-",
            label=NAMES[method],
        )
    widths = [row["features"] for row in record["summary"]]
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(widths, [f"{width:,}" for width in widths])
    axes.set_xlabel("features", color=TEXT)
    axes.set_ylabel("accuracy on held-out training images", color=TEXT)
    axes.tick_params(colors=TEXT)
    axes.grid(color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], frameon=False, loc="lower right")
    return drawing


def table(record: dict[str, Any]) -> str:
    """A row for each width, and what the record says in words."""
    methods = (NETWORK, *CLOSED)
    lines = [
        "| filters | features | "
        + " | ".join(NAMES[method] for method in methods)
        + " | a closed form needs |",
        "| ---: | ---: |" + " ---: |" * (len(methods) + 1),
    ]
    narrowest, widest = (record["summary"][at]["features"] for at in (0, -1))
    for row in record["summary"]:
        cells = [f"{row['filters']:,}", f"{row['features']:,}"]
        best = max(row["accuracy"].values())
        for method in methods:
            value = row["accuracy"].get(method)
            text = "–" if value is None else f"{value:.4f}"
            if value is not None and row["deviation"][method] is not None:
                text += f" ± {row['deviation'][method]:.4f}"
            cells.append(f"**{text}**" if value == best and NETWORK in row["accuracy"] else text)
        needed = row.get("closed_form_features")
        if NETWORK not in row["accuracy"]:
            cells.append("–")
        elif needed == narrowest:
            cells.append(f"{narrowest:,} features or fewer")
        else:
            cells.append(f"more than {widest:,}" if needed is None else f"{needed:,} features")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"{record['sentence']} (`{record['command']}`)"])


def filled(page: str) -> str:
    """The page with all tables of its records in their places."""
    for mark, name in records(page).items():
        page = between(page, mark, table(read(name)))
    return page


def main() -> None:
    """Fill the page and draw the figures."""
    page = PAGE.read_text(encoding="utf-8")
    for name in records(page).values():
        figure(read(name)).savefig(picture(name))
    write_bytes(PAGE, filled(page).encode())


if __name__ == "__main__":
    main()
