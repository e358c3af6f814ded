"""The page in a real browser: time to the first chart, frames while commits arrive, and memory."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from bench.collection import Subject
from bench.http_server import repeated, server
from bench.report import Part, Row, sized
from bench.timing import scratch
from quantide import History

LINES = {"lines": "#lines svg path", "chart": "#lines .scatterlayer .js-line"}  # before and after plotly draws them
STEP = 500  # commits
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


@contextmanager
def stage(s: Settings) -> Iterator[Mapping[str, Part]]:
    """Start a server over a store of latencies, with an hour of history and times up to now, and a browser."""
    from tests.browser.chrome import launch_browser

    rng, keys, appended = np.random.default_rng(1), [f"/endpoint/{number}" for number in range(s.keys)], count(1)

    def append(rows: int, span: float, ago: float) -> None:
        now = np.datetime64(time.time_ns() // 1000, "us")
        before: Any = (1e6 * (ago + np.sort(rng.uniform(0, span, rows))[::-1])).astype("timedelta64[us]")
        history.append(rng.lognormal(3, 1, rows), key=rng.choice(keys, rows), times=now - before)
        if ago or next(appended) % STEP == 0:
            history.end_step()

    store: Row = {"eps": 0.001, "keys": "endpoint", "window": "24 hours"}
    with scratch() as folder, History(folder / "data" / "latency", **store) as history:
        for step in range(10, 0, -1):
            append(s.history_rows // 10, 360.0, step * 360.0)
        with server(folder, "serve", 0.001) as running, launch_browser() as browser:
            lab = Lab(browser, f"http://127.0.0.1:{running.port}", lambda: append(s.commit_rows, 1 / s.rate, 0.0))
            yield {"opening": lab.opening, "updates": lab.updates, "memory": lab.memory}


@dataclass
class Lab:
    browser: Any
    address: str
    commit: Callable[[], None]

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
        def version() -> int:
            return int(page.request.get(f"{self.address}/api/streams").json()["streams"][0]["version"])

        with self._opened({}) as page:
            page.wait_for_timeout(1_000)
            page.evaluate(WATCH)
            before, begun = version(), time.monotonic()
            with repeated(self.commit, 1 / s.rate):
                page.wait_for_timeout(s.seconds * 1e3)
            versions, seconds = version() - before, time.monotonic() - begun
            gaps = np.array(page.evaluate("window.gaps")[5:]) / 1e3
        row = {"commits_per_s": versions / seconds, "seen": versions, "frames_per_s": float(1 / gaps.mean())}
        return [row | {"gap_p99": float(np.quantile(gaps, 0.99)), "gap_worst": float(gaps.max())}]

    def memory(self, s: Settings) -> list[Row]:
        rows = []
        with self._opened({}) as page, repeated(self.commit, 1 / s.calm_rate):
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            for sample in range(1 + round(s.calm_seconds / s.look_every)):
                page.wait_for_timeout(s.look_every * 1e3 if sample else 0)
                session.send("HeapProfiler.collectGarbage")
                found = {one["name"]: int(one["value"]) for one in session.send("Performance.getMetrics")["metrics"]}
                rows.append({"second": sample * s.look_every, "heap": found["JSHeapUsedSize"], "nodes": found["Nodes"]})
        return rows


SUBJECT = Subject("the page in a browser: start, frames, memory", Settings, stage)
