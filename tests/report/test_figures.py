"""Figures: what is described, what is drawn, and that nothing of Matplotlib is left changed."""

from __future__ import annotations

import base64
import copy
import io
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from redunet.report.blocks import INK, Figure, HeatMap, Images, View
from redunet.report.figures import png, svg
from redunet.report.shared_figures import confusion_figure, confusion_view, rate_figure
from redunet_lab.report.readme import FIGURES, draw, overview
from redunet_lab.report.record_figures import accuracy_curves, accuracy_figure, styles
from redunet_lab.report.sections import objective
from tests.made_records import RECORDS, every_record
from tests.records import ROOT, record

EXPERIMENTS = [path.stem for path in sorted((ROOT / "results").glob("*.json"))]


def size_of(data: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        assert len(image.convert("RGB").getcolors(1 << 20) or ()) > 20
        return image.size


@every_record
def test_the_figure_of_accuracy(record: dict[str, Any]) -> None:
    (figure,) = accuracy_figure(record)
    width, height = size_of(png(figure))
    assert width == 1600
    assert height >= 700


def test_the_figure_of_rates() -> None:
    rates = RECORDS["one seed"]["methods"][0]["runs"][0]["rates"]
    assert size_of(png(rate_figure(rates, "a $title$")))[0] == 1600


def test_the_figure_of_a_confusion_matrix() -> None:
    view = confusion_view("it", {"labels": ["$a$", "b"], "counts": [[3, 1], [0, 4]]})
    assert size_of(png(confusion_figure([view])))[0] == 1600


def test_many_classes_are_thinned_and_bounded() -> None:
    counts = [[10 if i == j else int(j == i + 1) for j in range(150)] for i in range(150)]
    view = confusion_view("it", {"labels": [f"class {i}" for i in range(150)], "counts": counts})
    assert isinstance(view.drawing, HeatMap)
    assert len(view.drawing.rows[1]) == len(view.table.rows) == 40
    assert view.name == "it (40 classes with most mistakes of 150)"
    assert size_of(png(confusion_figure([view])))[1] < 1800


def test_a_network_without_layers_has_no_figure_of_rates() -> None:
    record = copy.deepcopy(RECORDS["one seed"])
    assert objective(record)
    record["methods"][0]["runs"][0]["rates"] = {"R": [], "R_c": [], "delta_R": []}
    assert objective(record) == []


def test_the_curves_of_a_reproduction() -> None:
    ours, paper, lwf, icarl = accuracy_curves(RECORDS["three seeds"])
    assert ours.name == "ReduNet, variant 0"
    assert ours.deviations == pytest.approx([0.1, 0.1, 0.0, 0.0, 0.0])
    assert accuracy_curves(RECORDS["one seed"])[0].deviations is None
    assert (paper.name, paper.color, paper.values[-1]) == ("ReduNet, paper (theirs)", INK, 0.961)
    assert (lwf.name, lwf.dash) == ("LwF (theirs)", "-")
    assert (icarl.name, icarl.dash) == ("iCaRL (theirs)", "--")  # it keeps exemplars


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_two_methods_have_one_colour(name: str) -> None:
    curves = accuracy_curves(record(name))
    assert len({curve.color for curve in curves}) == len(curves)
    assert len({(curve.marker, curve.dash) for curve in curves}) >= len(curves) - 1


def test_own_methods_have_colours_of_their_own() -> None:
    made = copy.deepcopy(RECORDS["two variants"])
    run = made["methods"][0]["runs"][0]
    others = [*styles(), *(f"mine {number}" for number in range(20))]
    made["methods"] += [
        {**made["methods"][0], "method": key, "name": f"a {key}", "runs": [run]}
        for key in others
        if key != "redunet"
    ]
    made["paper"] = None
    curves = accuracy_curves(made)
    assert len(curves) == 40
    assert len({curve.color for curve in curves}) == 40


def test_the_picture_of_the_readme() -> None:
    picture = overview(record("compare-mnist"), record("digits-demo"))
    assert size_of(picture) == size_of((ROOT / "docs" / "overview.png").read_bytes())


def test_the_pictures_are_drawn_from_the_records(tmp_path: Path) -> None:
    before = {name: (ROOT / "results" / f"{name}-accuracy.png").read_bytes() for name in FIGURES}
    for folder in ("results", "docs"):
        (tmp_path / folder).mkdir()
    for name in (*FIGURES, "digits-demo"):
        source = ROOT / "results" / f"{name}.json"
        (tmp_path / "results" / source.name).write_bytes(source.read_bytes())
    draw(tmp_path)
    for name in FIGURES:
        again = (tmp_path / "results" / f"{name}-accuracy.png").read_bytes()
        assert size_of(again) == size_of(before[name])


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    # The backend is left out: to ask for it is to choose it.
    program = (
        "import sys, matplotlib\n"
        "now = lambda: {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != 'backend'}\n"
        "before = now()\n"
        "from redunet.report.figures import png, svg\n"
        "from redunet.report.shared_figures import rate_figure\n"
        "figure = rate_figure({'R': [1.0], 'R_c': [0.5], 'delta_R': [0.5]}, 'x')\n"
        "png(figure), svg(figure.views[0], 'x')\n"
        "print('matplotlib.pyplot' in sys.modules, now() == before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False True\n", "")


def a_heat_map(*names: str) -> View:
    values = [[1.0 / (1 + i + j) for j in range(len(names))] for i in range(len(names))]
    return View("it", "A heat map.", HeatMap(values, ("row", names), ("column", names), "share"))


@pytest.mark.parametrize("name", ["<b>", "$x_1$", "日本語", "a\x07b", "#1b1f24", "one\ntwo", ""])
def test_names_of_all_kinds_are_words(name: str) -> None:
    view = a_heat_map(name, "other")
    words = re.findall(r"<text[^>]*>(.*?)</text>", svg(view, "it"), re.DOTALL)
    shown = " ".join(name.split())
    assert [unescape(one) for one in words].count(shown) == (2 if shown else 0)
    assert size_of(png(Figure("it", name, name, [view])))[0] == 1600


def test_long_names_are_cut_and_stand_upright() -> None:
    picture = svg(a_heat_map(*(f"{number}_a_rather_long_name_of_one" for number in range(6))), "it")
    assert picture.count(">0_a_rather_long_name_…<") == 2
    assert picture.count("rotate(-90") == 6 + 2  # rows and scale have upright names too


def test_colours_are_those_of_the_theme() -> None:
    rates = {"R": [1.0, 2.0], "R_c": [0.5, 1.0], "delta_R": [0.5, 1.0]}
    picture = svg(rate_figure(rates, "x").views[0], "it")
    for known in ("var(--ink)", "var(--muted)", "var(--rule)", "light-dark(#0072b2, #55a1cb)"):
        assert known in picture
    assert re.findall(r"(?<!light-dark\()(?<!, )#[0-9a-f]{6}\b", picture) == []
    assert "font-family" not in picture


def test_pictures_are_one_raster() -> None:
    tiles = [[[[0.0, 1.0], [-1.0, 0.5]]] * 3] * 2
    names = ("row", ["a", "b"]), ("column", ["c", "d", "e"])
    images = Images(tiles, *names, what="share", figures=[["1"] * 3] * 2)
    (data,) = re.findall(r'base64,\s*(.*?)"', svg(View("it", "It.", images), "it"), re.DOTALL)
    with Image.open(io.BytesIO(base64.b64decode(data))) as sheet:
        assert sheet.size == (3 * 6 + 2 * 2, 2 * 6 + 2)
        colors = {sheet.getpixel((x, y)) for x in (0, 3) for y in (0, 3)}
    assert len(colors) == 4


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "many"])
def test_what_is_no_number_is_not_drawn(value: Any) -> None:
    rates = {"R": [1.0, value], "R_c": [0.5, 1.0], "delta_R": [0.5, 1.0]}
    with pytest.raises((TypeError, ValueError)):
        svg(rate_figure(rates, "x").views[0], "it")
