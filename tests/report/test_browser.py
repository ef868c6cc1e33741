"""The page in a real browser: choices without scripts, in two themes, on a phone, and by itself."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier
from redunet.features import Flatten
from redunet.report import page as write_page
from redunet.report.html import to_html
from redunet_lab.report.sections import chapter
from tests.made_records import HOSTILE
from tests.made_records import RECORDS as REPRODUCTIONS
from tests.records import record as committed

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install it")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page in: make browser"),
    pytest.mark.usefixtures("one_thread"),
]

PAGES = ("model", "colour", "comparison", "hostile", "several")
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    X, y = load_digits(return_X_y=True)
    ReduNetClassifier(n_layers=8).fit(X[::2], y[::2]).save(folder / "digits")
    np.savez(folder / "digits.npz", x=X[1::2], y=y[1::2])
    write_page([folder / "digits"], paths["model"], samples=str(folder / "digits.npz"))
    images = np.random.default_rng(0).integers(0, 256, (40, 6, 6, 3)).astype(np.uint8)
    labels = np.array(["a rather long name of a class", "b", "c", "d"])[np.arange(40) % 4]
    model = ReduNetClassifier(n_layers=2, features=Flatten((6, 6, 3)), n_components=5)
    model.fit(images, labels).save(folder / "colour")
    write_page([folder / "colour"], paths["colour"])
    comparison = committed("compare-mnist")
    comparison["methods"][0]["confusion"] = {"labels": [0, 1], "counts": [[3, 1], [0, 4]]}
    compared, hostile = chapter(comparison), chapter(REPRODUCTIONS["hostile"])
    both = {"comparison": [compared], "hostile": [hostile], "several": [compared, hostile]}
    for name, chapters in both.items():
        paths[name].write_text(to_html(chapters), encoding="utf-8")
    return paths


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path]) -> Iterator[Open]:
    """Opens a page; afterwards nothing may have been asked for or complained of."""
    asked: list[str] = []
    complaints: list[str] = []

    def stop(route: Any) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    with ExitStack() as contexts:

        def open_page(name: str, width: int = 1100, theme: str = "light", **more: Any) -> Any:
            size = {"width": width, "height": 900}
            context = browser.new_context(viewport=size, color_scheme=theme, **more)
            contexts.callback(context.close)
            context.route("**/*", stop)
            found = context.new_page()
            found.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
            found.on("pageerror", lambda error: complaints.append(str(error)))
            found.on("dialog", lambda dialog: complaints.append(dialog.message))
            found.goto(pages[name].as_uri())
            return found

        yield open_page
        assert complaints == []
        assert asked == []


@pytest.mark.parametrize("name", ["model", "colour", "several"])
def test_one_picture_of_each_figure_is_seen(opened: Open, name: str) -> None:
    page = opened(name, java_script_enabled=False)
    figures = page.locator("figure").all()
    assert len(figures) >= 3
    for figure in figures:
        (place,) = [one for one in figure.locator(".plot").all() if one.is_visible()]
        box = place.locator("svg").bounding_box()
        assert box["width"] > 900
        assert 150 < box["height"] < 1200
        assert place.locator("text").count() > 2


def test_a_reader_chooses_what_is_seen(opened: Open) -> None:
    page = opened("model", java_script_enabled=False)
    figure = page.locator("figure", has_text="degrees").first
    names = ("after the last layer", "before the first layer")
    last, first = (figure.locator(f'.plot[aria-label*="{name}"]') for name in names)
    assert last.is_visible()
    assert not first.is_visible()
    figure.get_by_text(names[1], exact=True).first.click()
    assert first.is_visible()
    assert not last.is_visible()
    page.keyboard.press("ArrowUp")  # the other one, by the keyboard
    assert last.is_visible()


def colors(page: Any) -> list[str]:
    """Those of the page, its words, and the words in a picture; how heat maps are turned round."""
    found: list[str] = page.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.body).color,
            getComputedStyle(document.querySelector("svg text")).fill,
            getComputedStyle(document.querySelector("image")).filter]"""
    )
    return found


LIGHT = ["rgb(255, 255, 255)", "rgb(27, 31, 36)", "rgb(27, 31, 36)", "none"]
DARK = ["rgb(13, 17, 23)", "rgb(230, 237, 243)", "rgb(230, 237, 243)"]
DARK += ["invert(1) hue-rotate(180deg)"]


@pytest.mark.parametrize(
    ("theme", "first", "other"), [("light", LIGHT, DARK), ("dark", DARK, LIGHT)]
)
def test_the_theme_is_the_systems_or_the_other_one(
    opened: Open, theme: str, first: list[str], other: list[str]
) -> None:
    page = opened("model", theme=theme)
    assert colors(page) == first
    page.get_by_label("other theme").click()
    assert colors(page) == other
    page.get_by_label("other theme").click()
    assert colors(page) == first


def test_pictures_in_colour_keep_their_colours(opened: Open) -> None:
    page = opened("colour", theme="dark")
    images = page.locator(".photos image").all()
    assert images
    for image in images:
        assert image.evaluate("image => getComputedStyle(image).filter") == "none"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_their_ground(opened: Open, theme: str) -> None:
    page = opened("model", theme=theme)

    def luminance(color: str) -> float:
        parts = np.array([int(part) for part in re.findall(r"\d+", color)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for words in ("p", "h2", "figcaption", "summary", "thead th", "legend", ".pill", "svg text"):
        kind = "fill" if words == "svg text" else "color"
        ink = page.evaluate(f"getComputedStyle(document.querySelector('{words}')).{kind}")
        high, low = sorted((luminance(ink), luminance(ground)), reverse=True)
        assert (high + 0.05) / (low + 0.05) > 4.5, words


@pytest.mark.parametrize(
    ("name", "width"), [("model", 360), ("colour", 360), ("several", 360), ("hostile", 768)]
)
def test_nothing_sticks_out_on_a_phone(opened: Open, name: str, width: int) -> None:
    page = opened(name, width=width, is_mobile=True)
    for details in page.locator("details").all():
        details.evaluate("details => { details.open = true; }")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for place in page.locator(".plot:visible").all():
        box = place.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        # Letters stay readable; a picture that is wider is moved, like a table.
        scale = place.locator("svg").evaluate("svg => svg.getScreenCTM().a")
        assert scale * 9 > 9.5
        place.evaluate("place => { place.scrollLeft = 1000; }")
        assert place.evaluate("place => place.scrollLeft + place.clientWidth") >= 640


def test_lines_are_named_beside_them(opened: Open) -> None:
    page = opened("comparison")
    accuracy = page.locator(".plot").first
    labels = accuracy.locator("text").filter(has_text=re.compile(r"\d\.\d{3}.*[A-Za-z]"))
    assert labels.count() == 13
    boxes = sorted((label.bounding_box() for label in labels.all()), key=lambda box: box["y"])
    for upper, lower in pairwise(boxes):
        assert lower["y"] - upper["y"] > 10  # none on another
    assert max(box["x"] + box["width"] for box in boxes) <= 1030


@pytest.mark.parametrize("name", ["comparison", "model"])
def test_the_first_column_stays_when_a_table_is_scrolled(opened: Open, name: str) -> None:
    page = opened(name, width=360, is_mobile=True)
    scrolled = 0
    for region in page.locator("section > .scroll").all():
        cell = region.locator("tbody th").first
        before = cell.bounding_box()["x"]
        region.evaluate("region => { region.scrollLeft = 1000; }")
        scrolled += region.evaluate("region => region.scrollLeft") > 0
        assert cell.bounding_box()["x"] == before
    assert scrolled


def test_behind_every_figure_is_a_table(opened: Open) -> None:
    page = opened("comparison", java_script_enabled=False)
    for figure in page.locator("figure").all():
        table = figure.locator("table").first
        assert not table.is_visible()
        figure.locator("summary").click()
        assert table.is_visible()


def test_hostile_names_are_words(opened: Open) -> None:
    page = opened("hostile")
    words = " ".join(page.locator(".plot").first.locator("text").all_text_contents())
    assert f"0.959 ReduNet, {HOSTILE}" in " ".join(words.split())
    assert page.locator("h1").text_content() == HOSTILE
    assert page.locator("script").count() == 0


def test_what_is_not_the_pages_own_neither_runs_nor_loads(
    browser: Any, pages: dict[str, Path]
) -> None:
    context = browser.new_context()
    asked: list[str] = []

    def pass_on(route: Any) -> None:
        asked.append(route.request.url)
        route.continue_()

    context.route("**/*", pass_on)
    page = context.new_page()
    page.goto(pages["model"].as_uri())
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            const image = document.createElement("img");
            image.src = "https://example.org/picture.png";
            document.body.append(image);
        }"""
    )
    reached = page.evaluate("fetch('https://example.org/').then(() => true, () => false)")
    assert reached is False
    assert page.evaluate("window.ran") is None
    assert asked == [pages["model"].as_uri()]
    context.close()
