"""Tails on the page: p99.9 and p99.99 with their bands, errors that are not shown as nothing, an alarm on p99.99."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import SOON, open_page, selection, time_series, until
from tests.browser.small_server import SmallServer, moments, serve_store, store

COUNT = 60_000


@pytest.fixture(scope="module")
def latencies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallServer]:
    folder = tmp_path_factory.mktemp("tails")
    values = np.random.default_rng(1).lognormal(0, 2.5, COUNT)
    with store(folder) as history:
        history.append(values, times=moments(COUNT))
    with serve_store(folder) as found:
        yield found


def test_tails_are_chosen_shown_with_bands_and_linked(latencies: SmallServer, page: Page) -> None:
    open_page(page, latencies.url, window="within:1h")
    heads = page.locator("#numbers h3")
    expect(heads).to_have_text(["p50", "p90", "p99", "values in the window"])
    page.get_by_label("Quantiles", exact=True).select_option("p99, p99.9, p99.99")
    expect(heads).to_have_text(["p99", "p99.9", "p99.99", "values in the window"])
    expect(page.locator("#numbers .number-value").nth(2)).not_to_be_empty(timeout=SOON)
    body = latencies.api.get(
        "/api/streams/numbers/quantiles", params={"phi": [0.99, 0.999, 0.9999], "window": "within:1h", "band": "true"}
    ).json()
    for index, answer in enumerate(body["answers"]):
        band = page.locator("#numbers .number-band").nth(index)
        expect(band).to_have_text(re.compile("^proved .* to |^proved to be exact$"))
        rank = page.locator("#numbers .number-rank").nth(index)
        ranks = f"{round(answer['error'] * COUNT):,}"
        exact = "" if answer["low"] == answer["high"] else "rank exact"  # a value that is proved exact says it once
        text = re.escape(f"rank off by at most {ranks} ") if answer["error"] else f"{exact}$"
        expect(rank).to_have_text(re.compile(f"^{text}"))
    until(page, "document.getElementById('lines').data.some((one) => one.name === 'p99.99')")
    assert time_series(page, "p99.99")["y"][-1] == pytest.approx(body["answers"][2]["value"])
    assert selection(page)["tails"] == "true"
    page.reload()
    expect(heads).to_have_text(["p99", "p99.9", "p99.99", "values in the window"], timeout=SOON)
    expect(page.get_by_label("Quantiles", exact=True)).to_have_value("tails")
    page.get_by_label("Quantiles", exact=True).select_option("p50, p90, p99")
    expect(heads).to_have_text(["p50", "p90", "p99", "values in the window"])
    until(page, "document.getElementById('lines').data.some((one) => one.name === 'p50')")
    assert "tails" not in selection(page)


def test_an_alarm_is_set_on_p99_99(latencies: SmallServer, page: Page) -> None:
    open_page(page, latencies.url, window="within:1h")
    panel = page.get_by_role("region", name="Alarms")
    panel.get_by_text("New alarm").click(timeout=SOON)
    panel.get_by_label("Quantile").select_option("p99.99")
    expect(panel.get_by_label("Threshold")).to_have_attribute("placeholder", re.compile(r"^now \d"))
    panel.get_by_label("Threshold").fill("1")
    panel.get_by_role("combobox", name="Hold", exact=True).select_option("at once")
    panel.get_by_label("Name").fill("tail")
    panel.get_by_role("button", name="Set the alarm").click()
    card = panel.get_by_role("listitem").filter(has=page.get_by_role("heading", name="tail"))
    expect(card).to_contain_text("p99.99 of numbers", timeout=SOON)
    expect(card.locator(".badge")).to_have_attribute("data-state", "firing", timeout=SOON)
    [alarm] = latencies.api.get("/api/alarms").json()["alarms"]
    assert (alarm["phi"], alarm["above"], alarm["firing"]) == (0.9999, 1, True)


SHOWN = {
    "phi(0.9999)": "p99.99",
    "phi(0.9999999)": "p99.99999",
    "phi(0.07)": "p7",
    "rankError(7e-7, 1e7)": "7 (0.00007\N{NO-BREAK SPACE}%)",
    "rankError(0.0012345, 1e6)": "1,235 (0.13\N{NO-BREAK SPACE}%)",
    "rankError(1 / 3e9, 3e9)": "1 (0.000000034\N{NO-BREAK SPACE}%)",
    "percents(0.1684, 0.2281)": "16 to 23\N{NO-BREAK SPACE}%",
    "percents(0.80188, 0.80192)": "80.2\N{NO-BREAK SPACE}%",
    "steady(6)": "6",
    "steady(6, [3.555])": "6.000",
    "steady(13.3)": "13.30",
    "steady('22.50')": "22.50",
    "steady(-0.5)": "-0.5000",
    "steady('inf', [1.5])": "∞",
    "steady(null)": "\N{EN DASH}",
    "shortCount(600335)": "600\N{NO-BREAK SPACE}k",
    "shortCount(2980000)": "2.98\N{NO-BREAK SPACE}M",
    "percent(7e-7, 2)": "0.00007\N{NO-BREAK SPACE}%",
}


def test_small_numbers_are_not_rounded_away(latencies: SmallServer, page: Page) -> None:
    open_page(page, latencies.url)
    for call, text in SHOWN.items():
        name, _, arguments = call.rstrip(")").partition("(")
        assert page.evaluate(f"import('/page/format.js').then((format) => format.{name}({arguments}))") == text
