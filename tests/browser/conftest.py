"""A browser, and a page that must report no error."""

from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chrome import Complaints, launch_browser, picture
from tests.browser.demo import Demo, run_demo
from tests.browser.small_server import NOON, SmallServer, moments, serve_store, store

FOLDER = Path(__file__).parent
FAILED = pytest.StashKey[bool]()
expect.set_options(timeout=60_000)  # milliseconds; a busy machine is slow, and not wrong


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests that need the demo behind the others of this folder: while it runs, it takes a third of a core."""
    positions = [position for position, item in enumerate(items) if item.path.parent == FOLDER]
    own = [items[position] for position in positions]
    for position, item in zip(positions, sorted(own, key=_needs_demo), strict=True):
        items[position] = item


def _needs_demo(item: pytest.Item) -> bool:
    return "demo" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """One demo for all tests of the page."""
    with run_demo(tmp_path_factory.mktemp("demo")) as found:
        yield found


@pytest.fixture(scope="package")
def static_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallServer]:
    """A server with content for every part of the page, which does not change."""
    folder, rng = tmp_path_factory.mktemp("still"), np.random.default_rng(1)
    with store(folder, keys="name") as history:
        for step in range(4):
            end = NOON - np.timedelta64(150 * (3 - step), "s")
            names = rng.choice(["north", "south"], 500)
            history.append(rng.lognormal(3, 1, 500), key=names, times=moments(500, 150, end))
            if step < 3:
                history.end_step()
        with serve_store(folder) as found:
            about = {"stream": "numbers", "window": "within:5m"}
            found.api.post("/api/alarms", json=about | {"phi": 0.99, "above": 5, "name": "fires"}).raise_for_status()
            found.api.post("/api/alarms", json=about | {"phi": 0.99, "above": 1e6, "name": "rests"}).raise_for_status()
            found.api.post("/api/queries", json=about | {"phi": 0.9, "label": "still"}).raise_for_status()
            yield found


@pytest.fixture(scope="package")  # not "session": while it lives, asyncio.run() does not work in this thread
def browser() -> Iterator[Browser]:
    with launch_browser() as found:
        yield found


@pytest.fixture
def blank(browser: Browser) -> Iterator[Page]:
    """A page of a new browser context: no cookies, nothing stored."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC", reduced_motion="reduce"
    )
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def complaints(blank: Page) -> Complaints:
    """Complaints of the page; `expect` names those that a test provokes."""
    return Complaints(blank)


@pytest.fixture
def page(blank: Page, complaints: Complaints, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page whose errors fail the test. Every test that fails stores a picture of it.

    Request the fixture of the server before this one: a server that ends before the page is an error of the page.
    """
    yield blank
    found = complaints.all()
    if found or request.node.stash.get(FAILED, False):
        picture(blank, request.node.name)
    assert found == []
