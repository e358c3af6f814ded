"""Connection of the page to a server that restarts, is busy, or requires a token."""

import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from quantide import History
from quantide.server.http.tokens import create_token
from quantide.server.server_registry import ServerRegistry
from quantide.store.ingest_status import IngestStatus, publish_status
from quantide.windows.wall_clock import VARIABLE, wall_clock
from tests.browser.chrome import Complaints, picture
from tests.browser.page import SOON, open_page, scroll_to, until
from tests.browser.small_server import NOON, SmallServer, moments, serve_store, store

LOST = "ERR_|Failed to load|network"


def fill(history: History) -> None:
    history.append(np.arange(1.0, 101.0), times=moments(100))


@pytest.mark.slow
def test_a_server_that_comes_back(tmp_path: Path, page: Page, complaints: Complaints) -> None:
    complaints.expect(LOST)
    live = page.locator("#live")
    with store(tmp_path) as history:
        fill(history)
        with serve_store(tmp_path) as server:
            port = urlsplit(server.url).port or 0
            open_page(page, server.url, window="within:1h")
            expect(live).to_have_attribute("data-state", "quiet")  # live, and nothing has come for long
        expect(live).to_contain_text("reconnecting")
        expect(page.locator("#announcer")).to_contain_text("The connection is lost. Reconnecting.", timeout=SOON)
        expect(page.locator("#numbers .number-value").first).to_have_text("50")  # what was known stays
        history.append(np.arange(101.0, 201.0), times=moments(100))
        with serve_store(tmp_path, port=port):
            expect(live).not_to_contain_text("reconnecting", timeout=SOON)
            expect(page.locator("#numbers .number-value")).to_have_text(["100", "180", "198", "200"], timeout=SOON)
            expect(page.locator("#announcer")).to_contain_text("Connected again.", timeout=SOON)
            page.goto("about:blank")


@pytest.mark.slow
def test_sixty_commits_a_second(tmp_path: Path, page: Page) -> None:
    with store(tmp_path) as history:
        fill(history)
        with serve_store(tmp_path) as server:
            open_page(page, server.url, window="within:1h")
            end, pause = threading.Event(), threading.Event()

            def write() -> None:
                for second in range(120):
                    history.append(np.full(10, float(second)), times=NOON + np.timedelta64(second + 1, "s"))
                    if pause.wait(1 / 60):
                        return
                end.set()

            writer = threading.Thread(target=write)
            writer.start()
            try:
                page.get_by_role("button", name="10 min").or_(page.get_by_role("button", name="5 min")).first.click()
                page.keyboard.press("?")  # the page answers meanwhile
                expect(page.get_by_role("dialog")).to_be_visible()
                page.keyboard.press("Escape")
                assert end.wait(SOON / 1000)
            finally:
                pause.set()
                writer.join()
            expect(page.locator("#live")).to_contain_text("1,300 values", timeout=SOON)
            check_newest(page, server)
            until(page, "until => document.getElementById('lines').data.at(-1).x.at(-1) === until", last_moment())
            page.goto("about:blank")


def check_newest(page: Page, server: SmallServer) -> None:
    """Check that the page shows the newest commit, also one that changes no data."""
    version = "Number(document.querySelector('#numbers .about').textContent.replace(/.*commit |,/g, ''))"
    until(page, f"async () => {version} === (await (await fetch('/api/streams/numbers')).json()).version")
    assert 121 <= page.evaluate(version) <= server.api.get("/api/streams/numbers").json()["version"]


def last_moment() -> int:
    return int((NOON + np.timedelta64(120, "s")).astype("M8[ms]").astype(np.int64))


@pytest.mark.slow
def test_the_page_requests_a_token(tmp_path: Path, page: Page, complaints: Complaints) -> None:
    complaints.expect("401")
    with store(tmp_path) as history:
        fill(history)
    registry = ServerRegistry(str(tmp_path / "state"))
    tokens = {role: create_token(registry, role, role)[1] for role in ("reader", "writer")}
    with serve_store(tmp_path, server='state = "state"') as server:
        page.goto(f"{server.url}/#window=within:1h")
        dialog = page.get_by_role("dialog", name="Sign in")
        expect(dialog.get_by_label("Token")).to_be_focused()
        page.keyboard.press("Escape")
        expect(dialog).to_be_visible()  # there is nothing behind it
        dialog.get_by_label("Token").fill("qt_nobody")
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_contain_text("token")
        dialog.get_by_label("Token").fill(tokens["reader"])
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        page.wait_for_selector("#lines.drawn")
        expect(page.locator("#numbers .number-value")).to_have_text(["50", "90", "99", "100"])
        check_only_reads(page, complaints)
        page.goto("about:blank")
    registry.close()


def check_only_reads(page: Page, complaints: Complaints) -> None:
    """The page shows a reader that a role is missing."""
    complaints.expect("403")
    panel = page.get_by_role("region", name="Alarms")
    panel.get_by_text("New alarm").click(timeout=SOON)
    panel.get_by_label("Threshold").fill("5")
    panel.get_by_role("button", name="Set the alarm").click()
    expect(panel.locator("form").get_by_role("alert")).to_contain_text("This token may not set alarms")
    scroll_to(page.locator("#compare .square"), page.locator("#compare").get_by_text("This token may only read"))


def test_a_page_has_one_event_stream_whatever_it_shows(tmp_path: Path, page: Page) -> None:
    """A browser has six connections for all pages of a server."""
    with store(tmp_path) as history:
        fill(history)
        with serve_store(tmp_path) as server:
            server.api.post("/api/queries", json={"stream": "numbers", "phi": 0.5, "label": "mine"})
            open_page(page, server.url, window="within:1h")
            scroll_to(
                page.locator("#compare .square"), page.locator("#compare").get_by_text("continuous queries").first
            )
            page.get_by_label("Subscribe to all that have a label").check()
            expect(page.locator("#queries")).to_contain_text("answers changed", timeout=SOON)
            last = time.monotonic() + SOON / 1000  # the connections that were given up end
            while "quantide_event_streams 1.0" not in (metrics := server.api.get("/metrics").text):
                assert time.monotonic() < last, metrics
                page.wait_for_timeout(50)
            page.goto("about:blank")


def test_problems_of_a_stream(tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newest time ahead of the clock is never shown as live; bad rows, held files and problems are on the page."""
    live, problems = page.locator("#live"), page.locator("#problems")
    with store(tmp_path) as history:
        fill(history)
        publish_status(history.table.storage, IngestStatus(wall_clock(), True, 100, 7, 3, 0, "a batch failed"))
        monkeypatch.setenv(VARIABLE, str(-2 * 365 * 86_400))
        with serve_store(tmp_path) as server:
            open_page(page, server.url, window="within:1h")
            expect(live).to_have_attribute("data-state", "ahead")
            expect(live).to_contain_text("ahead of the clock")
            expect(live).to_contain_text("7 bad rows · 3 held files")
            expect(problems).to_contain_text("ahead of this machine's clock")
            expect(problems).to_contain_text("a batch failed")
            picture(page, "problems")
            page.goto("about:blank")
