"""The figure and the tables of ``benchmarks/growth.md``, from its record.

``python -m benchmarks.growth_page`` puts them there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from benchmarks import readme
from benchmarks.growth import FORMS, RECORD

FOLDER = Path(__file__).parent
PAGE, PICTURE = FOLDER / "growth.md", FOLDER / "growth.png"

DRAWN = (
    "CLINC150, settings for vectors",
    "MNIST",
    "generated, short steps",
    "generated, long steps",
)
PANELS = {
    "filters": "filters",
    "numbers": "numbers stored (8 bytes each)",
    "products": "products per answer",
}
STYLES: dict[str, dict[str, Any]] = {
    "plain": {"color": "#8c959f", "marker": "s"},
    "low_rank": {"color": "#1b1f24", "marker": "o"},
    "shared": {"color": "#0969da", "marker": "^"},
    "own": {"color": "#bc4c00", "marker": "D"},
    "both": {"color": "#1a7f37", "marker": "v", "linestyle": "--"},
}
CUT = ("shared", "own", "both")


def figure(record: dict[str, Any]) -> Figure:
    """Filters, numbers and products over the number of classes, a row of panels a case."""
    cases = [case for case in record["cases"] if case["case"] in DRAWN]
    drawing = Figure(figsize=(11, 2.9 * len(cases) + 0.9), dpi=110, layout="constrained")
    panels = drawing.subplots(len(cases), len(PANELS), squeeze=False)
    for row, case in zip(panels, cases, strict=True):
        for axes, (what, words) in zip(row, PANELS.items(), strict=True):
            _draw(axes, case, what)
            axes.set_title(words, fontsize=9, loc="left")
        row[0].set_ylabel(case["case"], fontsize=10, fontweight="bold")
    handles = panels[0, 0].get_lines()
    names = list(FORMS.values())
    drawing.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    return drawing


def _draw(axes: Axes, case: dict[str, Any], what: str) -> None:
    k = [row["k"] for row in case["rows"]]
    for form, style in STYLES.items():
        power = case["exponents"][form][what]
        values = [row[form][what] for row in case["rows"]]
        style = {"linewidth": 1.5, "markersize": 4, **style}
        axes.plot(k, values, label=f"$k^{{{power:.2f}}}$", **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(k, [f"{one:,}" for one in k])
    axes.set_xlabel("classes k", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(color="#e6e8eb", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    # Beside the lines: between them there is no room on every panel.
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def tables(record: dict[str, Any]) -> dict[str, str]:
    """The tables of the page, by the marks of their places."""
    cases = record["cases"]
    return {
        "directions": _table(
            ["", "classes k", "shared R", "of each class r", "both: R, r"],
            ([c["case"], *(_list(c["rows"], value) for value in _DIRECTIONS)] for c in cases),
        ),
        "numbers": _table(
            ["", "k", *FORMS.values()],
            ([c["case"], _list(_ends(c), _DIRECTIONS[0], " → "), *_per_class(c)] for c in cases),
        ),
        "exponents": _table(
            ["", *FORMS.values()],
            ([c["case"], *(_powers(c["exponents"][form]) for form in FORMS)] for c in cases),
        ),
        "price": _table(
            ["", "k", *(FORMS[form] for form in CUT)],
            (
                [c["case"], f"{_last(c)['k']:,}", *(_price(_last(c), form) for form in CUT)]
                for c in cases
            ),
        ),
        "labels": _labels(cases),
    }


_DIRECTIONS: tuple[Callable[[dict[str, Any]], str], ...] = (
    lambda row: f"{row['k']:,}",
    lambda row: str(row["shared"]["directions"]),
    lambda row: str(row["own"]["directions"]),
    lambda row: f"{row['both']['directions']}/{row['both']['directions_of_class']}",
)


def _list(
    rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], str], between: str = " · "
) -> str:
    return between.join(map(value, rows))


def _ends(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the fewest and of the most classes."""
    return [case["rows"][0], case["rows"][-1]]


def _last(case: dict[str, Any]) -> dict[str, Any]:
    return _ends(case)[1]


def _per_class(case: dict[str, Any]) -> list[str]:
    layers = case["model"]["schedule"]["n_layers"]

    def added(row: dict[str, Any], form: str) -> str:
        return f"{row[form]['of_classes'] / row['k'] / layers:,.0f}"

    ends = {form: [added(row, form) for row in _ends(case)] for form in FORMS}
    return [" → ".join(dict.fromkeys(one)) for one in ends.values()]


def _powers(powers: dict[str, float]) -> str:
    return " · ".join(f"{powers[what]:.2f}" for what in PANELS)


def _price(row: dict[str, Any], form: str) -> str:
    cut, exact = row[form], row["low_rank"]["products"]
    unchecked, checked = cut["products"] / exact, cut["products_checked"] / exact
    return f"{unchecked:.2f} · {checked:.2f} · {cut['fell_back']:.0%}"


def _labels(cases: list[dict[str, Any]]) -> str:
    rows = [row for case in cases for row in case["rows"]]
    answers = sum(row["checked"] for row in rows) * len(CUT)
    checked, unchecked = (
        sum(row[form][key] for row in rows for form in CUT)
        for key in ("labels_differ", "labels_differ_unchecked")
    )
    return (
        f"Answers of all cases and cuts: {answers:,}. Labels that differ from those of the whole "
        f"network: {checked} with the rule, {unchecked} where a cut network is trusted with every "
        f"sample."
    )


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    cells = [heads, ["---", *["---:"] * (len(heads) - 1)], *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def filled(text: str, record: dict[str, Any]) -> str:
    """The page with the tables of a record where they belong."""
    for name, body in tables(record).items():
        text = readme.between(text, f"{name} of benchmarks/results/growth.json: begin", body)
    return text


def main() -> None:
    """Make figure and tables."""
    record = json.loads(RECORD.read_text())
    figure(record).savefig(PICTURE)
    PAGE.write_text(filled(PAGE.read_text(), record))


if __name__ == "__main__":
    main()
