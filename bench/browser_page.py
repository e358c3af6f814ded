"""The page in a real browser: time to the first chart, frames while commits arrive, and memory."""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.collection import Subject
from bench.http_server import server
from bench.report import Part, Row, say, sized
from bench.timing import scratch
from quantide import History

LINES = {"lines": "#lines svg path", "chart": "#lines .scatterlayer .js-line"}  # before and after plotly draws them
STEP = 30.0  # seconds
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
  const poll = () => requestAnimationFrame(performance.getEntriesByType("resource").some(answers)
    ? () => done(performance.now() - begun) : poll);
  poll();
})"""


@dataclass(frozen=True)
class Settings:
    """The page is opened, then commits arrive at `rate`, then at `calm_rate` while memory is sampled."""

    keys: int = 8
    history_rows: int = sized(2_000_000, quick=20_000)
    openings: int = sized(9, 5, 1)
    rate: float = 60.0
    seconds: float = sized(20.0, quick=2.0)
    calm_rate: float = sized(5.0, quick=10.0)
    calm_seconds: float = sized(600.0, 60.0, 3.0)
    look_every: float = sized(20.0, 5.0, 1.0)
    commit_rows: int = 200


class Writer:
    """Store of latencies of some endpoints, with times up to now, written at a rate by a thread."""

    def __init__(self, path: Path, s: Settings) -> None:
        self._settings, self._rng, self.commits, self.seconds = s, np.random.default_rng(1), 0, 0.0
        self._keys = [f"/endpoint/{number}" for number in range(s.keys)]
        self.history = History(path, eps=0.001, keys="endpoint", window="24 hours")
        for step in range(10, 0, -1):
            self._append(s.history_rows // 10, 360.0, step * 360.0)
            self.history.end_step()

    @contextmanager
    def writing(self, rate: float) -> Iterator[None]:
        ends = threading.Event()
        thread = threading.Thread(target=self._write, args=(rate, ends))
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()

    def _write(self, rate: float, ends: threading.Event) -> None:
        begun = step = time.monotonic()
        self.commits = 0
        while not ends.wait(max(0.0, begun + (self.commits + 1) / rate - time.monotonic())):
            self._append(self._settings.commit_rows, 1 / rate, 0.0)
            self.commits, self.seconds = self.commits + 1, time.monotonic() - begun
            if time.monotonic() - step > STEP:
                self.history.end_step()
                self.history.vacuum()
                step = time.monotonic()

    def _append(self, rows: int, span: float, ago: float) -> None:
        now = np.datetime64(time.time_ns() // 1000, "us")
        before: Any = (1e6 * (ago + np.sort(self._rng.uniform(0, span, rows))[::-1])).astype("timedelta64[us]")
        self.history.append(self._rng.lognormal(3, 1, rows), key=self._rng.choice(self._keys, rows), times=now - before)


@contextmanager
def stage(s: Settings) -> Iterator[Mapping[str, Part]]:
    """Start a server over a store that is written to, and a browser."""
    from tests.browser.chrome import launched

    with scratch() as folder:
        writer = Writer(folder / "data" / "latency", s)
        with writer.history, server(folder, "serve", 0.001) as running, launched() as browser:
            lab = Lab(browser, f"http://127.0.0.1:{running.port}/", writer)
            yield {"opening": lab.opening, "updates": lab.updates, "memory": lab.memory}


@dataclass
class Lab:
    browser: Any
    address: str
    writer: Writer

    def opening(self, s: Settings) -> list[Row]:
        """Measure from the navigation to the first lines and to the whole chart, by the clock of the page."""
        rows = []
        for _ in range(s.openings):
            page, row = self.browser.new_context().new_page(), {}
            page.goto(self.address)
            for name, part in LINES.items():
                page.wait_for_selector(part, state="attached")
                row[name] = page.evaluate("performance.now()") / 1e3
            rows.append(row)
            page.context.close()
        return rows

    def updates(self, s: Settings) -> list[Row]:
        page, response = self._open(), []
        page.evaluate(RESPONSE)
        before = self._version(page)
        page.evaluate(WATCH)
        with self.writer.writing(s.rate):
            for _ in range(5):
                page.wait_for_timeout(s.seconds * 1e3 / 5)
                response.append(page.evaluate(RESPONSE) / 1e3)
        gaps = np.array(page.evaluate("window.gaps")[5:]) / 1e3
        row = {"commits_per_s": self.writer.commits / self.writer.seconds, "seen": self._version(page) - before}
        row |= {"frames_per_s": float(len(gaps) / gaps.sum()), "gap_p99": float(np.quantile(gaps, 0.99))}
        row |= {"gap_worst": float(gaps.max()), "response_median": statistics.median(response)}
        page.context.close()
        return [row | {"response_worst": max(response)}]

    def memory(self, s: Settings) -> list[Row]:
        page, rows = self._open(), []
        names = {"heap": "JSHeapUsedSize", "nodes": "Nodes", "listeners": "JSEventListeners"}
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        with self.writer.writing(s.calm_rate):
            for sample in range(1 + round(s.calm_seconds / s.look_every)):
                page.wait_for_timeout(s.look_every * 1e3 if sample else 0)
                for _ in range(2):
                    session.send("HeapProfiler.collectGarbage")
                found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
                rows.append({"second": sample * s.look_every} | {name: int(found[of]) for name, of in names.items()})
                say(f"{rows[-1]['second']:.0f} s: {rows[-1]['heap'] / 1e6:.1f} MB, {rows[-1]['nodes']:,} nodes")
        page.context.close()
        return rows

    def _open(self) -> Any:
        page = self.browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(self.address)
        page.wait_for_selector(LINES["chart"], state="attached")
        page.wait_for_timeout(1_000)
        return page

    def _version(self, page: Any) -> int:
        return int(page.request.get(f"{self.address}api/streams").json()["streams"][0]["version"])


SUBJECT = Subject("the page in a browser: start, frames, memory", Settings, stage)
