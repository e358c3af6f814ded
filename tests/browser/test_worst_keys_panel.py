"""Worst keys, units and thresholds on the page, where nothing moves."""

import re

import httpx
from playwright.sync_api import Page, expect

from tests.browser.page import open_page, scroll_to
from tests.browser.small_server import SmallServer


def test_worst_keys_are_listed_and_can_be_chosen(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    rows = page.locator("#worst tbody tr")
    scroll_to(page.locator("#worst"), rows.first)
    expect(rows).to_have_count(2)
    answered = httpx.get(
        f"{static_server.url}/api/streams/numbers/worst-keys", params={"phi": 0.99, "window": "within:5m", "most": 10}
    ).json()
    names = [row["key"] for row in answered["listed"]]
    assert rows.locator("button").all_inner_texts() == names
    page.evaluate("document.getElementById('worst').style.marginTop = '3000px'")  # as if a part above had grown
    expect(page.locator("#worst")).not_to_be_in_viewport()
    page.locator("#worst").get_by_label("Largest or smallest").select_option("smallest")
    expect(rows.locator("button").first).to_have_text(names[-1])
    rows.locator("button").first.click()
    expect(page.get_by_role("combobox", name="name")).to_have_value(names[-1])
    expect(page.locator("#now-what")).to_contain_text(names[-1])


def test_a_new_alarm_is_not_set_off_by_one_click(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    page.locator("#alarms").get_by_text("New alarm").click()
    threshold = page.get_by_label("Threshold")
    expect(threshold).to_have_attribute("placeholder", re.compile("^now [0-9]"))
    expect(threshold).to_have_value("")
    page.get_by_role("button", name="Set the alarm").click()
    error = page.locator("#alarms form .error")
    expect(error).to_have_text("Enter a threshold.")
    threshold.fill("1e999")
    page.get_by_role("button", name="Set the alarm").click()
    expect(error).to_contain_text("never fires, or never stops. Enter a finite number")
    expect(threshold).to_be_focused()
    expect(page.get_by_role("combobox", name="Hold", exact=True)).to_have_value("30 s")


def test_the_longest_window_has_a_chart(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:3600s")
    expect(page.locator("#lines .scatterlayer .point").first).to_be_visible()
    expect(page.locator("#lines-note")).to_contain_text("the chart begins now")
    box, point = page.locator("#lines").bounding_box(), page.locator("#lines .point").first.bounding_box()
    assert box is not None
    assert point is not None
    assert box["x"] + 50 < point["x"] < box["x"] + box["width"] - 50, "a point at the edge would be cut"


def test_exact_lines_end_with_exact_values(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:60s")
    expect(page.locator("#numbers .number-band").first).to_have_text("proved to be exact")
    expect(page.locator("#numbers .number-rank").first).to_be_empty()
