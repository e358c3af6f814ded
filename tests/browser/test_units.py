"""The unit of a stream is shown wherever one of its values is, on the page and in the responses that it reads."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import open_page, scroll_to, until
from tests.browser.small_server import NOON, SmallServer, moments, serve_streams, store, stream

TEXTS = """name => document.getElementById("lines").data.find((trace) => trace.name === name).text"""
AXES = """selector => { const { xaxis, yaxis } = document.querySelector(selector)._fullLayout;
    return [xaxis.title.text, yaxis.title.text]; }"""
HOVER = """() => document.querySelector(".chart.square").data[0].customdata.flat()"""


def str_ending(*ends: str) -> re.Pattern[str]:
    return re.compile(f"({'|'.join(map(re.escape, ends))})$")


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallServer]:
    """A server whose stream is in milliseconds; the last window is higher than all of history, and an alarm fires."""
    folder, rng = tmp_path_factory.mktemp("metered"), np.random.default_rng(1)
    with store(folder, keys="name") as history:
        for step in range(3):
            end = NOON - np.timedelta64(600 * (2 - step), "s")
            names = rng.choice(["north", "south"], 400)
            history.append((1 + step) * rng.lognormal(3, 1, 400), key=names, times=moments(400, 500, end))
            history.end_step()
        with serve_streams(folder, stream("numbers") + 'unit = "ms"\n') as server:
            body = {"stream": "numbers", "window": "within:5m", "phi": 0.99, "above": 5, "clear": 4}
            alarm = server.api.post("/api/alarms", json=body).raise_for_status().json()
            assert alarm["unit"] == "ms"
            [started] = server.api.get(f"/api/alarms/{alarm['id']}/history").json()["transitions"]
            assert started["unit"] == "ms"  # as webhooks receive it
            distance = body | {"measure": "ks", "against": {"window": "all"}, "above": 0.9, "clear": 0.8}
            made = server.api.post("/api/alarms", json={k: v for k, v in distance.items() if k != "phi"})
            assert made.raise_for_status().json()["unit"] is None
            server.api.delete(f"/api/alarms/{made.json()['id']}").raise_for_status()
            yield server


def test_numbers_chart_and_alarms(metered: SmallServer, page: Page) -> None:
    open_page(page, metered.url, window="within:5m")
    expect(page.locator("#numbers h3").first).to_have_text("p50\N{NO-BREAK SPACE}ms")
    assert all(text.endswith("\N{NO-BREAK SPACE}ms") for text in page.evaluate(TEXTS, "p99"))
    assert page.evaluate(AXES, "#lines")[1] == "ms"
    expect(page.locator("#lines")).to_have_attribute("aria-label", str_ending("ms."))
    page.get_by_text("The same as a table").click()
    expect(page.locator("#lines-table th").nth(2)).to_have_text("p50 in\N{NO-BREAK SPACE}ms")
    card = page.locator("#alarms .alarm")
    expect(card.locator("h3")).to_have_text("p99 above 5\N{NO-BREAK SPACE}ms")
    expect(card).to_contain_text("clears at 4\N{NO-BREAK SPACE}ms")
    card.get_by_text("What happened").click()
    expect(card.locator(".transitions li").first).to_have_text(str_ending("ms"))
    page.get_by_text("New alarm").click()
    expect(page.get_by_label("Threshold")).to_have_attribute("placeholder", str_ending("ms"))
    expect(page.get_by_label("Threshold (ms)")).to_be_visible()


def test_comparison(metered: SmallServer, page: Page) -> None:
    open_page(page, metered.url, window="within:5m")
    panel = page.locator("#compare")
    scroll_to(panel, panel.locator(".verdict").first)
    for verdict in panel.locator(".verdict").all():
        assert verdict.inner_text().count("\N{NO-BREAK SPACE}ms") == 2
    expect(panel.locator(".sentence")).to_contain_text("whether it is chance is another question")
    shown = re.compile(r"^p99 now is (between [\d,.]+ and )?[\d,.]+\sms; .* \([\d,.]+( to [\d,.]+)?\s%\)")
    expect(panel.locator(".sentence")).to_have_text(shown)
    difference = re.search(r", by (\S+?)( to \S+?)?\N{NO-BREAK SPACE}ms \(", panel.locator(".sentence").inner_text())
    assert difference is not None
    assert len(difference[1]) < 9, "not 0.8109999999999999"
    scroll_to(panel.locator(".chart.square"), panel.locator(".chart.square.drawn"))
    assert page.evaluate(AXES, ".chart.square") == [
        "history in\N{NO-BREAK SPACE}ms",
        "now (last 5\N{NO-BREAK SPACE}min) in\N{NO-BREAK SPACE}ms",
    ]
    assert all(text.endswith("\N{NO-BREAK SPACE}ms") for text in page.evaluate(HOVER))
    until(page, f"({AXES})('#compare figure .chart')[0] === 'value in\N{NO-BREAK SPACE}ms'")
    panel.get_by_text("As a table").click()
    expect(panel.locator("thead th").nth(1)).to_have_text("now (last 5\N{NO-BREAK SPACE}min) in\N{NO-BREAK SPACE}ms")


def test_worst_keys(metered: SmallServer, page: Page) -> None:
    open_page(page, metered.url, window="within:5m")
    cells = page.locator("#worst tbody tr").first.locator("td")
    scroll_to(page.locator("#worst"), cells.first)
    expect(cells.nth(1)).to_have_text(str_ending("ms"))
    expect(cells.nth(2)).to_have_text(str_ending("ms", "exact"))
