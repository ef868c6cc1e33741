"""The page in a real browser: drawn, answering, in two themes, on a phone, and by itself."""

from __future__ import annotations

import json
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
from redunet.report.sections import chapter
from tests.made_records import HOSTILE
from tests.made_records import RECORDS as REPRODUCTIONS
from tests.report.test_comparison_report import RECORDS as COMPARISONS

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install it")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page in: make browser"),
    pytest.mark.usefixtures("one_thread"),
]

PAGES = ("model", "colour", "comparison", "reproduction", "hostile", "several")
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
    comparison = json.loads(json.dumps(COMPARISONS["mnist"]))
    comparison["methods"][0]["confusion"] = {"labels": [0, 1], "counts": [[3, 1], [0, 4]]}
    chapters = {
        "comparison": chapter(comparison),
        "reproduction": chapter(REPRODUCTIONS["two variants"]),
        "hostile": chapter(REPRODUCTIONS["hostile"]),
    }
    for name, one in chapters.items():
        paths[name].write_text(to_html([one]), encoding="utf-8")
    both = [chapters["comparison"], chapters["hostile"]]
    paths["several"].write_text(to_html(both), encoding="utf-8")
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


@pytest.mark.parametrize("name", ["model", "colour", "reproduction", "several"])
def test_every_plot_is_drawn(opened: Open, name: str) -> None:
    page = opened(name)
    plots = page.locator(".plot")
    assert plots.count() >= (3 if name == "colour" else 2)
    for place in plots.all():
        box = place.bounding_box()
        assert box["width"] > 600
        assert 150 < box["height"] < 1200
        wanted = place.evaluate("place => place.data.map(trace => trace.type)")
        assert place.locator(".scatterlayer .trace").count() == wanted.count("scatter")
        assert place.locator(".heatmaplayer image").count() == wanted.count("heatmap")
        assert place.locator(".imagelayer image").count() == wanted.count("image")
        assert place.locator(".xtick").count() > 1
        assert place.get_attribute("aria-label").endswith(".")
        assert place.get_attribute("role") == "img"


def point(place: Any, x: Any, y: Any) -> tuple[float, float]:
    """Where on the screen a plot has a point, brought into sight."""
    place.scroll_into_view_if_needed()
    at = place.evaluate(
        """(place, [x, y]) => {
            const { xaxis, yaxis } = place._fullLayout;
            const box = place.getBoundingClientRect();
            const along = (axis, value) => axis._offset
                + (axis.type === "category" ? axis.l2p(axis._categories.indexOf(value))
                                            : axis.d2p(value));
            return [box.x + along(xaxis, x), box.y + along(yaxis, y)];
        }""",
        [x, y],
    )
    return at[0], at[1]


def hovered(page: Any, place: Any, x: Any, y: Any) -> str:
    at = point(place, x, y)
    label = place.locator(".hoverlayer .hovertext")
    page.mouse.move(0, 0)
    label.first.wait_for(state="detached")  # that of the last point
    page.mouse.move(at[0] - 3, at[1] - 3)
    page.mouse.move(*at)
    label.first.wait_for()
    said: str = " ".join(label.all_text_contents())
    return said


def test_hover_gives_values(opened: Open) -> None:
    page = opened("comparison")
    accuracy, matrix, confusion = page.locator(".plot").all()
    last = accuracy.evaluate("place => place.data.find(t => t.name === 'ER').y[4]")
    assert "ERtask 5: 0.810 ± 0.010" in hovered(page, accuracy, 5, last)
    assert hovered(page, matrix, "2", "3") == "after task 3on task 2accuracy 0.917"
    assert hovered(page, confusion, "1", "0") == (
        "true class 0label given 1share of the class 25.0%1 of 4 samples"
    )
    assert "75.0%3 of 4 samples" in hovered(page, confusion, "0", "0")


def test_hover_gives_values_of_a_model(opened: Open, pages: dict[str, Path]) -> None:
    page = opened("model")
    confusion, memberships, *of_samples, angles, spectra, directions, rate = page.locator(
        ".plot"
    ).all()
    cosines, margins = of_samples
    assert re.fullmatch(r"size of the cosine [01]\.\d{3}", hovered(page, cosines, 3, 7))
    margin = margins.evaluate("place => place.data[0].y[49]")
    assert f"percent 50: {margin:.3g}" in hovered(page, margins, 50, margin)
    values = rate.evaluate("place => place.data[0].y")
    assert f"layers passed 4: {values[4]:.4g}" in hovered(page, rate, 4, values[4])
    share = spectra.evaluate("place => place.data[3].y[0]")
    said = hovered(page, spectra, 1, share)
    assert re.search(r"class \ddirection 1: 0\.\d+", said)
    angle = angles.evaluate("place => place.data[0].z[9][4]")
    said = hovered(page, angles, "4", "9")
    assert said.startswith(f"class 9class 4degrees {angle:.1f}smallest principal angle ")
    tile = directions.evaluate("place => place.data[0].z[2][3]")
    assert hovered(page, directions, 3, 2) == f"direction 1, class 0{tile:.2f}"
    count = confusion.evaluate("place => place.data[1].customdata[7][7]")
    assert hovered(page, confusion, "7", "7").endswith(count)
    member = memberships.evaluate("place => place.data[0].z[0][5]")
    assert hovered(page, memberships, "6", "0") == f"class 0layer 6membership {member:.3f}"


def test_a_tap_gives_values_on_a_phone(opened: Open) -> None:
    page = opened("model", width=390, has_touch=True, is_mobile=True)
    rate = page.locator(".plot").last
    value = rate.evaluate("place => place.data[0].y[4]")
    page.touchscreen.tap(*point(rate, 4, value))
    label = rate.locator(".hoverlayer .hovertext")
    label.first.wait_for()
    assert f"{value:.4g}" in " ".join(label.all_text_contents())


def shows(page: Any, colors: list[str]) -> bool:
    """Whether page, its text, a plot's ground and the numbers on its axes come to have colours."""
    page.wait_for_function(
        """colors => JSON.stringify(colors) === JSON.stringify([
            getComputedStyle(document.body).backgroundColor,
            getComputedStyle(document.body).color,
            getComputedStyle(document.querySelector(".plot .main-svg")).backgroundColor,
            getComputedStyle(document.querySelector(".plot .xtick text")).fill,
        ])""",
        arg=colors,
        timeout=10_000,
    )
    return True


LIGHT = ["rgb(255, 255, 255)", "rgb(27, 31, 36)"] * 2
DARK = ["rgb(13, 17, 23)", "rgb(230, 237, 243)"] * 2


@pytest.mark.parametrize("name", ["model", "comparison"])
def test_themes_switch(opened: Open, name: str) -> None:
    page = opened(name)
    button = page.get_by_role("button")
    assert shows(page, LIGHT)
    assert button.text_content() == "Dark theme"
    button.click()
    assert shows(page, DARK)
    assert button.text_content() == "Light theme"
    button.click()
    assert shows(page, LIGHT)


def test_the_theme_of_the_system_is_followed_until_one_is_chosen(opened: Open) -> None:
    page = opened("comparison", theme="dark")
    assert shows(page, DARK)
    page.emulate_media(color_scheme="light")
    assert shows(page, LIGHT)
    page.get_by_role("button").click()
    assert shows(page, DARK)
    page.emulate_media(color_scheme="dark")
    page.emulate_media(color_scheme="light")
    assert shows(page, DARK)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_their_ground(opened: Open, theme: str) -> None:
    page = opened("comparison", theme=theme)

    def luminance(color: str) -> float:
        parts = np.array([int(part) for part in re.findall(r"\d+", color)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for words in ("p", "h2", "figcaption", "summary", "thead th", "option", "button"):
        ink = page.evaluate(f"getComputedStyle(document.querySelector('{words}')).color")
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
    for place in page.locator(".plot").all():
        drawn = place.locator(".main-svg").first.bounding_box()
        assert drawn["x"] >= 0
        assert drawn["x"] + drawn["width"] <= width
        area = place.evaluate("place => place._fullLayout._size.w")
        assert area > width / 2  # legends and scales leave room for what is drawn


def test_lines_are_named_at_their_ends(opened: Open) -> None:
    page = opened("comparison")
    accuracy = page.locator(".plot").first
    labels = accuracy.locator(".annotation")
    assert labels.count() == accuracy.evaluate("place => place.data.length") == 12
    assert accuracy.locator(".legendtext").count() == 0
    boxes = sorted((label.bounding_box() for label in labels.all()), key=lambda box: box["y"])
    texts = [one.bounding_box() for one in accuracy.locator(".annotation-text").all()]
    for upper, lower in pairwise(sorted(texts, key=lambda box: box["y"])):
        assert lower["y"] - upper["y"] > 13  # none on another
    assert max(box["x"] + box["width"] for box in boxes) <= 1100


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


def test_a_window_made_narrow_is_drawn_again(opened: Open) -> None:
    page = opened("comparison")
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function(
        "document.querySelector('.plot')._fullLayout.width <= 400"
        " && document.querySelector('.plot')._fullLayout.legend.orientation === 'h'"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_reader_chooses_what_is_drawn(opened: Open) -> None:
    page = opened("comparison")
    figure = page.locator("figure").nth(1)
    place = figure.locator(".plot")
    before = place.evaluate("place => place.data[0].z[4]")
    figure.get_by_label("method").select_option("LDA")
    assert place.evaluate("place => place.data[0].z[4]") != before
    assert "accuracy of LDA on each task" in place.get_attribute("aria-label")


def test_behind_every_plot_is_a_table_of_what_is_drawn(opened: Open) -> None:
    page = opened("comparison")
    for figure in page.locator("figure").all():
        table = figure.locator("table").first
        assert not table.is_visible()
        figure.locator("summary").click()
        assert table.is_visible()
    figure = page.locator("figure").first
    traces = figure.locator(".plot").evaluate(
        "place => place.data.toSorted((a, b) => a.legendrank - b.legendrank)"
    )
    names = [trace["name"].replace("<br>", " ") for trace in traces]
    rows = figure.locator("tbody").first.locator("tr").all()
    assert [row.locator("th").text_content() for row in rows] == names
    for row, trace in zip(rows, traces, strict=True):
        assert row.locator("td").last.text_content().startswith(f"{trace['y'][4]:.3f}")


def test_hostile_names_are_words(opened: Open) -> None:
    page = opened("hostile")
    labels = page.locator(".plot").first.locator(".annotation-text")
    ours = labels.filter(has_text="frac")
    lines = ours.locator("tspan.line").all_text_contents()
    assert " ".join(" ".join(lines).split()) == f"0.959 ReduNet, {HOSTILE}"
    assert page.locator("h1").text_content() == HOSTILE
    assert page.locator("main script").count() == 0


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


def test_without_scripts_the_tables_are_there(opened: Open) -> None:
    page = opened("model", java_script_enabled=False)
    assert page.get_by_text("The plots need JavaScript").is_visible()
    page.locator("summary").first.click()
    assert page.locator("details table").first.is_visible()
    assert not page.get_by_role("button").is_visible()
