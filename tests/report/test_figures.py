"""Figures: what is drawn, and that nothing of Matplotlib is left changed."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from redunet.report.lines import _apart

from redunet.errors import DataError
from redunet.report import figures
from tests.made_records import (
    RECORDS,
    every_record,
)


@every_record
def test_the_figure_of_accuracy(record: dict[str, Any]) -> None:
    with Image.open(io.BytesIO(figures.accuracy_over_tasks(record))) as image:
        assert (image.format, image.size) == ("PNG", (1600, 1000))
        assert len(image.convert("RGB").getcolors(1 << 20) or ()) > 20


def test_the_figure_of_rates() -> None:
    for name in ("one seed", "hostile"):
        with Image.open(io.BytesIO(figures.rate_by_layer(RECORDS[name]))) as image:
            assert (image.format, image.size) == ("PNG", (1600, 780))


def test_a_network_without_layers_has_no_figure_of_rates() -> None:
    record = copy.deepcopy(RECORDS["one seed"])
    record["variants"][0]["runs"][0]["rates"] = {"R": [], "R_c": [], "delta_R": []}
    with pytest.raises(DataError, match="expected the rates of at least one layer, got none"):
        figures.rate_by_layer(record)


def test_the_lines_of_the_figure() -> None:
    ours = figures._our_lines(RECORDS["three seeds"])[0]
    assert ours.label == "0.500 ± 0.000  ReduNet, variant 0 (ours)"
    assert ours.deviations == pytest.approx([0.1, 0.1, 0.0, 0.0, 0.0])
    assert figures._our_lines(RECORDS["one seed"])[0].deviations is None
    theirs = {line.label: line for line in figures._paper_lines(RECORDS["one seed"])}
    assert theirs["0.196  LwF (theirs)"].style["linestyle"] == "-"
    assert theirs["0.700  iCaRL (theirs, with exemplars)"].style["linestyle"] != "-"
    assert theirs["0.961  ReduNet, paper (theirs)"].values[-1] == 0.961


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.1)), min_size=1, max_size=8))
def test_labels_stay_apart_and_inside(labels: list[tuple[float, float]]) -> None:
    wanted = sorted(place for place, _ in labels)
    heights = [height for _, height in labels]
    places = _apart(wanted, heights)
    for (low, high), (below, above) in zip(pairwise(places), pairwise(heights), strict=True):
        assert high - low >= (below + above) / 2 - 1e-9
    assert min(places) >= 0
    assert max(places) <= 1 + 1e-9


def test_labels_with_room_stay_where_they_are_wanted() -> None:
    assert _apart([0.1, 0.5, 0.9], [0.1] * 3) == pytest.approx([0.1, 0.5, 0.9])
    assert _apart([0.5, 0.5], [0.1, 0.1]) == pytest.approx([0.45, 0.55])


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    # The backend is left out: to ask for it is to choose it.
    program = (
        "import sys, matplotlib\n"
        "now = lambda: {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != 'backend'}\n"
        "before = now()\n"
        "from redunet.report.figures import accuracy_over_tasks\n"
        "accuracy_over_tasks({'what': 'x', 'paper': None, 'variants': [{'name': 'v', 'runs': "
        "[{'tasks': [{'accuracy': 0.5}]}]}]})\n"
        "print('matplotlib.pyplot' in sys.modules, now() == before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False True\n", "")
