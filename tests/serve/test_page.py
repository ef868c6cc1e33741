"""The page in a real browser: draw, teach, recognise, take back, forget; by hand and by keys."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redunet import ReduNetClassifier
from redunet.serve.demo import write_demo
from tests.serve.running import TOKEN, Client, serving
from tests.serve.strokes import drawn

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install it")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page in: make browser"),
    pytest.mark.usefixtures("one_thread"),
]
Open = Callable[..., Any]
PATIENCE = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--use-fake-device-for-media-stream",
                "--use-fake-ui-for-media-stream",
            ],
        )
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Opens the page of a server; afterwards nothing may have been complained of."""
    complaints: list[str] = []
    with ExitStack() as contexts:

        def open_page(client: Client, token: str = f"#token={TOKEN}", **more: Any) -> Any:
            options = {"viewport": {"width": 1280, "height": 900}, **more}
            context = browser.new_context(**options)
            contexts.callback(context.close)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            own = f"http://127.0.0.1:{client.port}"
            page.on(
                "request",
                lambda asked: (
                    None
                    if asked.url.startswith((own, "data:", "blob:"))
                    else complaints.append(asked.url)
                ),
            )
            page.goto(f"{own}/{token}")
            page.wait_for_selector("#state[data-kind=good]")
            return page

        yield open_page
        assert complaints == []


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    write_demo(tmp_path / "digits.safetensors")
    return tmp_path / "digits.safetensors"


def draw(page: Any, strokes: list[list[list[float]]]) -> None:
    box = page.locator("#pad").bounding_box()
    for stroke in strokes:
        points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*points[0])
        page.mouse.down()
        for point in points:
            page.mouse.move(*point)
        page.mouse.up()


def verdict_is(page: Any, label: str) -> None:
    expect = playwright.expect(page.locator("#verdict"))
    expect.to_have_text(label, timeout=PATIENCE)


def forget(page: Any, name: str) -> None:
    page.get_by_role("button", name=f"Forget {name}", exact=True).click()
    page.get_by_role("button", name=f"Really forget {name}?", exact=True).click()


def hash_of(page: Any) -> str:
    return str(page.locator("#hash").inner_text()).replace(" ", "").replace("\n", "")


def hash_is(page: Any, expected: str) -> None:
    spaced = " ".join(re.findall(".{8}", expected))
    playwright.expect(page.locator("#hash")).to_have_text(spaced, timeout=PATIENCE)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_new_class_is_taught_recognised_and_forgotten(opened: Open, demo: Path) -> None:
    rng = np.random.default_rng(0)
    with serving(demo) as client:
        page = opened(client)
        assert "token" not in page.url
        before = hash_of(page)
        assert before == sha256(demo)
        draw(page, drawn("5", rng))
        verdict_is(page, "5")
        page.get_by_role("button", name="Clear").click()
        draw(page, drawn("heart", rng))
        playwright.expect(page.locator("#novelty")).to_contain_text("unlike all")
        page.get_by_label("It is").fill("heart")
        page.get_by_role("button", name="Teach").click()
        verdict_is(page, "heart")
        playwright.expect(page.locator("#novelty")).to_contain_text("like what it knows")
        assert sha256(demo) != before
        hash_is(page, sha256(demo))
        page.get_by_role("button", name="Clear").click()
        draw(page, drawn("heart", rng))
        verdict_is(page, "heart")
        page.get_by_role("button", name="Clear").click()
        draw(page, drawn("3", rng))
        verdict_is(page, "3")
        forget(page, "heart")
        playwright.expect(page.locator("#same")).to_have_text(
            "The same file as “when you came”, byte for byte."
        )
        assert sha256(demo) == before
        hash_is(page, before)
        verdict_is(page, "3")


def test_by_keyboard_alone(opened: Open, demo: Path) -> None:
    with serving(demo) as client:
        page = opened(client)
        page.locator("#pad").focus()
        for word in ("ArrowUp " * 7 + "Space " + "ArrowDown " * 14 + "Space").split():
            page.keyboard.press(word)
        verdict_is(page, "1")
        said = page.locator("#said")
        playwright.expect(said).to_have_text(re.compile(r"^1, \d+%"))
        assert said.get_attribute("aria-live") == "polite"
        page.keyboard.press("Tab")
        page.keyboard.type("one")
        page.keyboard.press("Enter")
        verdict_is(page, "one")
        page.locator("#pad").focus()
        page.keyboard.press("Escape")
        verdict_is(page, "–")
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("button, input, textarea, canvas, video, svg")]
                .filter((one) => !(one.textContent.trim() || one.getAttribute("aria-label")
                    || (one.labels && one.labels.length))).map((one) => one.id)"""
        )
        assert unnamed == []


def test_class_names_are_text(opened: Open, tmp_path: Path) -> None:
    """A class called like markup is shown as it is called, and nothing of it runs."""
    name = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script>"
    X = np.random.default_rng(0).uniform(0, 9, (30, 25))
    ReduNetClassifier(n_layers=1, n_components=2).fit(X, [name, "b", "c"] * 10).save(tmp_path / "m")
    with serving(tmp_path / "m") as client:
        page = opened(client)
        assert page.locator(".chip-name").first.inner_text() == name
        draw(page, [[[0.2, 0.2], [0.8, 0.8]]])
        playwright.expect(page.locator(".bar-name").first).to_be_visible()
        assert name in page.locator(".bar-name").all_inner_texts()
        forget(page, name)
        playwright.expect(page.locator("#history")).to_contain_text(name)
        assert page.locator("main img:not(#picture), main script").count() == 0
        assert page.title() == "Teach a model by hand"


def test_without_a_token_and_read_only(opened: Open, demo: Path) -> None:
    with serving(demo) as client:
        page = opened(client, token="")
        playwright.expect(page.locator("#teach")).to_be_hidden()
        assert page.locator(".forget").count() == 0
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Unlock").click()
        playwright.expect(page.locator("#teach")).to_be_visible()
        assert page.locator(".forget").count() == 10
        page.close()
    with serving(demo, read_only=True) as client:
        page = opened(client)
        playwright.expect(page.locator("#teach")).to_be_hidden()
        playwright.expect(page.locator("#teach-note")).to_contain_text("read-only")
