"""Values and keys of every kind on the page: nothing, one value, infinities, times, money; keys of every kind."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chrome import Complaints
from tests.browser.page import SOON, offered_keys, open_page, scroll_to, selection, until
from tests.browser.small_server import NOON, SmallServer, moments, serve_store, store

NUMBERS = "#numbers .number-value"
TAG = "<img src=x onerror=document.title='run'>"


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallServer]:
    """A server with a stream for each kind of value."""
    folder = tmp_path_factory.mktemp("kinds")
    even = np.arange(1, 101)
    values: dict[str, tuple[Any, dict[str, Any]]] = {
        "one": (np.array([41.5]), {}),
        "infinite": (np.r_[np.full(60, -np.inf), np.arange(30.0), np.full(10, np.inf)], {}),
        "moments": (NOON + even * np.timedelta64(1, "s"), {"value_type": "timestamp[us]"}),
        "spans": (even * np.timedelta64(250, "ms"), {"value_type": "duration[ms]"}),
        "prices": (pa.array([Decimal(int(n)) / 4 for n in even]), {"value_type": "decimal[2]"}),
        "counts": (even, {"value_type": "int64"}),
        "large": (2**53 + even, {"value_type": "int64"}),
    }
    for name, (given, settings) in values.items():
        with store(folder, name, **settings) as history:
            history.append(given, times=moments(len(given)))
    with store(folder, "timeless") as history:
        history.append(np.arange(100.0))
    with serve_store(folder, *values, "timeless") as found:
        yield found


SHOWN = {  # the median, p90 and p99 of each, and how many there are
    "one": ["41.50", "41.50", "41.50", "1"],
    "infinite": ["-∞", "29", "∞", "100"],
    "moments": ["2026-01-31 12:00:50", "2026-01-31 12:01:30", "2026-01-31 12:01:39", "100"],
    "spans": ["12.5\N{NO-BREAK SPACE}s", "22.5\N{NO-BREAK SPACE}s", "24.8\N{NO-BREAK SPACE}s", "100"],
    "prices": ["12.50", "22.50", "24.75", "100"],
    "counts": ["50", "90", "99", "100"],
}


@pytest.mark.slow
def test_integers_beyond_those_of_javascript_stay_what_they_are(kinds: SmallServer, page: Page) -> None:
    open_page(page, kinds.url, stream="large", window="within:1h")
    expect(page.locator(NUMBERS).first).to_have_text(f"{2**53 + 50:,}")


@pytest.mark.slow
def test_an_address_that_means_nothing_is_passed_by(kinds: SmallServer, page: Page) -> None:
    for fragment in ("window=7", 'window=["within:5m"]', "stream={}", "over=[1]", "log=7", "filter=1"):
        page.goto("about:blank")
        page.goto(f"{kinds.url}/#{fragment}")
        expect(page.locator(NUMBERS).first).not_to_be_empty(timeout=SOON)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_values_are_shown_as_what_they_are(kinds: SmallServer, page: Page, name: str) -> None:
    open_page(page, kinds.url, stream=name, window="within:1h")
    expect(page.locator(NUMBERS)).to_have_text(SHOWN[name])
    scroll_to(page.locator("#compare"), page.locator("#compare .sentence:not(:empty)"))
    scroll_to(page.locator("#runs"), page.locator("#runs .sentence:not(:empty)"))
    expect(page.locator("#runs .sentence")).to_contain_text("open step", timeout=SOON)
    for panel in ("alarms", "compare", "queries", "runs"):
        expect(page.locator(f"#{panel}")).not_to_contain_text("failed")
    assert "NaN" not in page.locator("body").inner_text()


@pytest.mark.slow
def test_a_stream_without_times(kinds: SmallServer, page: Page) -> None:
    page.goto(f"{kinds.url}/#stream=timeless")
    expect(page.locator(NUMBERS)).to_have_text(["49", "89", "98", "100"])
    expect(page.get_by_role("combobox", name="Stream")).to_have_value("timeless")


@pytest.mark.slow
def test_no_request_goes_anywhere_else(kinds: SmallServer, page: Page) -> None:
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    open_page(page, kinds.url, stream="counts", window="within:1h")
    scroll_to(page.locator("#runs"), page.locator("#runs .sentence:not(:empty)"))
    here = urlsplit(kinds.url)
    others = [url for url in urls if urlsplit(url)[:2] != here[:2] and not url.startswith("data:")]
    assert len(urls) > 20
    assert others == []


@pytest.mark.slow
def test_an_empty_store_and_one_that_is_not_there_yet(tmp_path: Path, page: Page, complaints: Complaints) -> None:
    complaints.expect("404|503")  # which the page is told, and puts in words
    store(tmp_path, "empty").close()
    with serve_store(tmp_path, "empty", "later") as server:
        page.goto(f"{server.url}/#stream=empty")
        expect(page.locator("#now-note")).to_contain_text("Nothing lies in this window", timeout=SOON)
        page.get_by_role("button", name="later").click()
        expect(page.locator("#now-note")).to_contain_text("The stream later is not ready")
        expect(page.locator("#live")).to_contain_text("not ready")
        with store(tmp_path, "later") as history:
            history.append(np.arange(1.0, 101.0), times=moments(100, 60))
            expect(page.locator(NUMBERS)).to_have_text(["50", "90", "99", "100"], timeout=SOON)
        expect(page.locator("#now-note")).to_be_hidden()
        page.wait_for_selector("#lines.drawn")
        page.goto("about:blank")


def test_a_key_that_the_stream_does_not_have_yet(tmp_path: Path, page: Page, complaints: Complaints) -> None:
    complaints.expect("404")
    with store(tmp_path, keys="name") as history:
        history.append(np.arange(100.0), key=["here"] * 100, times=moments(100))
        with serve_store(tmp_path) as server:
            page.goto(f"{server.url}/#key=later&window=within:30m")
            expect(page.locator("#now-note")).to_contain_text('The stream numbers has no key "later".', timeout=SOON)
            history.append(np.arange(1.0, 101.0), key=["later"] * 100, times=moments(100))
            expect(page.locator(NUMBERS)).to_have_text(["50", "90", "99", "100"], timeout=SOON)
            expect(page.locator("#now-note")).to_be_hidden()
            page.goto("about:blank")


def test_an_empty_key_in_the_address_is_all_keys(
    static_server: SmallServer, tmp_path: Path, page: Page, complaints: Complaints
) -> None:
    complaints.expect("404")  # the answer that shows that the stream has no such key
    open_page(page, static_server.url, key="", window="within:5m")
    expect(page.locator(NUMBERS).last).to_have_text("999", timeout=SOON)
    assert "key" not in selection(page)
    with store(tmp_path, keys="name") as history:
        history.append(np.arange(100.0), key=["", "other"] * 50, times=moments(100))
    with serve_store(tmp_path) as server:
        page.goto("about:blank")
        open_page(page, server.url, key="", window="within:1h")
        expect(page.locator(NUMBERS).last).to_have_text("50")
        assert page.evaluate("location.hash").startswith("#key=&")
        page.goto("about:blank")


def test_a_stream_and_a_window_that_are_not_there_are_named(static_server: SmallServer, page: Page) -> None:
    open_page(page, static_server.url, stream="nope", window="within:9h")
    note = page.locator("#now-replaced")
    expect(note).to_have_text(
        "There is no stream nope: this is numbers. "
        "The stream numbers has no window within:9h: this is the last 1\N{NO-BREAK SPACE}h."
    )
    back = page.get_by_label("How far back the chart reaches")
    expect(page.locator("#lines-note")).to_contain_text("no past")
    expect(back).to_be_hidden()
    page.get_by_role("button", name="5 min", exact=True).click()
    expect(note).to_be_hidden()
    expect(back).to_be_visible()


def test_keys_are_text_whatever_is_in_them(tmp_path: Path, page: Page) -> None:
    keys = [TAG, "</script><script>document.title='run'</script>", "a&b", '"quoted"', "7", "[1]"]
    with store(tmp_path, keys="name") as history:
        history.append(np.arange(600.0), key=np.tile(keys, 100), times=moments(600))
    with serve_store(tmp_path) as server:
        open_page(page, server.url, window="within:1h")
        chooser = page.get_by_role("combobox", name="name")
        chooser.click()
        expect(offered_keys(page)).to_have_text(["all keys", *sorted(keys)])
        for key in keys:
            chooser.fill(key)
            expect(offered_keys(page)).to_have_count(1)
            expect(offered_keys(page).filter(has_text=key)).to_be_visible()
            page.keyboard.press("Enter")
            expect(page.locator("#now-what")).to_contain_text(key)
            expect(page.locator(NUMBERS).last).to_have_text("100")
        page.get_by_role("region", name="Alarms").get_by_text("New alarm").click(timeout=SOON)
        page.get_by_label("Name", exact=True).fill(TAG)
        page.get_by_label("Threshold").fill("5")
        page.get_by_role("combobox", name="Hold", exact=True).select_option("at once")
        page.get_by_role("button", name="Set the alarm").click()
        expect(page.get_by_role("heading", name=TAG)).to_be_visible()
        assert page.locator("img[src=x]").count() == 0
        assert page.title() == "(1) numbers · Quantide"
        page.goto("about:blank")


@pytest.mark.slow
def test_keys_of_two_columns(tmp_path: Path, page: Page) -> None:
    with store(tmp_path, keys=["region", "number"]) as history:
        history.append(np.arange(400.0), key=[("eu", 7), ("eu", 8), ("us", 7), ("us", 8)] * 100, times=moments(400))
    with serve_store(tmp_path) as server:
        open_page(page, server.url, window="within:1h")
        page.keyboard.press("/")
        page.keyboard.type("eu")
        expect(offered_keys(page)).to_have_text(["eu · 7", "eu · 8"])
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator(NUMBERS)).to_have_text(["197", "357", "393", "100"])
        page.reload()
        expect(page.locator("#now-what")).to_contain_text("eu · 8")
        scroll_to(page.locator("#compare .square"), page.locator("#compare .square.drawn"))
        expect(page.locator("#compare .sentence")).not_to_be_empty(timeout=SOON)
        until(page, "document.querySelector('#compare .square').data?.[0].x.length > 0")
        page.goto("about:blank")


@pytest.mark.slow
def test_ten_thousand_keys(tmp_path: Path, page: Page) -> None:
    with store(tmp_path, keys="name") as history:
        history.append(np.arange(10_000.0), key=[f"key {i:05}" for i in range(10_000)], times=moments(10_000))
    with serve_store(tmp_path) as server:
        open_page(page, server.url, window="within:1h")
        page.keyboard.press("/")
        page.keyboard.press("ArrowDown")
        expect(page.locator(".keys-more")).to_contain_text("9,950 more")
        page.keyboard.type("07777")
        expect(offered_keys(page)).to_have_text(["key 07777"])
        page.keyboard.press("Enter")
        expect(page.locator(NUMBERS)).to_have_text(["7,777", "7,777", "7,777", "1"])
        page.goto("about:blank")
