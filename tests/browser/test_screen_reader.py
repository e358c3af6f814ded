"""The page for screen readers: landmarks, headings, names of all controls, announcements."""

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import SOON, offered_keys, open_page, scroll_to, until
from tests.browser.small_server import SmallServer

NAMED = {
    "button", "link", "textbox", "combobox", "slider", "checkbox", "radio", "radiogroup", "listbox", "option", "dialog",
    "navigation", "region", "img", "image", "table", "DisclosureTriangle", "searchbox", "heading", "spinbutton",
}  # fmt: skip
HEADINGS = """[...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((one) => one.checkVisibility())
    .map((one) => Number(one.tagName[1]))"""

RECORD_ANNOUNCEMENTS = """{
    const announcer = document.getElementById("announcer");
    window.announced = [];
    new MutationObserver(() => window.announced.push(announcer.textContent)).observe(announcer, { childList: true });
}"""

pytestmark = pytest.mark.slow  # each opens the page, which takes seconds


def accessibility_tree(page: Page) -> list[dict[str, Any]]:
    """Return the accessibility tree: role, name and properties of every part that is not hidden."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        {
            "role": node["role"]["value"],
            "name": node.get("name", {}).get("value", ""),
            **{one["name"]: one["value"].get("value") for one in node.get("properties", [])},
        }
        for node in nodes
        if not node["ignored"]
    ]


def open_all(page: Page, static_server: SmallServer) -> None:
    """Open the page, load all its parts and open all its details."""
    open_page(page, static_server.url, window="within:5m", key="north")
    page.get_by_role("heading", name="fires").wait_for(timeout=SOON)
    for panel in ("compare", "queries", "runs"):
        scroll_to(page.locator(f"#{panel}"), page.locator(f"#{panel} details").first)
    scroll_to(page.locator("#compare .square"), page.locator("#compare .square.drawn"))
    scroll_to(page.locator("#runs"), page.locator("#runs .run").first)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")


def test_everything_has_a_name(static_server: SmallServer, page: Page) -> None:
    open_all(page, static_server)
    found = accessibility_tree(page)
    assert [one for one in found if one["role"] in NAMED and not one["name"].strip()] == []
    assert len([one for one in found if one["role"] == "button"]) > 10
    assert len([one for one in found if one["role"] in ("img", "image") and "Quantiles over time" in one["name"]]) == 1
    focusable = [one for one in found if one.get("focusable") and one["role"] not in ("RootWebArea", "document")]
    assert [one for one in focusable if not one["name"].strip()] == []


def test_landmarks_and_headings(static_server: SmallServer, page: Page) -> None:
    open_all(page, static_server)
    expect(page.get_by_role("banner")).to_have_count(1)
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("navigation", name="Streams")).to_be_visible()
    for name in ("Now", "Alarms", "Now against history", "Continuous queries", "Runs of history"):
        expect(page.get_by_role("region", name=name, exact=True)).to_have_count(1)
    levels = page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.locator("html").get_attribute("lang") == "en"


def test_the_selection_is_announced(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    announcer = page.get_by_role("status").and_(page.locator("#announcer"))
    assert announcer.get_attribute("aria-live") == "polite"
    expect(announcer).to_contain_text("numbers · all keys", timeout=SOON)
    page.keyboard.press("/")
    page.keyboard.type("sou")
    expect(announcer).to_have_text("1 key", timeout=SOON)
    page.keyboard.press("Enter")
    expect(announcer).to_contain_text("numbers · south · last 5\N{NO-BREAK SPACE}min: p50", timeout=SOON)


def test_no_announcement_replaces_one_about_something_else(static_server: SmallServer, page: Page) -> None:
    """Announcements of a few seconds are read together."""
    open_page(page, static_server.url, window="within:5m")
    expect(page.locator("#announcer")).to_contain_text("numbers · all keys", timeout=SOON)
    page.evaluate(RECORD_ANNOUNCEMENTS)
    page.keyboard.press("/")
    page.keyboard.type("sou")
    expect(offered_keys(page)).to_have_text(["south"])
    page.keyboard.press("Enter")
    until(page, "window.announced.join(' ').includes('numbers · south')")
    assert "1 key" in " ".join(page.evaluate("window.announced"))


def test_charts_are_described_in_text(static_server: SmallServer, page: Page) -> None:
    open_all(page, static_server)
    values = page.locator("#numbers .number-value").all_inner_texts()
    label = page.locator("#lines").get_attribute("aria-label") or ""
    assert label.startswith("Quantiles over time. p50 ")
    assert all(float(value.replace(",", "")) > 0 for value in values)
    plot = page.locator("#compare .square").get_attribute("aria-label") or ""
    assert "above the diagonal" in plot
    table = page.locator("#lines-table table")
    expect(table.get_by_role("columnheader")).to_have_text(["time", "values", "p50", "p90", "p99"])
    assert table.get_by_role("row").count() > 5
