"""The page in a real browser: when the first chart is there, whether many commits freeze it, what it holds."""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page

from benchmarks.dashboard_settings import HOUR, QUICK, Settings
from benchmarks.dashboard_writer import Writer
from benchmarks.report import Report, Row, say
from benchmarks.serve_process import configuration, started
from tests.browser.chrome import launched

__all__ = ["HOUR", "QUICK", "Settings", "run"]

SEEN = "#lines svg path"  # the lines of the first chart, before the charts' library draws them
LINES = "#lines .scatterlayer .js-line"  # and when it has
WATCH = """() => {
  window.gaps = []; let before = performance.now();
  const next = (now) => { window.gaps.push(now - before); before = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""
RESPONSE = """() => new Promise((done) => {
  const slider = document.querySelector("#window input[type=range]"), tenth = (slider.max - slider.min) / 10;
  performance.setResourceTimingBufferSize(10000);
  performance.clearResourceTimings();
  const begun = performance.now();
  slider.value = Number(slider.value) + (slider.value > slider.max / 2 ? -tenth : tenth);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const wanted = `window=${new URLSearchParams(location.hash.slice(1)).get("window")}`;
  const answers = ({ name }) => name.includes("/quantiles?") && decodeURIComponent(name).includes(wanted);
  const look = () => {
    if (performance.getEntriesByType("resource").some(answers)) {
      requestAnimationFrame(() => done(performance.now() - begun));
    } else {
      requestAnimationFrame(look);
    }
  };
  look();
})"""


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    with _stage(settings) as (writer, address), launched() as browser:
        parts = {
            "opening": lambda s: _opening(s, browser, address),
            "updates": lambda s: _updates(s, browser, address, writer),
            "memory": lambda s: _memory(s, browser, address, writer),
        }
        return Report.in_parts("dashboard", settings, parts, command, folder, [])


@contextmanager
def _stage(settings: Settings) -> Iterator[tuple[Writer, str]]:
    """A server over a store that can be written to."""
    folder = Path(tempfile.mkdtemp(prefix="quantide-dashboard-"))
    try:
        config = configuration(folder, 0.001)
        with Writer(folder / "data" / "latency", settings) as writer, started("serve", config) as server:
            yield writer, f"http://127.0.0.1:{server.port}/"
    finally:
        shutil.rmtree(folder)


def _opening(settings: Settings, browser: Browser, address: str) -> list[Row]:
    """From the navigation to the first lines and to the whole chart, by the clock of the page."""
    rows = []
    for _ in range(settings.openings):
        page, row = browser.new_context().new_page(), {}
        page.goto(address)
        for name, part in (("lines", SEEN), ("chart", LINES)):
            page.wait_for_selector(part, state="attached")
            row[name] = page.evaluate("performance.now()") / 1e3
        rows.append(row)
        page.context.close()
    say(f"first chart: {statistics.median(row['chart'] for row in rows):.2f} s")
    return rows


def _updates(settings: Settings, browser: Browser, address: str, writer: Writer) -> list[Row]:
    page = _open(browser, address)
    response = [page.evaluate(RESPONSE) / 1e3]
    before = _version(page, address)
    page.evaluate(WATCH)
    with writer.writing(settings.rate) as written:
        for _ in range(5):
            page.wait_for_timeout(settings.seconds * 1e3 / 5)
            response.append(page.evaluate(RESPONSE) / 1e3)
    gaps = np.array(page.evaluate("window.gaps")[5:]) / 1e3
    row = {
        "commits_per_s": written.rate,
        "seen": _version(page, address) - before,
        "frames_per_s": float(len(gaps) / gaps.sum()),
        "gap_p99": float(np.quantile(gaps, 0.99)),
        "gap_worst": float(gaps.max()),
        "response_median": statistics.median(response[1:]),
        "response_worst": max(response[1:]),
    }
    page.context.close()
    say(f"{row['commits_per_s']:.0f} commits a second: {row['frames_per_s']:.0f} frames a second")
    return [row]


def _memory(settings: Settings, browser: Browser, address: str, writer: Writer) -> list[Row]:
    page, rows = _open(browser, address), []
    inside = page.context.new_cdp_session(page)
    inside.send("Performance.enable")
    with writer.writing(settings.calm_rate):
        for look in range(1 + round(settings.calm_seconds / settings.look_every)):
            if look:
                page.wait_for_timeout(settings.look_every * 1e3)
            for _ in range(2):
                inside.send("HeapProfiler.collectGarbage")
            told = {one["name"]: one["value"] for one in inside.send("Performance.getMetrics")["metrics"]}
            rows.append(
                {
                    "second": look * settings.look_every,
                    "heap": int(told["JSHeapUsedSize"]),
                    "nodes": int(told["Nodes"]),
                    "listeners": int(told["JSEventListeners"]),
                }
            )
            say(f"{rows[-1]['second']:.0f} s: {rows[-1]['heap'] / 1e6:.1f} MB, {rows[-1]['nodes']:,} nodes")
    page.context.close()
    return rows


def _open(browser: Browser, address: str) -> Page:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(address)
    page.wait_for_selector(LINES, state="attached")
    page.wait_for_timeout(1_000)
    return page


def _version(page: Page, address: str) -> int:
    found: Any = page.request.get(f"{address}api/streams").json()
    return int(found["streams"][0]["version"])
