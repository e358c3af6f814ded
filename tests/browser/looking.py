"""Looking at the page: opening it, waiting until something holds, reading its charts, asking the API the same."""

import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from playwright.sync_api import Locator, Page, Response

SOON = 60_000  # milliseconds; a machine that does much else still gets there


def open_page(page: Page, url: str, **selection: str) -> None:
    """The page about a selection, once its first chart is drawn."""
    page.goto(f"{url.rstrip('/')}/#{urlencode(selection)}")
    page.wait_for_selector("#lines.drawn", timeout=SOON)


def until(page: Page, holds: str, given: Any = None, patience: float = SOON / 1000) -> None:
    """Until an expression of the page's, or a function of `given`, is true. Its policy lets no text wait inside it."""
    last = time.monotonic() + patience
    while not page.evaluate(holds, given):
        assert time.monotonic() < last, f"it never holds: {holds}"
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
    """What is looked at, by the address."""
    return dict(parse_qsl(page.evaluate("location.hash.slice(1)")))  # page.url is told of changes later


def offered(page: Page) -> Locator:
    """The keys that the chooser offers."""
    return page.locator("#key-list").get_by_role("option")


def course(page: Page, name: str) -> dict[str, list[Any]]:
    """A line of the first chart, by its name: x, y, and the bounds of each point."""
    found: dict[str, list[Any]] = page.evaluate(
        """name => {
            const line = document.getElementById("lines").data.find((trace) => trace.name === name);
            return { x: line.x, y: line.y, bounds: line.customdata };
        }""",
        name,
    )
    return found


def bands(page: Page) -> int:
    """How many areas of the first chart are filled."""
    return int(page.evaluate("document.getElementById('lines').data.filter((one) => one.fill === 'toself').length"))


def is_asked(response: Response, route: str, **said: str) -> bool:
    """Whether it is the answer to a question of that route in which this was said."""
    url = urlsplit(response.url)
    words = dict(parse_qsl(url.query))
    return url.path.endswith(route) and response.ok and all(words.get(name) == text for name, text in said.items())


def same_question(api: httpx.Client, response: Response, now: Any) -> dict[str, Any]:
    """What the API says to what the page has asked about a window of time, when that ends at the same moment."""
    url = urlsplit(response.url)
    words = [(name, text) for name, text in parse_qsl(url.query) if name not in ("over", "points", "band")]
    path = url.path.removesuffix("/lines").removesuffix("/quantiles") + "/quantiles"
    answer = api.get(path, params=[*words, ("band", "true"), ("now", str(now))])
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two answers to one question can both be true: what is proved of each has something in common."""
    return bool(
        one["phi"] == other["phi"]
        and one["low"] <= one["value"] <= one["high"]
        and max(one["low"], other["low"]) <= min(one["high"], other["high"])
    )
