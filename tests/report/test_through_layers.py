"""What a page shows of filters, and of samples before and after the layers."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from redunet import ReduNetClassifier
from redunet.cli.app import main
from redunet.estimators.inspection import at_depth
from redunet.features import Flatten, PatchFilters, Scattering
from redunet.report.blocks import Figure, HeatMap, Images, Lines, Text
from redunet.report.figures import png
from redunet.report.filters import filter_figure
from redunet.report.look import AFTER, BEFORE, Look
from redunet.report.samples import Samples
from redunet.report.through_layers import cosines, margin_blocks, means, similarity_blocks
from redunet.shift_invariant.patch_planes import PatchPlanes
from redunet_lab.recipes import from_recipe
from tests.made_records import plots_of

pytestmark = pytest.mark.usefixtures("one_thread")
X, Y = load_digits(return_X_y=True)
COLOUR = np.random.default_rng(0).integers(0, 256, (20, 12, 12, 3)).astype(np.uint8)


def look_at(n_layers: int, classes: int = 10, **settings: Any) -> Look:
    """A model of every second digit, and the others as samples."""
    x, y = X[classes > Y], Y[classes > Y]
    model = ReduNetClassifier(
        n_layers=n_layers, step=0.5, step_kind="relative", n_components=6, **settings
    )
    model.fit(x[::2], y[::2])
    return Look(model, Samples("digits", x[1::2], y[1::2], ()), layers=True)


@pytest.mark.parametrize("n_layers", [1, 4])
def test_a_model_of_fewer_layers_is_the_first_layers(n_layers: int) -> None:
    model = look_at(8).network
    fewer = at_depth(model, n_layers)
    assert fewer.moments_ == model.moments_
    for one, other in zip(fewer.network_.layers, model.network_.layers, strict=False):
        assert one.step == other.step
        assert (one.E == other.E).all()
    assert model.n_layers == 8


def test_margins_are_those_of_the_read_out() -> None:
    look = look_at(3)
    (figure, words) = margin_blocks(look)
    assert list(look.depths) == [AFTER, BEFORE]
    assert look.samples is not None
    right = look.network.score(look.samples.X, look.samples.y)
    assert (look.depths[AFTER].margins > 0).mean() == right
    alone = look.network.set_params(n_layers=0).score(look.samples.X, look.samples.y)
    assert (look.depths[BEFORE].margins > 0).mean() == alone
    assert isinstance(words, Text)
    assert f"after the last layer {right:.1%} of them are above zero" in words.text
    assert isinstance(figure, Figure)
    lines = figure.views[0].drawing
    assert isinstance(lines, Lines)
    assert [curve.name for curve in lines.curves] == [BEFORE, AFTER]
    for curve in lines.curves:
        assert all(low <= high for low, high in pairwise(curve.values))
        assert len(curve.values) == 99
    assert lines.level == 0


def test_margins_of_two_classes() -> None:
    look = look_at(2, classes=2)
    assert look.samples is not None
    right = look.network.score(look.samples.X, look.samples.y)
    assert (look.depths[AFTER].margins > 0).mean() == right


def test_many_layers_are_shown_half_way_too() -> None:
    look = look_at(5)
    assert list(look.depths) == [AFTER, "after 2 of 5 layers", BEFORE]
    figure, words = similarity_blocks(look)
    assert isinstance(figure, Figure)
    assert isinstance(words, Text)
    assert [view.name for view in figure.views] == list(look.depths)
    counts = [len(rows) for _, rows in look.compared]
    assert sum(counts) == 120
    for view, passed in zip(figure.views, look.depths.values(), strict=True):
        assert isinstance(view.drawing, HeatMap)
        assert np.array(view.drawing.values) == pytest.approx(cosines(passed.Z))
        assert view.drawing.groups == [(str(digit), 12) for digit in range(10)]
        mean = np.mean(np.array(view.drawing.values)[12:24, 36:48])
        assert view.table.rows[1][4] == f"{mean:.3f}"  # the table has the means of classes
    (_, before), (_, after) = (
        means(cosines(look.depths[depth].Z), counts) for depth in (BEFORE, AFTER)
    )
    assert after < before  # samples of different classes become more orthogonal
    assert f"and {after:.3f} after the last layer." in words.text


def test_mean_cosines() -> None:
    Z = np.array([[1.0, 0], [1, 0], [0, 1], [0, -1]])
    found = cosines(Z)  # less their mean, (0.5, 0)
    assert np.diag(found) == pytest.approx(1)
    assert means(np.arange(16.0).reshape(4, 4), [2, 2]) == (7.5, 7.5)
    assert means(np.eye(2), [1, 1]) == (1.0, 0.0)


def test_without_labels_or_layers_there_is_nothing_to_show() -> None:
    look = look_at(2)
    assert look.samples is not None
    unlabelled = Samples("digits", look.samples.X, None, ())
    for other in (
        Look(look.model, unlabelled, layers=True),
        Look(look.model, None, layers=True),
        Look(look.model, look.samples, layers=False),
        look_at(0),
        look_at(2, classes=1),
    ):
        assert similarity_blocks(other) == margin_blocks(other) == []


@pytest.mark.parametrize("images", [COLOUR, COLOUR[..., 0]])
def test_filters_are_drawn_as_they_are(images: Any) -> None:
    features = PatchFilters.learn(images, 0, 35, 5)
    (figure,) = filter_figure(features)
    tiles = figure.views[0].drawing
    assert isinstance(tiles, Images)
    assert figure.views[0].name == "5 × 5 pixels"
    drawn = np.array(tiles.tiles)
    assert drawn.shape[:4] == (2, 16, 5, 5)  # rows that are full
    assert np.abs(drawn).max(axis=(2, 3) if drawn.ndim == 4 else (2, 3, 4)) == pytest.approx(1)
    if images.ndim == 4:
        drawn = np.moveaxis(drawn, 4, 2)  # values of one channel come one after another
    scaled = features.filters[:32] / features.filters[:32].abs().amax(dim=1, keepdim=True)
    assert drawn.reshape(32, -1) == pytest.approx(scaled.numpy())
    with Image.open(io.BytesIO(png(figure))) as picture:
        assert picture.size[0] == 1600


def test_filters_are_found_inside_other_maps() -> None:
    model = from_recipe("images-cpu", COLOUR, n_filters=20, patch_size=4, cells=1)
    (figure,) = filter_figure(model.features)
    assert [view.name for view in figure.views] == ["4 × 4 pixels", "6 × 6 pixels"]
    (figure,) = filter_figure(PatchPlanes.learn(COLOUR, 0, 100, 5))
    assert "patches of images of the first task, of mean 0. The first 96 of 100" in figure.caption
    for features in (None, Flatten((3, 3)), Scattering((12, 12), 1)):
        assert filter_figure(features) == []


def test_figures_as_files(tmp_path: Path) -> None:
    images = X.reshape(-1, 8, 8).astype(np.uint8)
    some = Y < 4
    model = from_recipe("images-fast", images[Y < 2], n_filters=16, patch_size=3, n_layers=2)
    model.fit(images[some][:300], Y[some][:300]).save(tmp_path / "model")
    words = ["report", str(tmp_path / "model"), "--samples", "digits"]
    words += ["-o", str(tmp_path / "page.html"), "--figures", str(tmp_path / "figures")]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 0, said.output
    assert f"its figures are in {tmp_path / 'figures'}" in said.output.replace("\n", "")
    names = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert names >= {"filters", "similarity", "margins", "angles", "spectra", "confusion"}
    plots = plots_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    titles = "0 1 2 3 samples, class after class"
    assert [p for p in plots if p[0].startswith(f"{titles} {titles}")]  # names of classes
    for name in ("similarity", "angles"):  # two depths side by side
        with Image.open(tmp_path / "figures" / f"{name}.png") as picture:
            assert picture.size[0] == 1600
            assert picture.size[1] < 1300
