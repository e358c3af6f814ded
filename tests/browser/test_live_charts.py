"""The upper part of the page, against a running demo: lines that move, the window, the key, the stream."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.demo import Demo
from tests.browser.page import (
    SOON,
    agree,
    bands,
    is_response_of,
    offered_keys,
    open_page,
    repeat_query,
    selection,
    time_series,
    until,
)

PHIS = ["p50", "p90", "p99"]
NEWEST = "document.getElementById('lines').data.at(-1).x.at(-1)"


@pytest.mark.slow
def test_three_lines_with_their_proved_bounds(demo: Demo, page: Page) -> None:
    with page.expect_response(lambda one: is_response_of(one, "/lines"), timeout=SOON) as response:
        open_page(page, demo.url)
    body = response.value.json()
    assert len(body["times"]) > 10
    assert bands(page) == 3
    for name, line in zip(PHIS, body["lines"], strict=True):
        drawn = time_series(page, name)
        assert len(drawn["x"]) > 10
        points = zip(drawn["y"], drawn["bounds"], strict=True)
        assert all(low <= value <= high for value, (low, high) in points if value is not None)
        assert set(line["value"][-5:-1]) <= set(drawn["y"])
    other = repeat_query(demo.api, response.value, body["times"][-1])
    for line, answer in zip(body["lines"], other["answers"], strict=True):
        last = {"phi": line["phi"], **{name: line[name][-1] for name in ("value", "low", "high")}}
        assert agree(last, answer)


def test_lines_move_as_ticks_come(demo: Demo, page: Page) -> None:
    open_page(page, demo.url)
    before = page.evaluate(NEWEST)
    until(page, f"before => {NEWEST} > before", before)
    expect(page.locator("#live")).to_have_attribute("data-state", "live", timeout=SOON)
    window = selection(page)["window"]  # the comparison asks about history, too
    with page.expect_response(lambda one: is_response_of(one, "/quantiles", band="true", window=window)) as response:
        pass
    body = response.value.json()
    other = repeat_query(demo.api, response.value, body["answers"][0]["span"]["until"])
    assert all(agree(one, two) for one, two in zip(body["answers"], other["answers"], strict=True))
    assert abs(page.evaluate(NEWEST) - page.evaluate("Date.now()")) < 600_000  # a moment of today, in milliseconds


def test_the_slider_moves_the_window(demo: Demo, page: Page) -> None:
    open_page(page, demo.url)
    slider = page.get_by_role("slider", name="Length of the window")
    assert slider.get_attribute("aria-valuetext") == "last 5\N{NO-BREAK SPACE}min"
    before = page.locator("#numbers .about .number-value").inner_text()
    box = slider.bounding_box()
    assert box is not None
    row = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.64 * box["width"], row)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.3 * box["width"], row, steps=5)
    page.mouse.up()
    chosen = selection(page)["window"]
    seconds = int(re.fullmatch(r"within:(\d+)s", chosen).group(1))  # type: ignore[union-attr]
    assert 5 <= seconds <= 60
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^last "))
    expect(page.locator("#window output")).to_have_text(str(slider.get_attribute("aria-valuetext")))
    expect(page.locator("#numbers .about .number-value")).not_to_have_text(before)
    with page.expect_response(lambda one: is_response_of(one, "/quantiles", window=chosen), timeout=SOON) as response:
        pass
    body = response.value.json()
    other = repeat_query(demo.api, response.value, body["answers"][0]["span"]["until"])
    assert all(agree(one, two) for one, two in zip(body["answers"], other["answers"], strict=True))
    until(page, f"seconds => {NEWEST} - document.getElementById('lines').data.at(-1).x[0] < 1000 * seconds", 1500)


@pytest.mark.slow
def test_the_slider_moves_by_keys(demo: Demo, page: Page) -> None:
    open_page(page, demo.url)
    slider = page.get_by_role("slider", name="Length of the window")
    slider.focus()
    windows = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End"):
        page.keyboard.press(key)
        windows.append(selection(page)["window"])
    assert windows == ["within:420s", "within:600s", "within:420s", "within:1s", "within:7200s"]
    page.get_by_role("button", name="1 min", exact=True).click()
    assert selection(page)["window"] == "within:60s"
    expect(page.get_by_role("button", name="1 min", exact=True)).to_have_attribute("aria-pressed", "true")


def test_a_key_is_found_and_chosen_by_typing(demo: Demo, page: Page) -> None:
    open_page(page, demo.url)
    count = page.locator("#numbers .about .number-value")
    before = count.inner_text()
    chooser = page.get_by_role("combobox", name="symbol")
    page.keyboard.press("/")
    expect(chooser).to_be_focused()
    page.keyboard.type("u")
    expect(offered_keys(page)).to_have_text(["AURA", "DUNE", "FLUX"])
    page.keyboard.press("ArrowDown")
    active = page.locator(f"#{chooser.get_attribute('aria-activedescendant')}")
    expect(active).to_have_text("DUNE")
    page.keyboard.press("Enter")
    expect(offered_keys(page)).to_have_count(0)
    assert selection(page)["key"] == "DUNE"
    expect(page.locator("#now-what")).to_contain_text("DUNE")
    expect(count).not_to_have_text(before)
    page.keyboard.type("zzz")
    expect(page.locator(".keys-more")).to_have_text("No key contains this.")
    page.keyboard.press("Escape")
    expect(chooser).to_have_value("DUNE")
    page.keyboard.press("Control+a")
    page.keyboard.type("flux")
    page.keyboard.press("Enter")  # before any key was offered
    expect(page.locator("#now-what")).to_contain_text("FLUX")
    page.keyboard.press("ArrowDown")
    expect(offered_keys(page)).to_have_count(9)
    page.keyboard.press("PageUp")
    page.keyboard.press("Enter")
    expect(page.locator("#now-what")).to_contain_text("all keys")
    assert "key" not in selection(page)


@pytest.mark.slow
def test_the_last_n_values(demo: Demo, page: Page) -> None:
    open_page(page, demo.url, key="AURA")
    page.get_by_role("radio", name="by count").check()
    expect(page.get_by_role("radio", name="by count")).to_be_checked()
    assert selection(page)["window"] == "last:1000"
    expect(page.locator("#numbers .about .number-value")).to_have_text("1,000")
    expect(page.locator("#lines-note")).to_contain_text("begins now")
    until(page, "document.getElementById('lines').data.at(-1).x.length > 2")
    page.get_by_role("button", name="10,000", exact=True).click()
    expect(page.locator("#numbers .about .number-value")).to_have_text("10,000")


@pytest.mark.slow
def test_another_stream(demo: Demo, page: Page) -> None:
    open_page(page, demo.url, key="ECHO")
    streams = page.get_by_role("navigation", name="Streams").get_by_role("button")
    expect(streams).to_have_text(["spread", "latency"])
    expect(streams.first).to_have_attribute("aria-current", "true")
    with page.expect_response(lambda one: is_response_of(one, "/api/streams/latency/lines")):
        streams.last.click()
    expect(streams.last).to_have_attribute("aria-current", "true")
    assert selection(page)["stream"] == "latency"
    expect(page).to_have_title(re.compile(r"^(\(1\) )?latency · Quantide$"))  # the alarm of ECHO may fire
    until(page, "document.getElementById('lines').data.at(-1).y.at(-1) > 20")  # microseconds, not basis points


@pytest.mark.slow
def test_a_reload_shows_the_same(demo: Demo, page: Page) -> None:
    open_page(page, demo.url, stream="latency", key="GALE", window="within:60s", log="true")
    page.reload()
    page.wait_for_selector("#lines.drawn", timeout=SOON)
    assert selection(page) == {"stream": "latency", "key": "GALE", "window": "within:60s", "log": "true"}
    expect(page.get_by_role("combobox", name="symbol")).to_have_value("GALE")
    expect(page.get_by_role("checkbox", name="log scale")).to_be_checked()
    expect(page.locator("#now-what")).to_have_text("latency · GALE · last 1\N{NO-BREAK SPACE}min")
    assert page.evaluate("document.getElementById('lines')._fullLayout.yaxis.type") == "log"


@pytest.mark.slow
@pytest.mark.parametrize("system", ["light", "dark"])
def test_light_or_dark_is_remembered(demo: Demo, page: Page, system: str) -> None:
    page.emulate_media(color_scheme="dark" if system == "dark" else "light")
    open_page(page, demo.url)
    theme = page.locator("html")
    expect(theme).to_have_attribute("data-theme", system)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    other = "light" if system == "dark" else "dark"
    expect(theme).to_have_attribute("data-theme", other)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.reload()
    expect(theme).to_have_attribute("data-theme", other)
    page.keyboard.press("t")
    expect(theme).to_have_attribute("data-theme", system)
