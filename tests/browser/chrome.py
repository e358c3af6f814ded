"""A real browser for tests: its program and flags, the errors of a page, pictures of it."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

NAMES = ["chromium", "chromium-browser", "google-chrome"]
PICTURES = Path(__file__).parent / "artifacts"
MISSING = (
    "the tests of the page need a browser and found none of {names}. Run make setup, which installs one, or: sudo "
    "apt-get install chromium. One that lies elsewhere is named by QUANTIDE_BROWSER=/path/to/chromium"
)


def find_browser() -> str:
    """Return the program that QUANTIDE_BROWSER names, or the first of NAMES; fail the test if there is none."""
    names = [chosen] if (chosen := os.environ.get("QUANTIDE_BROWSER")) else NAMES
    for name in names:
        if found := shutil.which(name):
            return found
    pytest.fail(MISSING.format(names=", ".join(names)), pytrace=False)


def flags() -> list[str]:
    """Chromium's sandbox does not start for root; the other two only cost time here."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    return [*root, "--disable-gpu", "--disable-quic"]


@contextmanager
def launch_browser() -> Iterator[Browser]:
    """Start a browser without a window; close it, and the process of Playwright, at the end."""
    program = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags())
        try:
            yield browser
        finally:
            browser.close()


class Complaints:
    """Failures of a page: errors in its console, exceptions, requests that leave this machine."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: list[str] = []
        self._expected: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._found.append(f"exception: {error}"))
        page.on("request", self._request)

    def expect(self, pattern: str) -> None:
        """Ignore complaints that match a regular expression, which the test provokes."""
        self._expected.append(pattern)

    def all(self) -> list[str]:
        """Return the complaints that no test expects."""
        self._page.evaluate("0")  # earlier messages of the page arrive before the result
        return [one for one in self._found if not any(re.search(pattern, one) for pattern in self._expected)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        self._found.append(f"console: {message.text} ({message.location['url']})")

    def _request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("data", "blob") and url.hostname not in ("127.0.0.1", "localhost"):
            self._found.append(f"a request that leaves this machine: {request.url}")


def picture(page: Page, name: str) -> Path:
    """Take a picture of the whole page; write it to tests/browser/artifacts or QUANTIDE_ARTIFACTS."""
    folder = Path(os.environ.get("QUANTIDE_ARTIFACTS", PICTURES))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.png"
    page.screenshot(path=path, full_page=True)
    return path
