"""The page when responses are late, fail, or belong to what was selected before."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.chrome import Complaints
from tests.browser.page import SOON, offered_keys, open_page, scroll_to, selection, until
from tests.browser.small_server import SmallServer, moments, serve_store, store

PLOT = "document.querySelector('#compare .square')"
RECORD_SIGNAL = """{
    const send = window.fetch;
    window.fetch = (url, init) => {
        if (url.includes("/streams/one/lines")) window.past = init.signal;
        return send(url, init);
    };
}"""
SELECT_STREAM = """name => {
    [...document.querySelectorAll("#streams button")].find((one) => one.value === name).click();
    return window.past.aborted;
}"""
COUNT_CONNECTIONS = """{
    window.opened = 0;
    window.EventSource = class extends EventSource {
        constructor(url) {
            super(url);
            window.opened += 1;
            window.newest = this;
        }
    };
}"""
IS_REFUSED = "window.newest.readyState === EventSource.CLOSED"
SET_HIDDEN = """hidden => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
    return window.opened;
}"""
RETURN_FROM_CACHE = """() => {
    dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
    dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
}"""


class Hold:
    """Holds back requests that match a pattern, until they are released."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page, self._pattern, self._released = page, pattern, False
        self.routes: list[Route] = []
        page.route(re.compile(pattern), self._handle)

    def wait(self, count: int = 1) -> None:
        """Wait until at least `count` requests are held."""
        for _ in range(SOON // 20):
            if len(self.routes) >= count:
                return
            self._page.wait_for_timeout(20)
        raise AssertionError(f"{len(self.routes)} of {count} requests match {self._pattern}")

    def release(self) -> None:
        """Send the requests to the server, and those that follow."""
        self._released = True
        while self.routes:
            self.routes.pop().continue_()

    def _handle(self, route: Route) -> None:
        if self._released:
            route.continue_()
        else:
            self.routes.append(route)


def fail(route: Route) -> None:
    body = {"error": {"code": "internal", "message": "The test broke this."}}
    route.fulfill(status=500, content_type="application/json", body=json.dumps(body))


def open_plot(page: Page) -> None:
    scroll_to(page.locator("#compare .square"), page.locator("#compare .square.drawn"))
    expect(page.locator("#compare .sentence")).not_to_be_empty()


def test_a_chart_library_that_cannot_be_loaded_is_requested_again(
    static_server: SmallServer, page: Page, complaints: Complaints
) -> None:
    complaints.expect("ERR_FAILED")
    page.route("**/plotly.min.js", lambda route: route.abort())
    page.goto(f"{static_server.url}/#window=within:5m")
    note = page.locator("#charts-note")
    expect(note).to_have_text("The charts cannot be drawn: /page/plotly.min.js could not be loaded. Trying again.")
    expect(page.locator("#numbers .number-value").last).to_have_text("999")
    page.unroute("**/plotly.min.js")
    page.wait_for_selector("#lines.drawn", timeout=SOON)
    expect(note).to_be_hidden()


def test_a_box_in_the_plot_of_the_series_before_selects_nothing(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m")
    open_plot(page)
    page.evaluate(f"() => {{ {PLOT}.on('plotly_relayout', () => (window.dragged = true)); }}")
    held = Hold(page, "/api/qq")
    page.get_by_label("Compare with").select_option("within:15m")
    held.wait()
    expect(page.locator("#compare .sentence")).to_contain_text("the last 15\N{NO-BREAK SPACE}min")
    box = page.locator("#compare .square .nsewdrag").bounding_box()
    assert box is not None
    for step, share in enumerate((0.3, 0.4, 0.6)):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
        if step == 0:
            page.mouse.down()
    page.mouse.up()
    until(page, "window.dragged === true")
    expect(page.get_by_role("navigation", name="Zoom").get_by_role("listitem")).to_have_text(["all ranks"])
    held.release()
    expect(page.locator("#compare .square")).not_to_have_class(re.compile("stale"))


def test_a_reference_of_the_address_is_shown_where_it_is_not_offered(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, window="within:5m", against="within:20m")
    open_plot(page)
    expect(page.locator("#compare .sentence")).to_contain_text("the last 20\N{NO-BREAK SPACE}min")
    expect(page.get_by_label("Compare with").locator(":checked")).to_have_text("the last 20\N{NO-BREAK SPACE}min")


def test_the_plot_does_not_clear_the_error_of_the_comparison(
    static_server: SmallServer, page: Page, complaints: Complaints
) -> None:
    complaints.expect("500")
    plot, comparison = Hold(page, "/api/qq"), Hold(page, "/streams/numbers/compare")
    open_page(page, static_server.url, window="within:5m")
    error = page.locator("#compare .error")
    page.locator("#compare").scroll_into_view_if_needed()
    plot.wait()
    comparison.wait()
    fail(comparison.routes.pop())
    expect(error).to_have_text("The test broke this.")
    plot.release()
    until(page, "!document.querySelector('#compare .notes').textContent.includes('Loading')")
    expect(error).to_have_text("The test broke this.")
    expect(page.locator("#compare .pair")).to_be_hidden()
    comparison.release()
    page.get_by_label("Compare with").select_option("within:15m")
    expect(error).to_be_empty()
    expect(page.locator("#compare .pair")).to_be_visible()


@pytest.mark.parametrize("other", ["two", "later"])
def test_another_stream_ends_the_requests_of_the_one_before(
    tmp_path: Path, page: Page, complaints: Complaints, other: str
) -> None:
    complaints.expect("404|503")  # a stream that is not ready
    for name, first in (("one", 1.0), ("two", 1001.0)):
        with store(tmp_path, name) as history:
            history.append(np.arange(first, first + 100), times=moments(100))
    with serve_store(tmp_path, "one", "two", "later") as server:
        page.add_init_script(RECORD_SIGNAL)
        held = Hold(page, "/streams/(one|later)/lines")
        page.goto(f"{server.url}/#stream=one&window=within:30m")
        held.wait()
        assert page.evaluate(SELECT_STREAM, other) is True
        if other == "later":
            expect(page.locator("#now-note")).to_contain_text("The stream later is not ready")
            page.get_by_role("button", name="two").click()
        page.wait_for_selector("#lines.drawn")
        until(page, "document.getElementById('lines').data?.at(-1)?.y.at(-1) > 1000")
        assert len(held.routes) == 1, "no past is requested of a stream that is not ready"
        page.goto("about:blank")


def test_an_error_of_a_hint_ends_with_the_next_one(
    static_server: SmallServer, page: Page, complaints: Complaints
) -> None:
    complaints.expect("500")
    open_page(page, static_server.url, window="within:5m")
    page.route(re.compile(r"/quantiles\?window=[^&]*&phi=0\.999$"), fail)
    panel = page.get_by_role("region", name="Alarms")
    panel.get_by_text("New alarm").click(timeout=SOON)
    panel.get_by_label("Quantile").select_option("0.999")
    expect(panel).to_contain_text("The test broke this.")
    panel.get_by_label("Quantile").select_option("0.5")
    expect(panel.get_by_label("Threshold")).to_have_attribute("placeholder", re.compile("^now "))
    expect(panel).not_to_contain_text("The test broke this.")


def test_a_box_that_is_unchecked_leaves_no_subscription(static_server: SmallServer, page: Page) -> None:
    opened: list[str] = []
    page.on("request", lambda request: opened.append(request.url) if "/api/events" in request.url else None)
    open_page(page, static_server.url, window="within:5m")
    box = page.get_by_label("Subscribe to all that have a label")
    scroll_to(page.locator("#queries"), box)
    held = Hold(page, r"/api/queries\?limit")
    for action in (box.check, box.uncheck, box.check):
        action()
    held.wait(2)
    held.release()
    expect(page.locator("#queries")).to_contain_text("answers changed")
    assert "label=still" in opened[-1]
    box.uncheck()
    for _ in range(SOON // 20):
        if "label=still" not in opened[-1]:
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"still subscribed: {opened[-1]}")


@pytest.mark.parametrize("failed", [False, True])
def test_the_address_changes_before_the_streams_are_known(
    static_server: SmallServer, page: Page, complaints: Complaints, failed: bool
) -> None:
    complaints.expect("500")
    held = Hold(page, "/api/streams$")
    page.goto(static_server.url, wait_until="commit")
    page.wait_for_selector("#key", state="attached")  # the scripts run
    held.wait()  # the script uses the response of the preload
    if failed:
        fail(held.routes.pop())
        expect(page.locator("#now-note")).to_contain_text("The test broke this.")
    page.evaluate("location.hash = '#stream=numbers&window=within:60s&key=north'")
    expect(page).to_have_title("numbers · Quantide")  # the page follows the address
    held.release()
    page.wait_for_selector("#lines.drawn", timeout=SOON)
    expect(page.locator("#now-what")).to_have_text("numbers · north · last 1\N{NO-BREAK SPACE}min")


def test_a_hidden_page_does_not_connect_again(static_server: SmallServer, page: Page, complaints: Complaints) -> None:
    complaints.expect("500")
    page.add_init_script(COUNT_CONNECTIONS)
    page.route("**/api/events?*", fail)
    page.clock.install()
    open_page(page, static_server.url, window="within:5m")
    page.clock.pause_at(page.evaluate("Date.now() + 5000"))
    until(page, IS_REFUSED)
    page.clock.run_for(1000)  # half of the pause before it connects again
    page.evaluate(SET_HIDDEN, True)
    page.clock.run_for(1990)  # it connects once more,
    until(page, IS_REFUSED)
    page.clock.run_for(20)  # and gives up
    before = page.evaluate("window.opened")
    page.clock.run_for(20_000)
    assert page.evaluate("window.opened") == before
    assert page.evaluate(SET_HIDDEN, False) == before + 1


def test_keys_that_are_null_are_listed_and_cannot_be_selected(tmp_path: Path, page: Page) -> None:
    with store(tmp_path, keys="name") as history:
        history.append(np.arange(300.0), key=["north", None, "south"] * 100, times=moments(300))
    with serve_store(tmp_path) as server:
        open_page(page, server.url, window="within:1h")
        page.get_by_role("combobox", name="name").click()
        expect(offered_keys(page)).to_have_text(["all keys", "north", "south"])
        page.keyboard.press("Escape")
        rows = page.locator("#worst tbody tr")
        scroll_to(page.locator("#worst"), rows.first)
        expect(rows.get_by_role("rowheader")).to_have_text(["south", "null", "north"])
        expect(rows.get_by_role("button")).to_have_text(["south", "north"])
        expect(page.locator("#worst tr[aria-current]")).to_have_count(0)
        page.goto("about:blank")


def test_up_from_no_key_is_to_the_last_one(static_server: SmallServer, page: Page, complaints: Complaints) -> None:
    complaints.expect("404")  # no option is the key of the address
    page.goto(f"{static_server.url}/#key=nobody&window=within:5m")
    chooser = page.get_by_role("combobox", name="name")
    chooser.click()
    expect(offered_keys(page)).to_have_text(["all keys", "north", "south"])
    page.keyboard.press("ArrowUp")
    expect(page.locator(f"#{chooser.get_attribute('aria-activedescendant')}")).to_have_text("south")
    page.keyboard.press("Enter")
    assert selection(page)["key"] == "south"


def test_a_page_that_returns_registers_the_queries_that_it_was_registering(
    static_server: SmallServer, page: Page
) -> None:
    held = Hold(page, "/api/queries$")
    open_page(page, static_server.url, window="within:5m")
    open_plot(page)
    held.wait()
    page.evaluate(RETURN_FROM_CACHE)
    held.wait(2)
    held.release()
    expect(page.locator("#compare .notes")).to_contain_text("continuous queries")
