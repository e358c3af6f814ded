"""The pictures of the page in the documentation, made from a running demo: `python -m tests.browser.pictures`."""

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser

from tests.browser.chrome import launch_browser
from tests.browser.demo import run_demo
from tests.browser.page import open_page, until

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PATIENCE = 240.0  # seconds; an incident comes every three minutes
# Up again: the first incident of the demo is on its way, and what came before can be seen beside it.
INTERESTING = """() => {
    const line = document.getElementById("lines").data.find((trace) => trace.name === "p99").y;
    const firing = document.querySelector("#alarms .badge[data-state=firing]");
    return firing && line.at(-1) > 30 && document.querySelector("#compare .sentence")?.textContent;
}"""


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, run_demo(Path(folder)) as demo, launch_browser() as browser:
        for name, theme in (("page", "light"), ("page-dark", "dark")):
            take(browser, demo.url, IMAGES / f"{name}.png", "dark" if theme == "dark" else "light")


def take(browser: Browser, url: str, path: Path, theme: Literal["light", "dark"]) -> None:
    """ECHO while its spreads are wide, with the comparison below."""
    context = browser.new_context(viewport={"width": 1440, "height": 1180}, color_scheme=theme, timezone_id="UTC")
    page = context.new_page()
    open_page(page, url, stream="spread", key="ECHO", window="within:30s", over="600")
    until(page, INTERESTING, patience=PATIENCE)
    page.screenshot(path=path)
    context.close()
    sys.stdout.write(f"{path} {path.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
