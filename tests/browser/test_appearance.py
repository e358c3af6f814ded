"""Appearance of the page: nothing is wider than the screen, text can be read in both themes, pictures are stored."""

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chrome import picture
from tests.browser.demo import Demo
from tests.browser.page import SOON, offered_keys, open_page, scroll_to, until
from tests.browser.small_server import SmallServer

CONTRAST = Path(__file__).with_name("contrast.js").read_text()
WIDER = """() => [...document.querySelectorAll("body *")].filter((one) => {
    const { right, width } = one.getBoundingClientRect();
    return width > 0 && right > innerWidth + 1 && !one.closest(".scroll, svg, .unseen, .presets, .tabs");
}).map((one) => `${one.tagName}.${one.className} ${Math.round(one.getBoundingClientRect().right)}`)"""
Theme = Literal["light", "dark"]

pytestmark = pytest.mark.slow  # each opens the page, which takes seconds


def see_all(page: Page) -> None:
    """Every part is there and drawn."""
    scroll_to(page.locator("#alarms"), page.locator("#alarms h3").first)
    for panel in ("compare", "queries", "runs"):
        scroll_to(page.locator(f"#{panel}"), page.locator(f"#{panel} details").first)
    scroll_to(page.locator("#compare .square"), page.locator("#compare .square.drawn"))
    scroll_to(page.locator("#runs"), page.locator("#runs .run").first)
    expect(page.locator("#compare .sentence")).not_to_be_empty(timeout=SOON)
    expect(page.locator("#compare .distance")).to_have_text(re.compile(r"^KS distance 0\S* to 0\.\d+, proved"))
    expect(page.locator("#queries table")).not_to_be_empty(timeout=SOON)
    page.evaluate("scrollTo(0, 0)")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_the_screen(static_server: SmallServer, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    open_page(page, static_server.url, window="within:5m")
    see_all(page)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    until(page, "document.querySelector('#lines svg').getBoundingClientRect().width <= innerWidth")
    assert page.evaluate(WIDER) == []
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    page.get_by_role("combobox", name="name").click()
    expect(offered_keys(page)).to_have_count(3)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(static_server: SmallServer, page: Page, theme: Theme) -> None:
    page.emulate_media(color_scheme=theme)
    open_page(page, static_server.url, window="within:5m")
    see_all(page)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    found = page.evaluate(CONTRAST)
    assert found["looked"] > 100
    assert found["found"] == []
    page.keyboard.press("?")
    assert page.evaluate(CONTRAST)["found"] == []


@pytest.mark.parametrize(
    ("name", "width", "height", "theme"),
    [("light", 1440, 900, "light"), ("dark", 1440, 900, "dark"), ("phone", 390, 844, "light")],
)
def test_pictures_are_stored(demo: Demo, page: Page, name: str, width: int, height: int, theme: Theme) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=theme)
    open_page(page, demo.url, stream="spread", key="ECHO", window="within:60s")
    see_all(page)
    path = picture(page, f"page-{name}")
    assert path.stat().st_size > 50_000
