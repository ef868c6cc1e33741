"""The pictures of docs/idea.md are drawn, and show what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from docsite import figures
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.usefixtures("one_thread")
PAGE = " ".join((ROOT / "docs" / "idea.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_is_drawn(name: str, tmp_path: Path) -> None:
    drawn = figures.FIGURES[name]()
    assert isinstance(drawn, Figure)
    drawn.savefig(tmp_path / "figure.png")
    committed = ROOT / "docs" / "figures" / f"{name}.png"
    with Image.open(tmp_path / "figure.png") as new, Image.open(committed) as old:
        assert new.size == old.size
    assert committed.stat().st_size < 200_000
    assert f"(figures/{name}.png)" in PAGE


def test_classes_turn_orthogonal() -> None:
    least = figures.turning()[1]
    assert f"grows from {least[0]:.0f}° to {least[20]:.0f}°" in PAGE
    assert least[0] < least[4] < least[20]


def test_the_digits_are_as_the_page_says() -> None:
    layers = figures.of_digits().network_.layers
    before, after = figures.mean_angle(layers.first), figures.mean_angle(layers.last)
    assert f"grow from {before:.0f}° to {after:.0f}° on average" in PAGE
    rates = [rate.delta_R for rate in layers.rates]
    assert f"ΔR rises from {rates[0]:.0f} to {rates[-1]:.0f} over {len(rates)} layers" in PAGE
    assert rates == sorted(rates)
