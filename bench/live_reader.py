"""Live readers: queries a second, cold keys and memory, and lag behind a writer."""

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.collection import Subject
from bench.inputs import answer_holds
from bench.processes import new_process, status, status_bytes
from bench.report import Part, Row, show, sized
from bench.timing import clock, scratch, spread
from quantide import History
from quantide.live import LiveStream

Scope = dict[str, Any]
Rows = NDArray[np.void]
NumberedTimes = list[tuple[int, float]]
ROW = [("key", "i8"), ("value", "f8"), ("time", "f8"), ("failed", "?")]
STEP, WARM = 100, 5  # batches of a step of the writer that is followed; its batches that do not count
FILTERED: Scope = {"within": 3_600, "filter": "failed"}
WHOLE: dict[str, Scope] = {"everything, quick": {"mode": "quick"}, "everything, accurate": {}}
WHOLE |= {"last 100,000": {"last": 100_000}, "within 5 min": {"within": 300}, "within 1 hour": {"within": 3_600}}
WHOLE |= {"within 1 hour, filter": FILTERED}
KEYED: dict[str, Scope] = {"a key, accurate": {"key": 3}, "a key, last 1,000": {"key": 3, "last": 1_000}}
KEYED |= {"a key, within 5 min": {"key": 3, "within": 300}, "a key, within 1 hour, filter": {"key": 3, **FILTERED}}
COLD: dict[str, Scope] = {"everything": {}, "within 5 min": {"within": 300}, "within 1 hour": {"within": 3_600}}
COLD |= {"within the day": {"within": 86_400}, "last 100": {"last": 100}}


@dataclass(frozen=True)
class Settings:
    """Stores that are queried; a day of many keys, `cold` of which are queried; `follow_*`: a writer to follow."""

    eps: float = 0.001
    steps: int = sized(20, quick=3)
    step_rows: int = sized(400_000, quick=4_000)
    open_chunks: int = sized(50, quick=3)
    chunk_rows: int = sized(10_000, quick=500)
    second_rows: int = sized(100, quick=10)
    endpoints: int = sized(100, quick=5)
    repeats: int = sized(20_000, quick=200)
    phis: int = sized(2_000, quick=20)
    keys: int = sized(100_000, quick=500)
    day_seconds: int = sized(86_400, quick=7_200)
    day_rows: int = sized(250, quick=5)
    day_chunk: int = sized(3_600, quick=1_800)
    cold: int = sized(300, quick=5)
    follow_seconds: float = sized(60.0, 20.0, 2.0)
    follow_every: float = 0.1
    follow_rows: tuple[int, ...] = sized((100, 10_000), quick=(20, 200))
    follow_keys: int = sized(1_000, quick=10)
    asking_seconds: float = sized(20.0, 10.0, 1.0)


def make_rows(seed: Sequence[int], rows: int, keys: int, begin: float, second_rows: int) -> Rows:
    """Return rows in the order of their arrival: latencies of endpoints, the same every time."""
    rng, out = np.random.default_rng(list(seed)), np.empty(rows, ROW)
    out["key"] = rng.integers(0, keys, rows)
    out["value"] = rng.lognormal(3 + out["key"] % 7 / 10, 1, rows)
    out["time"] = begin + np.arange(rows) // second_rows
    out["failed"] = rng.random(rows) < 0.02
    return out


def scope_holds(rows: Rows, answer: Any, eps: float, scope: Scope, stream: int | None = None) -> bool:
    """Return True if an answer is right, by the definition of LiveStream.answer().

    `stream`: the values of the open step, if they bound the error of a scope without a window.
    """
    begin = rows["time"].max() - scope.get("within", math.inf)
    if "key" in scope:
        rows = rows[rows["key"] == scope["key"]]
    rows = rows[-scope.get("last", len(rows)) :]
    exact = np.sort(rows["value"][(rows["time"] > begin) & (rows["failed"] | ("filter" not in scope))])
    return answer_holds(answer, exact, eps * (len(exact) if stream is None or scope.keys() - {"key"} else stream))


def _rate(live: LiveStream, scope: Scope, phis: list[float]) -> float:
    return len(phis) / clock(lambda: [live.answer(phi, **scope) for phi in phis])[0]


def questions(keys: str | None, scopes: dict[str, Scope], s: Settings) -> list[Row]:
    """Measure repeated queries, and queries with new phis."""
    sizes, begin, out = [s.step_rows] * s.steps + [s.chunk_rows] * s.open_chunks, 0.0, list[Row]()
    phis, appended = np.random.default_rng(9).uniform(0.001, 1, s.phis).tolist(), list[Rows]()
    with scratch() as path, History(path, eps=s.eps, keys=keys, filters=["failed"]) as history:
        show(f"live: queries of a store {'with' if keys else 'without'} keys, {s.steps} steps of {s.step_rows:,}")
        for number, size in enumerate(sizes):
            rows = make_rows([5, number], size, s.endpoints, begin, s.second_rows)
            key, begin = rows["key"] if keys else None, rows["time"][-1] + 1
            history.append(rows["value"], key=key, times=rows["time"], filters={"failed": rows["failed"]})
            appended.append(rows)
            if number < s.steps:
                history.end_step()
        everything, stream = np.concatenate(appended), history.stats()["stream_values"]
        with LiveStream(path) as live:  # its thread follows commits
            for name, scope in scopes.items():
                holds = scope_holds(everything, live.answer(0.99, **scope), s.eps, scope, stream)
                row: Row = {"question": name, "rate": _rate(live, scope, [0.99] * s.repeats)}
                out.append(row | {"new_rate": _rate(live, scope, phis), "holds": holds})
    return out


def day_of_keys(s: Settings) -> list[Row]:
    """Measure queries about keys that were not queried before, over a day of many keys, in a new process."""
    show(f"live: a day of {s.keys:,} keys, {s.day_seconds * s.day_rows:,} rows")
    begins, rows = range(0, s.day_seconds, s.day_chunk), s.day_chunk * s.day_rows
    day = [make_rows([11, i], rows, s.keys, float(begin), s.day_rows) for i, begin in enumerate(begins)]
    recent = np.unique(day[-1]["key"][day[-1]["time"] > day[-1]["time"].max() - 300])
    order = np.random.default_rng(4).permutation(recent).tolist()
    keys = {name: order[i * (s.cold + 1) : (i + 1) * (s.cold + 1)] for i, name in enumerate(COLD)}
    with scratch() as path:
        with History(path, eps=s.eps, keys="endpoint") as history:
            for number, some in enumerate(day, 1):
                history.append(some["value"], key=some["key"], times=some["time"])
                if number % max(1, len(day) // 5) == 0 and number < len(day):
                    history.end_step()
        with new_process() as process:
            found, about, answers = process.submit(query_cold, str(path), keys).result()
    everything = np.concatenate(day)
    for row in found:
        scope, checked = COLD[row["question"]], answers[row["question"]]
        right = [scope_holds(everything, one, s.eps, {"key": key, **scope}) for key, one in checked]
        row |= {"holds": all(right), **about}
    return list(found)


def query_cold(path: str, keys: dict[str, list[int]]) -> tuple[list[Row], Row, dict[str, list[tuple[int, Any]]]]:
    """Query every scope about its own keys; the first query of a scope finds nothing cached, and is reported apart."""
    rows, answers, before, begun = list[Row](), dict[str, Any](), _memory("before_"), time.perf_counter()
    with LiveStream(path, memory="1 GB") as live:
        live.answer(0.99, mode="quick")
        about = before | {"open_seconds": time.perf_counter() - begun}
        about |= {name: live.stats()[name] for name in ("recent_files", "recent_bytes")}
        for name, scope in COLD.items():
            first, *cold = [clock(live.answer, 0.99, key=key, **scope)[0] for key in keys[name]]
            again = float(np.median([clock(live.answer, 0.99, key=key, **scope)[0] for key in keys[name][1:]]))
            rows.append({"question": name, "first": first, **spread(cold), "again_median": again})
            answers[name] = [(key, live.answer(0.99, key=key, **scope)) for key in keys[name][1:4]]
        return rows, about | {"stats_memory": live.stats()["memory"], **_memory()}, answers


def _memory(prefix: str = "") -> Row:
    fields = status()
    return {f"{prefix}own_bytes": status_bytes(fields), f"{prefix}mapped_bytes": status_bytes(fields, "RssFile")}


def follow(s: Settings) -> list[Row]:
    """Measure the lag behind a writer in another process: small batches, large ones, and those while queried."""
    few, many = s.follow_rows
    cases = [(few, s.follow_seconds, False), (many, s.follow_seconds, False), (many, s.asking_seconds, True)]
    return [_follow(*case, s) for case in cases]


def batch_values(batch: int, rows: int, keys: int) -> tuple[Any, Any]:
    """Return values whose whole part is the number of the batch, and their keys."""
    rng = np.random.default_rng([3, batch])
    return batch + rng.random(rows), rng.integers(0, keys, rows)


def write_batches(path: str, rows: int, batches: int, s: Settings) -> NumberedTimes:
    """Append a batch at each tick; return their numbers with the times at which append() returned."""
    out, begun = NumberedTimes(), time.monotonic()
    with History(path) as history:
        for batch in range(1, batches + 1):
            time.sleep(max(0.0, begun + batch * s.follow_every - time.monotonic()))
            values, key = batch_values(batch, rows, s.follow_keys)
            history.append(values, key=key, times=batch * s.follow_every)
            out.append((batch, time.monotonic()))
            if batch % STEP == 0:
                history.end_step(wait=False)
    return out


def _follow(rows: int, seconds: float, queried: bool, s: Settings) -> Row:
    last, keys = math.ceil(seconds / s.follow_every) + WARM, s.follow_keys
    scope: Scope = {"key": 0, "within": 60}
    show(f"live: follow {last} batches of {rows:,} rows{', with queries all the time' if queried else ''}")
    with scratch() as path:
        with History(path, eps=s.eps, keys="key") as history:
            values, key = batch_values(0, rows, keys)
            history.append(values, key=key, times=0.0)
        with new_process() as process, LiveStream(path) as live:
            writer = process.submit(write_batches, str(path), rows, last, s)
            received, queries = _watch(live, writer, last, scope, queried)
            written = writer.result()
            live.poll()
            inside = [n for n in range(last + 1) if n * s.follow_every > last * s.follow_every - 60]
            parts = [batch_values(n, rows, keys) for n in inside]
            exact = np.sort(np.concatenate([values[key == 0] for values, key in parts]))
            holds = answer_holds(live.answer(0.99, **scope), exact, s.eps * len(exact))
    lags, took = [max(0.0, first_at(received, n) - at) for n, at in written[WARM:]], written[-1][1] - written[WARM][1]
    row: Row = {"rows": rows, "keys": keys, "batches": len(lags), "asked": queried, **spread(lags), "holds": holds}
    return row | {"batches_per_s": (len(lags) - 1) / took, "questions_per_s": queries if queried else None}


def _watch(
    live: LiveStream, writer: "Future[NumberedTimes]", last: int, scope: Scope, queried: bool
) -> tuple[NumberedTimes, float]:
    """Return when a query saw each batch, and the queries a second."""
    received, version, count, begun = NumberedTimes(), -1, 0, time.monotonic()
    while (not received or received[-1][0] < last) and not (writer.done() and writer.exception()):
        if queried:
            live.answer(0.99, **scope)
            count += 1
        elif live.version == version:
            time.sleep(0.001)
        if live.version != version:
            version = live.version
            received.append((newest(live), time.monotonic()))
    return received, count / (time.monotonic() - begun)


def newest(live: LiveStream) -> int:
    """Return the number of the newest batch in the answers of a reader."""
    return int(live.quantile(1.0, last=1))


def first_at(received: NumberedTimes, number: int) -> float:
    """Return the time at which a batch, or a later one, was first received."""
    return next(when for found, when in received if found >= number)


PARTS: dict[str, Part] = {"questions": lambda s: [*questions(None, WHOLE, s), *questions("endpoint", KEYED, s)]}
PARTS |= {"keys": day_of_keys, "follow": follow}
SUBJECT = Subject("a reader beside the writer: queries, lag, memory", Settings, PARTS)
