"""The page in a real browser: time to the first chart, frames while commits arrive, and memory."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.collection import Subject
from bench.http_server import repeated, server
from bench.report import Part, Row, sized
from bench.timing import scratch
from quantide import History

LINES = {"lines": "#lines svg path", "chart": "#lines .scatterlayer .js-line"}  # before and after plotly draws them
STEP = 30.0  # seconds
WATCH = """() => {
  window.gaps = []; let before = performance.now();
  const next = (now) => { window.gaps.push(now - before); before = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


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
    """Store of latencies of some endpoints, with times up to now; an hour of history."""

    def __init__(self, history: History, s: Settings) -> None:
        self._history, self._settings, self._rng, self.commits = history, s, np.random.default_rng(1), 0
        self._keys, self._ended = [f"/endpoint/{number}" for number in range(s.keys)], time.monotonic()
        for step in range(10, 0, -1):
            self._append(s.history_rows // 10, 360.0, step * 360.0)
            history.end_step()

    def commit(self) -> None:
        self._append(self._settings.commit_rows, 1 / self._settings.rate, 0.0)
        self.commits += 1
        if time.monotonic() - self._ended > STEP:
            self._history.end_step()
            self._history.vacuum()
            self._ended = time.monotonic()

    def _append(self, rows: int, span: float, ago: float) -> None:
        now = np.datetime64(time.time_ns() // 1000, "us")
        before: Any = (1e6 * (ago + np.sort(self._rng.uniform(0, span, rows))[::-1])).astype("timedelta64[us]")
        self._history.append(self._rng.lognormal(3, 1, rows), self._rng.choice(self._keys, rows), times=now - before)


@contextmanager
def stage(s: Settings) -> Iterator[Mapping[str, Part]]:
    """Start a server over a store that is written to, and a browser."""
    from tests.browser.chrome import launched

    with (
        scratch() as folder,
        History(folder / "data" / "latency", 0.001, keys="endpoint", window="24 hours") as history,
    ):
        writer = Writer(history, s)
        with server(folder, "serve", 0.001) as running, launched() as browser:
            lab = Lab(browser, running.address, writer)
            yield {"opening": lab.opening, "updates": lab.updates, "memory": lab.memory}


@dataclass
class Lab:
    browser: Any
    address: str
    writer: Writer

    @contextmanager
    def _opened(self, row: Row) -> Iterator[Any]:
        """Open the page; fill in the time to the first lines and to the whole chart, by the clock of the page."""
        page = self.browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(self.address)
        for name, part in LINES.items():
            page.wait_for_selector(part, state="attached")
            row[name] = page.evaluate("performance.now()") / 1e3
        yield page
        page.context.close()

    def opening(self, s: Settings) -> list[Row]:
        rows: list[Row] = [{} for _ in range(s.openings)]
        for row in rows:
            with self._opened(row):
                pass
        return rows

    def updates(self, s: Settings) -> list[Row]:
        with self._opened({}) as page:
            page.wait_for_timeout(1_000)
            page.evaluate(WATCH)
            before, begun, first = self._version(page), time.monotonic(), self.writer.commits
            with repeated(self.writer.commit, 1 / s.rate):
                page.wait_for_timeout(s.seconds * 1e3)
            rate = (self.writer.commits - first) / (time.monotonic() - begun)
            gaps = np.array(page.evaluate("window.gaps")[5:]) / 1e3
            row = {"commits_per_s": rate, "seen": self._version(page) - before, "gap_worst": float(gaps.max())}
            return [row | {"frames_per_s": float(1 / gaps.mean()), "gap_p99": float(np.quantile(gaps, 0.99))}]

    def memory(self, s: Settings) -> list[Row]:
        rows = []
        with self._opened({}) as page, repeated(self.writer.commit, 1 / s.calm_rate):
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            for sample in range(1 + round(s.calm_seconds / s.look_every)):
                page.wait_for_timeout(s.look_every * 1e3 if sample else 0)
                for _ in range(2):
                    session.send("HeapProfiler.collectGarbage")
                found = {one["name"]: int(one["value"]) for one in session.send("Performance.getMetrics")["metrics"]}
                rows.append({"second": sample * s.look_every, "heap": found["JSHeapUsedSize"], "nodes": found["Nodes"]})
        return rows

    def _version(self, page: Any) -> int:
        return int(page.request.get(f"{self.address}/api/streams").json()["streams"][0]["version"])


SUBJECT = Subject("the page in a browser: start, frames, memory", Settings, stage)
