"""Panels of the page while they load: the first chart, those that wait until they are seen, and their places."""

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.looking import open_page, scroll_to, until
from tests.browser.small import NOON, Small, moments, small, store

FAR = 100  # pixels
BELOW = ["compare", "worst", "queries", "runs"]
LATE = ("/api/alarms", "/compare", "/cdf", "/rank", "/worst-keys", "/api/monitors", "/api/qq")
TOPS = "ids => ids.map((id) => document.getElementById(id).offsetTop)"


class HeldRoutes:
    """Requests of a page that wait until they are released."""

    def __init__(self, page: Page, *ends: str) -> None:
        self._waiting: list[Route] | None = []
        page.route(lambda url: url.split("?")[0].endswith(ends), self._hold)

    def _hold(self, route: Route) -> None:
        if self._waiting is None:
            route.continue_()
        else:
            self._waiting.append(route)

    def release(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for route in waiting:
            route.continue_()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """A server with ten keys and four alarms."""
    folder, rng = tmp_path_factory.mktemp("full"), np.random.default_rng(1)
    with store(folder, keys="name") as history:
        names = rng.choice([f"key {number}" for number in range(10)], 2000)
        history.append(rng.lognormal(3, 1, 2000), key=names, times=moments(2000))
        with small(folder) as server:
            for phi in (0.5, 0.9, 0.99, 0.999):
                body = {"stream": "numbers", "window": "within:5m", "phi": phi, "above": 1e6, "hold": "30 s"}
                server.api.post("/api/alarms", json=body).raise_for_status()
            yield server


def test_lines_are_drawn_before_the_charts_library_is_loaded(full: Small, page: Page) -> None:
    held = HeldRoutes(page, "/plotly.min.js")
    page.goto(full.url)
    expect(page.locator("#lines .sketch path[stroke]")).to_have_count(3)
    held.release()
    expect(page.locator("#lines.drawn")).to_be_visible()


def test_panels_are_loaded_when_they_are_seen(full: Small, page: Page) -> None:
    asked: list[Request] = []
    page.on("request", asked.append)
    open_page(page, full.url, window="within:5m")
    expect(page.locator("#alarms .alarm").first).to_be_visible()
    expect(page.locator("#compare select").first).to_be_attached()
    late = ("/api/qq", "/api/monitors", "/worst-keys")
    assert not [one.url for one in asked if one.url.split("?")[0].endswith(late)]
    scroll_to(page.locator("#compare .chart.square"), page.locator("#compare .chart.square.drawn"))
    assert [one.url for one in asked if "/api/qq" in one.url]


@pytest.mark.parametrize("width", [1440, 1000, 390])
def test_panels_stay_where_they_are_while_those_above_load(full: Small, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    held = HeldRoutes(page, *LATE)
    open_page(page, full.url, window="within:5m")
    until(page, "!document.getElementById('worst').hidden")
    before = page.evaluate(TOPS, BELOW)
    held.release()
    for panel, part in (("alarms", ".alarm"), ("compare", ".verdict"), ("worst", "tbody tr"), ("queries", ".tile")):
        scroll_to(page.locator(f"#{panel}"), page.locator(f"#{panel} {part}").first)
    scroll_to(page.locator("#runs"), page.locator("#runs .run").first)
    after = page.evaluate(TOPS, BELOW)
    moved = dict(zip(BELOW, np.subtract(after, before).tolist(), strict=True))
    if width < 1181:  # more alarms than there is room kept for: everything below them moves once, by their height
        moved = {panel: way - moved["compare"] for panel, way in moved.items()}
    assert max(map(abs, moved.values())) <= FAR, moved


@pytest.mark.parametrize(("width", "height"), [(1200, 800), (1440, 900)])
def test_three_of_four_alarms_are_shown_whole(full: Small, page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    open_page(page, full.url, window="within:5m")
    cards = page.locator("#alarms .alarm")
    expect(cards).to_have_count(4)
    third, shown = cards.nth(2).bounding_box(), page.locator(".alarms").bounding_box()
    assert third is not None
    assert shown is not None
    assert third["y"] + third["height"] <= shown["y"] + shown["height"]


@pytest.mark.slow
def test_no_line_is_drawn_across_a_gap(tmp_path_factory: pytest.TempPathFactory, page: Page) -> None:
    folder = tmp_path_factory.mktemp("gap")
    with store(folder) as history:
        history.append(np.arange(1.0, 601.0), times=moments(600))
        with small(folder) as server:
            open_page(page, server.url, window="within:10s")
            held = HeldRoutes(page, "/lines")
            later = NOON + np.timedelta64(50, "s")
            with page.expect_request(lambda one: "/lines" in one.url):
                history.append(np.arange(1.0, 51.0), times=moments(50, 49, later))
            newest = "() => document.getElementById('lines').data.at(-1).x"
            assert len(page.evaluate(newest)) > 50
            assert max(page.evaluate(newest)) == int(NOON.astype("M8[ms]").astype(int))
            held.release()
            until(page, f"later => ({newest})().at(-1) === later", int(later.astype("M8[ms]").astype(int)))
            assert np.diff(page.evaluate(newest)).max() < 5000
            page.goto("about:blank")
