"""The Q-Q plot against a running demo: zooming shows more points, and visible points become continuous queries."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.demo import Demo
from tests.browser.page import SOON, open_page, scroll_to, until

POINTS = "document.querySelector('#compare .square').data?.[0].marker.color ?? []"  # coloured by phi
CORNERS = """([from, to]) => {
    const plot = document.querySelector("#compare .square");
    const { xaxis, yaxis } = plot._fullLayout;
    const { left, top } = plot.getBoundingClientRect();
    const { x, y, marker } = plot.data[0];
    const at = (i) => [left + xaxis._offset + xaxis.d2p(x[i]), top + yaxis._offset + yaxis.d2p(y[i])];
    const inside = marker.color.flatMap((phi, i) => (phi >= from && phi <= to ? [at(i)] : []));
    const [across, down] = [0, 1].map((axis) => inside.map((point) => point[axis]));
    return [Math.min(...across) - 4, Math.max(...down) + 4, Math.max(...across) + 4, Math.min(...down) - 4];
}"""


LOG = "document.querySelector('#compare .square')._fullLayout.xaxis.type === 'log'"


def open_plot(page: Page, demo: Demo) -> Locator:
    open_page(page, demo.url, stream="spread", key="DUNE")
    plot = page.locator("#compare .square")
    scroll_to(plot, page.locator("#compare .square.drawn"))
    until(page, f"({POINTS}).length > 0 && document.querySelector('#compare .sentence').textContent !== ''")
    until(page, LOG)  # spreads are skewed: the values' scale is chosen when they are known
    return plot


def phis(page: Page) -> list[float]:
    found: list[float] = page.evaluate(POINTS)
    return found


def between(found: list[float], low: float, high: float) -> list[float]:
    return [phi for phi in found if low <= phi <= high]


def labelled(demo: Demo, label: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = demo.api.get("/api/queries", params={"label": label}).json()["queries"]
    return found


def registers(request: Request) -> bool:
    return request.method == "POST" and request.url.endswith("/api/queries")


def posted_queries(request: Request) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request.post_data_json or []
    return found


def test_dragging_a_box_shows_more_points_of_it(demo: Demo, page: Page) -> None:
    plot = open_plot(page, demo)
    before = phis(page)
    assert (before[0], before[-1]) == (0, 1)
    left, bottom, right, top = page.evaluate(CORNERS, [0.5, 0.95])
    with page.expect_request(registers) as request:
        page.mouse.move(left, bottom)
        page.mouse.down()
        page.mouse.move((left + right) / 2, (bottom + top) / 2, steps=3)
        page.mouse.move(right, top, steps=3)
        page.mouse.up()
    until(page, f"({POINTS})[0] > 0.3")
    after = phis(page)
    low, high = after[0], after[-1]
    assert 0.3 < low < 0.6  # points move meanwhile
    assert 0.85 < high < 1
    assert len(between(after, low, high)) > 1.5 * len(between(before, low, high))
    check_standing(demo, page, posted_queries(request.value), low, high)
    expect(page.get_by_role("navigation", name="Zoom").get_by_role("listitem")).to_have_count(2)
    plot.dblclick()
    until(page, f"({POINTS})[0] === 0 && ({POINTS}).at(-1) === 1")
    limits = page.evaluate("document.querySelector('#compare .square')._fullLayout.xaxis.range")
    assert -3 < limits[0] < limits[1] < 5  # powers of ten, and not the numbers of another scale


def check_standing(demo: Demo, page: Page, queries: list[dict[str, Any]], low: float, high: float) -> None:
    """Visible points have continuous queries, which are dropped when the page closes."""
    label = queries[0]["label"]
    until(page, "document.querySelector('#compare .square').data[1].x.length > 0")  # the rings that they move
    standing = labelled(demo, label)
    assert {query["id"] for query in standing}
    assert len(standing) == len(queries) >= 20
    half = (high - low) / 200
    assert all(low - half <= query["phi"] <= high + half for query in standing)
    assert {query["key"] for query in standing} == {"DUNE"}
    assert len({query["window"] for query in standing}) == 2  # one for each axis
    assert all(query["idle"] for query in standing)


@pytest.mark.slow
def test_looking_closer_by_keys_and_leaving(demo: Demo, page: Page) -> None:
    labels: list[str] = []
    page.on("request", lambda one: labels.append(posted_queries(one)[0]["label"]) if registers(one) else None)
    plot = open_plot(page, demo)
    plot.focus()
    trail = page.get_by_role("navigation", name="Zoom").get_by_role("listitem")
    for depth in (2, 3):
        page.keyboard.press("+")
        expect(trail).to_have_count(depth)
    until(page, f"({POINTS})[0] === 0.75")
    assert len(phis(page)) > 100
    page.keyboard.press("ArrowLeft")
    until(page, f"({POINTS})[0] < 0.75")
    page.keyboard.press("-")
    expect(trail).to_have_count(2)
    page.keyboard.press("0")
    expect(trail).to_have_count(1)
    until(page, f"({POINTS})[0] === 0")
    expect(page.locator("#announcer")).to_contain_text("all ranks", timeout=SOON)
    tail = page.get_by_role("button", name="p99 to the largest", exact=True)
    tail.click()
    until(page, f"({POINTS})[0] === 0.99")
    expect(plot).not_to_have_class(re.compile("stale"))
    expect(tail).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Compare with").select_option("the last 5\N{NO-BREAK SPACE}min")
    expect(trail).to_have_text(["all ranks"])
    expect(tail).to_have_attribute("aria-pressed", "false")
    page.goto("about:blank")
    assert len(set(labels)) >= 5  # each range has its own
    for label in labels:
        wait_until_dropped(demo, label)


def wait_until_dropped(demo: Demo, label: str) -> None:
    # A registration that the page sent just before it closed expires on the server, after a minute of its own.
    last = time.monotonic() + 3 * SOON / 1000
    while labelled(demo, label):
        assert time.monotonic() < last, "the page is left, its queries are not"
        time.sleep(0.05)
