"""Places of the panels on the page."""

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.page import open_page
from tests.browser.small_server import SmallServer, moments, serve_store, store


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallServer]:
    """A server with ten keys and four alarms."""
    folder, rng = tmp_path_factory.mktemp("full"), np.random.default_rng(1)
    with store(folder, keys="name") as history:
        names = rng.choice([f"key {number}" for number in range(10)], 2000)
        history.append(rng.lognormal(3, 1, 2000), key=names, times=moments(2000))
        with serve_store(folder) as server:
            for phi in (0.5, 0.9, 0.99, 0.999):
                body = {"stream": "numbers", "window": "within:5m", "phi": phi, "above": 1e6, "hold": "30 s"}
                server.api.post("/api/alarms", json=body).raise_for_status()
            yield server


def test_three_of_four_alarms_are_shown_whole(full: SmallServer, page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    open_page(page, full.url, window="within:5m")
    cards = page.locator("#alarms .alarm")
    expect(cards).to_have_count(4)
    third, shown = cards.nth(2).bounding_box(), page.locator(".alarms").bounding_box()
    assert third is not None
    assert shown is not None
    assert third["y"] + third["height"] <= shown["y"] + shown["height"]
