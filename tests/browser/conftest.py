"""A browser, and a page of it that must not complain."""

from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chrome import Complaints, launched, picture

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="module")  # while it lives, asyncio.run() does not work in this thread: other tests need it
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def blank(browser: Browser) -> Iterator[Page]:
    """A page of a browser that knows nothing yet: no cookies, nothing stored."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC", reduced_motion="reduce"
    )
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def complaints(blank: Page) -> Complaints:
    """What the page complains of; `expect` names what a test provokes."""
    return Complaints(blank)


@pytest.fixture
def page(blank: Page, complaints: Complaints, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page; a test fails when it complains. A picture of it is kept of every test that fails.

    Ask for the server before the page: a server that ends while the page listens is a complaint.
    """
    yield blank
    found = complaints.all()
    if found or request.node.stash.get(FAILED, False):
        picture(blank, request.node.name)
    assert found == []
