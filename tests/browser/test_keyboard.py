"""The page by keyboard alone: an order that makes sense, a visible focus, shortcuts, an alarm."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.demo import Demo
from tests.browser.page import SOON, offered_keys, open_page, scroll_to, selection
from tests.browser.small_server import SmallServer

# Whatever can be reached: of radio buttons the chosen one, of a group that arrows move in the one that has its turn.
REACHABLE = """() => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter(
    (one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0 &&
        (one.type !== "radio" || one.checked)
)"""
FOCUS = """() => {
    const one = document.activeElement;
    const near = [one, one.parentElement, one.nextElementSibling, one.firstElementChild].filter(Boolean);
    const rings = near.map((around) => getComputedStyle(around));
    const around = one.getBoundingClientRect();
    return {
        place: window.reachable.indexOf(one),
        name: `${one.tagName} ${one.id} ${one.getAttribute("aria-label") ?? one.textContent.trim().slice(0, 40)}`,
        ring: rings.some(({ outlineStyle, outlineWidth, boxShadow, strokeWidth }) =>
            (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1) || boxShadow !== "none" ||
            parseFloat(strokeWidth) >= 2),
        visible: around.bottom > 0 && around.top < innerHeight && around.width > 0,
    };
}"""


def test_tab_reaches_every_control_in_order(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    page.get_by_role("heading", name="fires").wait_for(timeout=SOON)
    for summary in page.get_by_text("New ").all():
        summary.click()
    scroll_to(page.locator("#worst"), page.locator("#worst tbody button").first)  # parts load when they are in view
    scroll_to(page.locator("#runs"), page.locator("#runs .run").first)
    page.evaluate("() => { scrollTo(0, 0); document.querySelector('.skip').focus(); }")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")  # a focus that came by keyboard is shown, one by script is not
    count = page.evaluate(f"() => (window.reachable = ({REACHABLE})()).length")
    assert count > 25
    visited = walk(page, count)
    places = [one["place"] for one in visited]
    names = page.evaluate("window.reachable.map((one) => one.outerHTML.slice(0, 90))")
    assert [names[i] for i in range(count) if i not in places] == []
    assert places == sorted(places)
    assert [one["name"] for one in visited if not one["ring"]] == []
    assert [one["name"] for one in visited if not one["visible"]] == []


def walk(page: Page, most: int) -> list[dict[str, Any]]:
    """Return the parts that Tab reaches from the beginning on, until it leaves the page."""
    visited: list[dict[str, Any]] = []
    while (found := page.evaluate(FOCUS))["place"] >= 0 and len(visited) <= most:
        visited.append(found)
        page.keyboard.press("Tab")
    return visited


@pytest.mark.slow
def test_the_first_stop_skips_to_the_charts(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    before = selection(page)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the charts")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#now")).to_be_focused()
    assert selection(page) == before


@pytest.mark.slow
def test_shortcuts_and_the_dialog_that_lists_them(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    page.get_by_role("heading", name="fires").wait_for(timeout=SOON)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    shortcuts = dialog.locator("dt").all_inner_texts()
    assert len(shortcuts) == len(set(shortcuts)) >= 10
    expect(dialog).to_contain_text("in the Q-Q plot")
    expect(dialog).to_contain_text("in the picture of runs")
    page.keyboard.press("]")  # nothing goes on behind it
    assert selection(page)["window"] == "within:5m"
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("]")
    assert selection(page)["window"] == "within:420s"
    page.keyboard.press("[")
    assert selection(page)["window"] == "within:300s"
    log = page.get_by_role("checkbox", name="log scale")
    before = log.is_checked()
    page.keyboard.press("l")
    expect(log).to_be_checked(checked=not before)
    for key, panel in {"c": "compare", "a": "alarms", "q": "queries", "r": "runs", "n": "now"}.items():
        page.keyboard.press(key)
        expect(page.locator(f"#{panel}")).to_be_focused()
        expect(page.locator(f"#{panel}")).to_be_in_viewport()
    page.keyboard.press("/")
    page.keyboard.type("t")  # is typed, and changes no theme
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.get_by_role("combobox", name="name")).to_have_value("t")


@pytest.mark.slow
def test_runs_are_walked_with_arrows(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    page.locator("#runs details").wait_for(timeout=SOON, state="attached")
    page.keyboard.press("r")
    page.locator("#runs .run").first.wait_for(timeout=SOON)
    page.keyboard.press("Tab")
    labels = []
    for key in ("Home", "ArrowRight", "End"):
        page.keyboard.press(key)
        labels.append(str(page.evaluate("document.activeElement.getAttribute('aria-label')")))
    assert labels[0].startswith("Level ")
    assert len(set(labels)) == 3
    assert labels[2].startswith("The open step: 500 values")
    expect(page.locator("#runs")).to_contain_text("500 values, and growing")


def test_an_alarm_without_a_mouse(demo: Demo, page: Page) -> None:
    """Keys alone choose a key, set an alarm and see it fire."""
    open_page(page, demo.url, stream="spread")
    keys = page.keyboard
    keys.press("/")
    keys.type("gale")
    expect(offered_keys(page)).to_have_text(["GALE"])
    keys.press("Enter")
    page.get_by_text("New alarm").wait_for(timeout=SOON)
    keys.press("Tab")  # out of the chooser, where letters are letters
    keys.press("a")
    tab_to(page, "New alarm")
    keys.press("Enter")
    expect(page.get_by_label("Threshold")).to_have_attribute("placeholder", re.compile("^now "))
    tab_to_label(page, "Threshold (bp)")
    keys.press("Control+a")
    keys.type("0.5")
    tab_to_label(page, "Hold")
    keys.press("Home")  # at once
    tab_to_label(page, "Name")
    keys.type("no mouse")
    keys.press("Enter")
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="no mouse"))
    expect(card.locator(".badge")).to_have_attribute("data-state", "firing", timeout=SOON)
    for alarm in demo.api.get("/api/alarms").json()["alarms"]:
        if alarm["name"] == "no mouse":
            assert alarm["key"] == "GALE"
            demo.api.delete(f"/api/alarms/{alarm['id']}").raise_for_status()
    expect(card).to_have_count(0, timeout=SOON)


def tab_to(page: Page, text: str) -> None:
    tab_until(page, "text => document.activeElement.textContent.trim() === text", text)


def tab_to_label(page: Page, text: str) -> None:
    label = "(label => label.querySelector('span') ?? label)(document.activeElement.labels[0]).textContent"
    tab_until(page, f"text => document.activeElement.labels?.length && {label}.trim() === text", text)


def tab_until(page: Page, condition: str, text: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(condition, text):
            return
    raise AssertionError(f"Tab does not reach {text!r}")
