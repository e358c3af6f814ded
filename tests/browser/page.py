"""Actions on the page: open it, wait for a condition, read its charts, send its queries to the API."""

import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from playwright.sync_api import Locator, Page, Response

SOON = 60_000  # milliseconds, enough for a busy machine


def open_page(page: Page, url: str, **selection: str) -> None:
    """Open the page with a selection, and wait until its first chart is drawn."""
    page.goto(f"{url.rstrip('/')}/#{urlencode(selection)}")
    page.wait_for_selector("#lines.drawn", timeout=SOON)


def until(page: Page, condition: str, argument: Any = None, patience: float = SOON / 1000) -> None:
    """Wait until a JavaScript expression, or a function of `argument`, is true.

    The test polls, because the policy of the page lets no text run inside it for longer.
    """
    last = time.monotonic() + patience
    while not page.evaluate(condition, argument):
        assert time.monotonic() < last, f"never true: {condition}"
        page.wait_for_timeout(50)


def scroll_to(part: Locator, loaded: Locator) -> None:
    """Scroll to a part of the page until `loaded` is visible, which the page loads when the part is in view.

    Once is not enough: while parts above are drawn, they grow and push the part out of view again.
    """
    last = time.monotonic() + SOON / 1000
    while not loaded.is_visible():
        assert time.monotonic() < last, f"not loaded: {loaded}"
        part.scroll_into_view_if_needed(timeout=SOON)
        part.page.wait_for_timeout(50)


def selection(page: Page) -> dict[str, str]:
    """Return the selection in the address."""
    return dict(parse_qsl(page.evaluate("location.hash.slice(1)")))  # page.url changes later


def offered_keys(page: Page) -> Locator:
    """Return the keys that the chooser offers."""
    return page.locator("#key-list").get_by_role("option")


def time_series(page: Page, name: str) -> dict[str, list[Any]]:
    """Return a line of the first chart, by its name: x, y, and the bounds of each point."""
    found: dict[str, list[Any]] = page.evaluate(
        """name => {
            const line = document.getElementById("lines").data.find((trace) => trace.name === name);
            return { x: line.x, y: line.y, bounds: line.customdata };
        }""",
        name,
    )
    return found


def bands(page: Page) -> int:
    """Return the number of filled areas of the first chart."""
    return int(page.evaluate("document.getElementById('lines').data.filter((one) => one.fill === 'toself').length"))


def is_response_of(response: Response, route: str, **parameters: str) -> bool:
    """Return True if the response is of this route, and the request had these parameters."""
    url = urlsplit(response.url)
    query = dict(parse_qsl(url.query))
    return url.path.endswith(route) and response.ok and parameters.items() <= query.items()


def repeat_query(api: httpx.Client, response: Response, now: Any) -> dict[str, Any]:
    """Repeat the page's request about a window of time, with the same end, and return the API's response."""
    url = urlsplit(response.url)
    parameters = [(name, text) for name, text in parse_qsl(url.query) if name not in ("over", "points", "band")]
    path = url.path.removesuffix("/lines").removesuffix("/quantiles") + "/quantiles"
    answer = api.get(path, params=[*parameters, ("band", "true"), ("now", str(now))])
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return True if two answers to one query can both be true: their proved ranges overlap."""
    return bool(
        one["phi"] == other["phi"]
        and one["low"] <= one["value"] <= one["high"]
        and max(one["low"], other["low"]) <= min(one["high"], other["high"])
    )
