"""The Prometheus API: query_range as a Grafana panel sends it, and scrapes of exported quantiles."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.collection import Subject
from bench.http_server import Server, server
from bench.inputs import targets
from bench.report import Row, sized
from bench.timing import clock, scratch, spread
from quantide import History

BEGIN = 1_700_000_000  # seconds since 1970
WINDOW = 300
QUERIES = {
    "p99": 'latency{{{of},quantile="0.99",window="5m"}}',
    "p50, p99 and p99.9": 'latency{{{of},quantile=~"0.5|0.99|0.999",window="5m"}}',
    "p99 with its band": 'latency{{{of},quantile="0.99",window="5m",bound=~".+"}}',
    "rate of rows": "rate(latency_rows_total{{{of}}}[5m])",
}
METRICS = 'metrics = {{ quantiles = [0.5, 0.9, 0.99, 0.999], windows = ["5m", "1h"], keys = {keys} }}\n'


@dataclass(frozen=True)
class Settings:
    """Windows at `points` moments, `step` seconds apart; `endpoints` keys with `key_rows` rows a second each."""

    eps: float = 0.001
    points: int = sized(1_000, quick=50)
    step: int = sized(15, quick=10)
    endpoints: int = sized(10, quick=2)
    key_rows: tuple[int, ...] = sized((1, 10, 100), quick=(1,))
    repeats: int = sized(20, quick=2)


def ranges(s: Settings) -> list[Row]:
    """Measure each query about a key and about all keys, for each rate of rows."""
    return [row for rate in s.key_rows for row in _ranges_at(s, rate)]


def _ranges_at(s: Settings, rate: int) -> list[Row]:
    seconds, rows = s.points * s.step + WINDOW, []
    with scratch() as folder:
        values, codes, times = _fill(folder, s, seconds, rate)
        with server(folder, "serve", s.eps) as running:
            for of, chosen in (('endpoint="/0"', codes == 0), ('endpoint=""', np.ones(len(codes), dtype=bool))):
                for name, text in QUERIES.items():
                    form = {"query": text.format(of=of), "start": BEGIN + WINDOW, "end": BEGIN + seconds - 1}
                    measured, response = _measure(running, s.repeats, partial(_post, running, form | {"step": s.step}))
                    holds = _is_right(response.json()["data"]["result"], s, values[chosen], times[chosen])
                    about = {"query": name, "of": "a key" if "/0" in of else "all keys", "key_rows": rate}
                    rows.append(about | {"rows": int(chosen.sum()), "holds": holds} | measured)
    return rows


def _fill(folder: Path, s: Settings, seconds: int, rate: int, begin: float = BEGIN) -> tuple[Any, Any, Any]:
    rng, size = np.random.default_rng(5), seconds * rate * s.endpoints
    values, codes = rng.lognormal(3, 1, size), rng.integers(0, s.endpoints, size)
    times = begin + np.sort(rng.uniform(0, seconds, size))
    names = np.array([f"/{i}" for i in range(s.endpoints)], dtype=object)
    with History(folder / "data" / "latency", eps=s.eps, keys="endpoint") as history:
        for part in np.array_split(np.arange(size), max(1, seconds // 60)):
            history.append(values[part], key=names[codes[part]], times=times[part])
    return values, codes, times


def _post(running: Server, form: dict[str, Any]) -> Any:
    return running.client.post("/api/v1/query_range", data=form).raise_for_status()


def _measure(running: Server, repeats: int, request: Callable[[], Any]) -> tuple[Row, Any]:
    """Return the times of a request that is repeated, without the first, and its last response."""
    request()
    before, seconds = processor_seconds(running.child.process.pid), []
    for _ in range(repeats):
        took, response = clock(request)
        seconds.append(took)
    used = (processor_seconds(running.child.process.pid) - before) / repeats
    return {"processor": used, "bytes": len(response.content)} | spread(seconds), response


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_right(result: list[Any], s: Settings, values: Any, times: Any) -> bool:
    """Return True if there are series with all points, and every hundredth is the exact result of its window."""
    checked = [
        _is_exact(series["metric"], float(text), values[(times > at - WINDOW) & (times <= at)])
        for series in result
        for at, text in series["values"][::100]
    ]
    return bool(result) and all(len(series["values"]) == s.points for series in result) and all(checked)


def _is_exact(metric: dict[str, str], number: float, rows: Any) -> bool:
    """Compare a rate with the number of rows, and a quantile or one of its bounds with the sorted values."""
    if "quantile" not in metric:
        return round(number * WINDOW, 6) == len(rows)
    target = int(targets(np.array([float(metric["quantile"])]), len(rows))[0])
    return bool(number == np.sort(rows)[target - 1])


def scrapes(s: Settings) -> list[Row]:
    """Measure /metrics without exported quantiles, and with those of all keys together and of each key."""
    rows, keys = [], [f"/{i}" for i in range(s.endpoints)]
    with scratch() as folder:
        _fill(folder, s, 3600, 1, time.time() - 3600)
        for more in ("", METRICS.format(keys=keys)):
            with server(folder, "serve", s.eps, more) as running:
                measured, response = _measure(running, s.repeats, lambda: running.client.get("/metrics"))
            exported = sum(line.startswith("quantide_quantile{") for line in response.text.splitlines())
            rows.append({"samples": exported} | measured)
    return rows


PARTS = {"ranges": ranges, "scrapes": scrapes}
SUBJECT = Subject("the Prometheus API: 1,000 points of a Grafana panel, scrapes", Settings, PARTS)
