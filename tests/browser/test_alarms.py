"""Alarms on the page, against a running demo: set in a form, fired, refused with a reason, dropped."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.chrome import Complaints
from tests.browser.demo import Demo
from tests.browser.page import SOON, open_page, until


def open_form(page: Page, demo: Demo) -> Locator:
    open_page(page, demo.url, stream="latency", key="BOLT", window="within:60s")
    panel = page.get_by_role("region", name="Alarms")
    panel.get_by_text("New alarm").click(timeout=SOON)
    expect(panel.get_by_label("Threshold")).to_have_attribute("placeholder", re.compile("^now "))
    return panel


def names(demo: Demo) -> list[str]:
    return [alarm["name"] for alarm in demo.api.get("/api/alarms").json()["alarms"]]


def test_an_alarm_is_set_fires_and_is_dropped(demo: Demo, page: Page) -> None:
    panel = open_form(page, demo)
    present = float(
        str(panel.get_by_label("Threshold").get_attribute("placeholder"))
        .removeprefix("now ")
        .split("\N{NO-BREAK SPACE}")[0]
    )
    assert present > 0
    panel.get_by_label("Threshold").fill(f"{present / 2:g}")
    panel.get_by_label("Name").fill("set by a test")
    panel.get_by_role("combobox", name="Hold", exact=True).select_option("at once")
    panel.get_by_role("button", name="Set the alarm").click()
    card = panel.get_by_role("listitem").filter(has=page.get_by_role("heading", name="set by a test"))
    expect(card.locator(".badge")).to_have_attribute("data-state", "firing", timeout=SOON)
    expect(panel.get_by_role("alert").filter(has_text="Alarm fires: set by a test")).to_be_attached()
    expect(card).to_contain_text("p99 of latency, BOLT, last 1\N{NO-BREAK SPACE}min, above")
    [set_] = [alarm for alarm in demo.api.get("/api/alarms").json()["alarms"] if alarm["name"] == "set by a test"]
    assert (set_["stream"], set_["key"], set_["phi"], set_["firing"]) == ("latency", "BOLT", 0.99, True)
    assert set_["above"] == float(f"{present / 2:g}")
    card.get_by_text("What happened").click()
    expect(card.get_by_role("listitem").first).to_contain_text("firing, proved to be beyond the threshold")
    card.get_by_role("button", name="Drop", exact=True).click()
    card.get_by_role("button", name="Keep").click()
    assert "set by a test" in names(demo)
    card.get_by_role("button", name="Drop", exact=True).click()
    card.get_by_role("button", name="Yes, drop").click()
    expect(card).to_have_count(0)
    assert "set by a test" not in names(demo)


@pytest.mark.slow
def test_a_threshold_that_is_none_is_refused_in_words(demo: Demo, page: Page, complaints: Complaints) -> None:
    complaints.expect("400")  # the page puts it in words
    panel = open_form(page, demo)
    before = names(demo)
    panel.get_by_label("Threshold").fill("")
    panel.get_by_role("button", name="Set the alarm").click()
    alert = panel.locator("form").get_by_role("alert")
    expect(alert).to_have_text("Enter a threshold.")
    expect(panel.get_by_label("Threshold")).to_be_focused()
    panel.get_by_label("Threshold").fill("many")
    panel.get_by_role("button", name="Set the alarm").click()
    expect(alert).to_contain_text(re.compile("many|number", re.IGNORECASE))
    panel.get_by_label("Quantile").select_option("own")
    panel.get_by_label("phi, from 0 to 1").fill("95")
    panel.get_by_role("button", name="Set the alarm").click()
    expect(alert).to_contain_text("phi must be from 0 to 1")
    assert names(demo) == before


@pytest.mark.slow
def test_the_alarm_of_the_demo_is_drawn_as_a_line(demo: Demo, page: Page) -> None:
    open_page(page, demo.url, stream="spread", key="ECHO")
    until(page, "document.getElementById('lines').layout.shapes?.length === 1")
    shape = page.evaluate("document.getElementById('lines').layout.shapes[0]")
    assert shape["y0"] == 30
    drawn = page.evaluate("document.getElementById('lines').layout.annotations.map((one) => one.text)")
    assert "alarm: p99 of the last 30\N{NO-BREAK SPACE}s above 30\N{NO-BREAK SPACE}bp" in drawn
    expect(page.get_by_role("heading", name="ECHO spreads are wide")).to_be_visible()


def test_an_alarm_on_the_distance_of_two_windows_shows_its_bounds(demo: Demo, page: Page) -> None:
    against = {"key": None, "window": "all"}
    body = {
        "stream": "spread",
        "key": "ECHO",
        "window": "within:60s",
        "measure": "ks",
        "against": against,
        "above": 0.01,
    }
    made = demo.api.post("/api/alarms", json=body)
    assert made.status_code == 201, made.text
    try:
        open_page(page, demo.url, stream="spread", key="ECHO")
        panel = page.get_by_role("region", name="Alarms")
        card = panel.get_by_role("listitem").filter(has=page.get_by_role("heading", name="KS distance above 0.01"))
        expect(card).to_contain_text(
            "KS distance of spread, ECHO, last 1\N{NO-BREAK SPACE}min from all keys, everything, above"
        )
        expect(card).to_contain_text(re.compile(r"KS distance is 0\.\d+ to 0\.\d+, of [\d,]+ and [\d,]+ values"))
        card.get_by_text("What happened").click()
        expect(card.get_by_role("listitem").first).to_contain_text(re.compile(r" at 0\.\d+ to 0\.\d+"))
        drawn = page.evaluate("document.getElementById('lines').layout.annotations?.map((one) => one.text) ?? []")
        assert not [text for text in drawn if "0.01" in text]
    finally:
        demo.api.delete(f"/api/alarms/{made.json()['id']}")
