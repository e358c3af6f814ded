"""Live readers: queries a second, cold keys, lag behind a writer, time to start, and the cost of recent rows."""

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import plots
from bench.collection import Subject
from bench.inputs import Floats, Values, answer_holds
from bench.processes import new_process, own_bytes, status, status_bytes
from bench.report import Report, Row, say, sized
from bench.timing import clock, scratch, spread
from quantide import History
from quantide.live import LiveStream

KEY, SHOWN, FAILED = 3, (0.5, 0.99, 0.999), 0.02  # a key; phis of a dashboard; the part of rows that the filter selects
DAY, BATCH, STEPS, STEP, WARM = 86_400, 100, 4, 100, 5  # rows of a commit; steps of a day; batches a step; not counted
Scope = dict[str, Any]
Seen = list[tuple[int, float]]
WHOLE: dict[str, Scope] = {
    "everything, quick": {"mode": "quick"},
    "everything, accurate": {},
    "last 100,000": {"last": 100_000},
    "within 5 min": {"within": 300},
    "within 1 hour": {"within": 3_600},
    "within 1 hour, filter": {"within": 3_600, "filter": "failed"},
}
KEYED: dict[str, Scope] = {
    "a key, accurate": {"key": KEY},
    "a key, last 1,000": {"key": KEY, "last": 1_000},
    "a key, within 5 min": {"key": KEY, "within": 300},
    "a key, within 1 hour, filter": {"key": KEY, "within": 3_600, "filter": "failed"},
}
SPANS = {"within 5 min": 300, "within 1 hour": 3_600, "within the day": DAY}
COLD: dict[str, Scope] = {
    "everything": {},
    **{name: {"within": span} for name, span in SPANS.items()},
    "last 100": {"last": 100},
}


@dataclass(frozen=True)
class Settings:
    """Stores that are queried; a day of many keys of which `cold` are queried; `small_marks`: commits of an open step.

    `follow_*`: a writer that is followed; `ages`: commits of a stream when it is opened; `patience`: seconds after
    which a stream that is slow to build is used as it is; `appends`: how often an append is timed.
    """

    eps: float = 0.001
    steps: int = sized(20, quick=3)
    step_rows: int = sized(400_000, quick=4_000)
    open_chunks: int = sized(50, quick=3)
    chunk_rows: int = sized(10_000, quick=500)
    second_rows: int = sized(100, quick=10)
    endpoints: int = sized(100, quick=5)
    repeats: int = sized(20_000, quick=200)
    phis: int = sized(2_000, quick=20)
    commits: int = sized(100, quick=3)
    keys: int = sized(100_000, quick=500)
    day_seconds: int = sized(86_400, quick=7_200)
    day_rows: int = sized(250, quick=5)
    day_chunk: int = sized(3_600, quick=1_800)
    cold: int = sized(300, quick=5)
    small_marks: tuple[int, ...] = sized((100, 1_000, 3_000), quick=(5, 12))
    follow_seconds: float = sized(60.0, 20.0, 2.0)
    follow_every: float = 0.1
    follow_rows: tuple[int, ...] = sized((100, 10_000), quick=(20, 200))
    follow_keys: int = sized(1_000, quick=10)
    asking_seconds: float = sized(20.0, 10.0, 1.0)
    ages: tuple[int, ...] = sized((10, 100, 1_000, 10_000), (10, 100, 1_000), (5, 12, 25))
    age_step: int = sized(100, quick=10)
    vacuum_every: int = sized(10, quick=1)
    openings: int = sized(7, quick=2)
    year_steps: int = sized(365, 60, 13)
    patience: float = sized(180.0, 60.0)
    appends: int = sized(20, quick=2)


@dataclass(frozen=True)
class Rows:
    """Rows in the order of their arrival: latencies of endpoints, the same every time."""

    keys: NDArray[np.int64]
    values: Floats
    times: Floats
    failed: NDArray[np.bool_]

    @staticmethod
    def make(seed: Sequence[int], rows: int, keys: int, begin: float, second_rows: int) -> "Rows":
        rng = np.random.default_rng(list(seed))
        of = rng.integers(0, keys, rows)
        values, times = rng.lognormal(3 + of % 7 / 10, 1, rows), begin + np.arange(rows) // second_rows
        return Rows(of, values, times.astype(np.float64), rng.random(rows) < FAILED)

    @staticmethod
    def joined(many: Sequence["Rows"]) -> "Rows":
        return Rows(*(np.concatenate([getattr(rows, name) for rows in many]) for name in vars(many[0])))

    def window(
        self, key: Any = None, last: Any = None, within: Any = None, filter: Any = None, mode: Any = None
    ) -> Values:
        """Return the sorted values of a scope, by the definition of LiveStream.answer()."""
        chosen = np.ones(len(self.values), dtype=bool) if key is None else self.keys == key
        if last is not None:
            at = np.flatnonzero(chosen)
            chosen[at[: max(0, len(at) - last)]] = False
        if within is not None:
            chosen &= self.times > self.times.max() - within
        return np.sort(self.values[chosen & self.failed if filter is not None else chosen])

    def holds(self, live: LiveStream, eps: float, stream: int | None = None, **scope: Any) -> bool:
        """Return True if the answer of a reader is right; `stream`: the values of the open step, if they bound it."""
        exact, whole = self.window(**scope), not {"last", "within", "filter", "mode"} & scope.keys()
        allowed = eps * (stream if stream is not None and whole else len(exact))
        return answer_holds(live.answer(0.99, **scope), exact, allowed)


def _ask(live: LiveStream, scope: Scope, phi: float = 0.99) -> float:
    return clock(live.answer, phi, **scope)[0]


def _memory(prefix: str = "") -> Row:
    fields = status()
    return {f"{prefix}own_bytes": own_bytes(fields), f"{prefix}mapped_bytes": status_bytes(fields, "RssFile")}


def questions(settings: Settings) -> list[Row]:
    """Measure repeated queries, queries with new phis, and first queries after a commit."""
    return [*_questions(False, WHOLE, settings), *_questions(True, KEYED, settings)]


def _questions(keyed: bool, scopes: dict[str, Scope], s: Settings) -> list[Row]:
    kept: list[Rows] = []

    def append(rows: Rows) -> None:
        history.append(rows.values, key=rows.keys if keyed else None, times=rows.times, filters={"failed": rows.failed})
        kept.append(rows)

    with scratch() as path, History(path, eps=s.eps, keys="endpoint" if keyed else None, filters=["failed"]) as history:
        say(f"live: a store {'with' if keyed else 'without'} keys, {s.steps} steps of {s.step_rows:,}")
        begin = 0.0
        for number, size in enumerate([s.step_rows] * s.steps + [s.chunk_rows] * s.open_chunks):
            append(Rows.make([5, number], size, s.endpoints, begin, s.second_rows))
            begin += size // s.second_rows
            if number < s.steps:
                history.end_step()
        with LiveStream(path) as live:  # its thread follows commits
            say("live: queries, repeated, then with new phis")
            out = [{"question": name, **_repeated(live, scope, s)} for name, scope in scopes.items()]
            out.append({"question": "a dashboard of them all", **_dashboard(live, list(scopes.values()), s)})
            rows, stream = Rows.joined(kept), history.stats()["stream_values"]
            holds = [rows.holds(live, s.eps, stream, **scope) for scope in scopes.values()]
        say(f"live: first queries after each of {s.commits} commits")
        with LiveStream(path, follow=False) as live:
            seconds, polls, rng = {name: list[float]() for name in scopes}, [], np.random.default_rng(2)
            for number in range(s.commits):
                append(Rows.make([6, number], 1_000, s.endpoints, kept[-1].times.max() + 1, s.second_rows))
                polls.append(clock(live.poll)[0])
                for name in rng.permutation(list(scopes)):  # in another order each time: they share what is read
                    seconds[name].append(_ask(live, scopes[name]))
            rows, stream = Rows.joined(kept), history.stats()["stream_values"]
            for row, before, (name, scope) in zip(out, holds, scopes.items(), strict=False):
                first = spread(seconds[name], "first_")
                row |= {"first_median": first["first_median"], "first_p99": first["first_p99"]}
                row |= {"poll_median": float(np.median(polls))}
                row |= {"holds": before and rows.holds(live, s.eps, stream, **scope)}
    return [{"holds": True} | row for row in out]


def _repeated(live: LiveStream, scope: Scope, s: Settings) -> Row:
    live.answer(0.99, **scope)
    whole, _ = clock(lambda: [live.answer(0.99, **scope) for _ in range(s.repeats)])
    again = spread([_ask(live, scope) for _ in range(s.repeats)])
    phis = np.random.default_rng(9).uniform(0.001, 1, s.phis).tolist()
    taken, seconds = clock(lambda: [_ask(live, scope, phi) for phi in phis])
    new = spread(seconds, "new_")
    row = {"rate": s.repeats / whole, "median": again["median"], "p99": again["p99"], "new_rate": s.phis / taken}
    return row | {"new_median": new["new_median"], "new_p99": new["new_p99"]}


def _dashboard(live: LiveStream, scopes: list[Scope], s: Settings) -> Row:
    """Measure all queries with three phis each, in turn."""
    panels = [(phi, scope) for scope in scopes for phi in SHOWN]
    seconds = spread([_ask(live, scope, phi) for _ in range(2) for phi, scope in panels][len(panels) :])
    rounds = max(1, s.repeats // len(panels))
    whole, _ = clock(lambda: [live.answer(phi, **scope) for _ in range(rounds) for phi, scope in panels])
    return {"rate": rounds * len(panels) / whole, "median": seconds["median"], "p99": seconds["p99"]}


def _day(s: Settings) -> Iterator[Rows]:
    for number, begin in enumerate(range(0, s.day_seconds, s.day_chunk)):
        rows = min(s.day_chunk, s.day_seconds - begin) * s.day_rows
        yield Rows.make([11, number], rows, s.keys, float(begin), s.day_rows)


def day_of_keys(s: Settings) -> list[Row]:
    """Measure queries about keys that were not queried before, over a day of many keys, in a new process."""
    say(f"live: a day of {s.keys:,} keys, {s.day_seconds * s.day_rows:,} rows")
    chunks, *_, recent = -(-s.day_seconds // s.day_chunk), *_day(s)
    order = (
        np.random.default_rng(4).permutation(np.unique(recent.keys[recent.times > recent.times.max() - 300])).tolist()
    )
    keys = {name: order[i * (s.cold + 1) : (i + 1) * (s.cold + 1)] for i, name in enumerate(COLD)}
    with scratch() as path, History(path, eps=s.eps, keys="endpoint") as history:
        for number, rows in enumerate(_day(s), 1):
            history.append(rows.values, key=rows.keys, times=rows.times)
            if number % max(1, chunks // (STEPS + 1)) == 0 and number < chunks:
                history.end_step()
        history.close()
        with new_process() as process:
            found, about, answers = process.submit(ask_cold, str(path), keys).result()
    wanted, kept = np.array(sorted({key for _, key, _ in answers})), []
    for rows in _day(s):
        chosen = np.isin(rows.keys, wanted)
        chosen[-1] = True  # the newest time counts
        kept.append(Rows(rows.keys[chosen], rows.values[chosen], rows.times[chosen], rows.failed[chosen]))
    everything = Rows.joined(kept)
    for row in found:
        exact = [
            (answer, everything.window(key=key, **COLD[name]))
            for name, key, answer in answers
            if name == row["question"]
        ]
        row |= {"holds": all(answer_holds(answer, one, s.eps * len(one)) for answer, one in exact), **about}
    return list(found)


def ask_cold(path: str, keys: dict[str, list[int]]) -> tuple[list[Row], Row, list[tuple[str, int, Any]]]:
    """Query every scope about its own keys; the first query of a scope finds nothing cached, and is reported apart."""
    about, begun, rows, answers = _memory("before_"), time.perf_counter(), [], []
    with LiveStream(path, memory="1 GB") as live:
        live.answer(0.99, mode="quick")
        about["open_seconds"] = time.perf_counter() - begun
        about |= {name: live.stats()[name] for name in ("recent_files", "recent_bytes")}
        for name, scope in COLD.items():
            first, *chosen = keys[name]
            row = {"question": name, "first": _ask(live, {"key": first, **scope})}
            cold, again = ([_ask(live, {"key": key, **scope}) for key in chosen] for _ in range(2))
            rows.append(row | spread(cold) | {"again_median": float(np.median(again))})
            answers += [(name, key, live.answer(0.99, key=key, **scope)) for key in chosen[:3]]
        about |= {"stats_memory": live.stats()["memory"], **_memory()}
        seconds, found = clock(live.keys)
        about |= {"keys": len(found), "keys_seconds": seconds, **_memory("keys_")}
    return rows, about, answers


def small(s: Settings) -> list[Row]:
    """Measure an open step of real commits, a second each."""
    say(f"live: {s.small_marks[-1]:,} commits of {s.day_rows} rows in one open step")
    out, kept, spent = [], list[Rows](), 0.0
    with scratch() as path, History(path, eps=s.eps, keys="endpoint") as history:
        for second in range(1, s.small_marks[-1] + 1):
            kept.append(Rows.make([8, second - 1], s.day_rows, s.keys, second - 1.0, s.day_rows))
            spent += clock(history.append, kept[-1].values, key=kept[-1].keys, times=kept[-1].times)[0]
            if (late := spent > s.patience) or second in s.small_marks:
                out.append({"commits": second, "append": spent / second} | _look(path, Rows.joined(kept), s))
            if late:
                break
    return out


def _look(path: Path, rows: Rows, s: Settings) -> Row:
    opening, live = clock(_started, path)
    with live:
        row, holds = {"open_seconds": opening, **{name: live.stats()[name] for name in ("chunks", "recent_files")}}, []
        keys = np.random.default_rng(1).permutation(np.unique(rows.keys[-300 * s.day_rows :])).tolist()
        scopes: tuple[tuple[str, Scope], ...] = (("everything", {}), ("window", {"within": 300}))
        for name, scope in scopes:
            chosen, keys = keys[: s.cold], keys[s.cold :]
            found = spread([_ask(live, {"key": key, **scope}) for key in chosen])
            row |= {f"{name}_median": found["median"], f"{name}_p99": found["p99"]}
            holds += [rows.holds(live, s.eps, key=key, **scope) for key in chosen[:3]]
        return row | {"memory": live.stats()["memory"], "holds": all(holds)}


def _started(path: Any) -> LiveStream:
    live = LiveStream(path, follow=False)
    live.answer(0.99, mode="quick")
    return live


def follow(s: Settings) -> list[Row]:
    """Measure the lag behind a writer in another process: small batches, large ones with keys, and while queried."""
    few, many = s.follow_rows
    cases = [(few, 0, s.follow_seconds, False), (many, s.follow_keys, s.follow_seconds, False)]
    return [_follow(*case, s) for case in (*cases, (many, s.follow_keys, s.asking_seconds, True))]


def batch_values(batch: int, rows: int, keys: int) -> tuple[Any, Any]:
    """Return values whose whole part is the number of the batch, and their keys."""
    rng = np.random.default_rng([3, batch])
    return batch + rng.random(rows), rng.integers(0, keys, rows) if keys else None


def write_batches(path: str, rows: int, keys: int, batches: int, every: float) -> Seen:
    """Append a batch at each tick; return their numbers with the times at which append() returned."""
    out: Seen = []
    with History(path) as history:
        begun = time.monotonic()
        for batch in range(1, batches + WARM + 1):
            begun = time.monotonic() if batch <= WARM else begun
            time.sleep(max(0.0, begun + (batch - WARM) * every - time.monotonic()))
            values, key = batch_values(batch, rows, keys)
            history.append(values, key=key, times=batch * every)
            out.append((batch, time.monotonic()))
            if batch % STEP == 0:
                history.end_step(wait=False)
    return out


def _follow(rows: int, keys: int, seconds: float, asking: bool, s: Settings) -> Row:
    batches = math.ceil(seconds / s.follow_every)
    scope: Scope = {"key": 0, "within": 60} if keys else {"within": 60}
    say(f"live: follow {batches} batches of {rows:,} rows{', with queries all the time' if asking else ''}")
    with scratch() as path:
        with History(path, eps=s.eps, keys="key" if keys else None) as history:
            values, key = batch_values(0, rows, keys)
            history.append(values, key=key, times=0.0)
        with new_process() as process, LiveStream(path) as live:
            writer = process.submit(write_batches, str(path), rows, keys, batches, s.follow_every)
            seen, answered, queries = _watch(live, writer, batches + WARM, scope, asking)
            written, last = writer.result(), batches + WARM
            live.poll()
            inside = [n for n in range(last + 1) if n * s.follow_every > last * s.follow_every - 60]
            parts = [batch_values(n, rows, keys) for n in inside]
            exact = np.sort(np.concatenate([values[key == 0] if keys else values for values, key in parts]))
            holds = answer_holds(live.answer(0.99, **scope), exact, s.eps * len(exact))
    lags, answers = ([max(0.0, first_at(one, n) - at) for n, at in written[WARM:]] for one in (seen, answered))
    took, late = written[-1][1] - written[WARM][1], spread(answers)
    row: Row = {"rows": rows, "keys": keys, "batches": batches, "asked": asking, **spread(lags), "holds": holds}
    row |= {"batches_per_s": (len(lags) - 1) / took if took else 0.0, "questions_per_s": queries if asking else None}
    return row | {"answered_median": late["median"], "answered_worst": late["worst"]}


def _watch(live: LiveStream, writer: "Future[Seen]", last: int, scope: Scope, asking: bool) -> tuple[Seen, Seen, float]:
    """Return when each batch was visible, when a window with it was answered, and the queries a second."""
    seen, answered, version, count, begun = Seen(), Seen(), -1, 0, time.monotonic()
    while (not seen or seen[-1][0] < last) and not (writer.done() and writer.exception()):
        if asking:
            live.answer(0.99, **scope)
            count += 1
        elif live.version == version:
            time.sleep(0.001)
        if live.version != version:
            version, batch = live.version, int(live.quantile(1.0, last=1))
            seen.append((batch, time.monotonic()))
            live.answer(0.99, **scope)
            answered.append((batch, time.monotonic()))
    return seen, answered, count / (time.monotonic() - begun)


def first_at(seen: Seen, number: int) -> float:
    """Return the time at which a batch, or a later one, was first seen."""
    return next(when for found, when in seen if found >= number)


def restart(s: Settings) -> list[Row]:
    """Measure the start of a reader against the age of a stream with steps and vacuums."""
    say(f"live: a stream of {s.ages[-1]:,} commits")
    out, kept, begun = [], list[Rows](), time.perf_counter()
    with scratch() as path, History(path, eps=s.eps) as history:
        for commit in range(1, s.ages[-1] + 1):
            kept.append(Rows.make([13, commit], BATCH, 1, float(commit), BATCH))
            history.append(kept[-1].values, times=kept[-1].times)
            if (late := time.perf_counter() - begun > s.patience) or commit in s.ages:
                out.append({"commits": commit, **_openings(path, Rows.joined(kept), s)})
            if late:
                break
            if commit % s.age_step == 0:
                history.end_step()
                if commit // s.age_step % s.vacuum_every == 0:
                    history.vacuum(older_than_hours=0)
    return out


def _openings(path: Path, rows: Rows, s: Settings) -> Row:
    """Measure the constructor, and first answers of three scopes, with a warm file cache; check them."""
    starts, answers, scopes = [], [], ({"mode": "quick"}, dict[str, Any](), {"within": 300})
    for _ in range(s.openings):
        begun = time.perf_counter()
        with LiveStream(path, follow=False) as live:
            starts.append(time.perf_counter() - begun)
            for scope in scopes:
                live.answer(0.99, **scope)
            answers.append(time.perf_counter() - begun)
            stats, holds = live.stats(), all(rows.holds(live, s.eps, **scope) for scope in scopes)
    row: Row = {"start": float(np.median(starts)), "answered": float(np.median(answers)), "worst": max(answers)}
    row |= {"holds": holds}
    row |= {name: stats[name] for name in ("chunks", "runs", "recent_files")}
    return row | {"log_files": sum(1 for _ in (path / "_delta_log").iterdir())}


def year(s: Settings) -> list[Row]:
    """Measure a year of steps, each with a value of every key; opened in a new process."""
    say(f"live: {s.year_steps} steps of {s.keys:,} keys")
    begun, steps, middle, keys = time.perf_counter(), 0, s.keys // 2, np.arange(s.keys)

    def values(step: int) -> Floats:
        return np.random.default_rng([17, step]).lognormal(3, 1, s.keys)

    with scratch() as path:
        with History(path, eps=s.eps, keys="endpoint") as history:
            while steps < s.year_steps and time.perf_counter() - begun <= s.patience:
                history.append(values(steps), key=keys, times=float(steps * DAY))
                history.end_step()
                steps += 1
                if steps % 30 == 0:
                    history.vacuum(older_than_hours=0)
            history.append(values(steps), key=keys, times=float(steps * DAY))
        built = time.perf_counter() - begun
        with new_process() as process:
            row, answer = process.submit(open_year, str(path), middle).result()
    exact = np.sort([values(step)[middle] for step in range(steps + 1)])
    about = {"steps": steps, "rows": (steps + 1) * s.keys, "build_seconds": built}
    return [about | row | {"holds": answer_holds(answer, exact, s.eps * len(exact))}]


def open_year(path: str, key: int) -> tuple[Row, Any]:
    """Open a reader in a new process: imports and kernels are part of the first time."""
    row, begun = _memory("before_"), time.perf_counter()
    with LiveStream(path) as live:
        live.answer(0.99, mode="quick")
        row["open_seconds"] = time.perf_counter() - begun
        for name, scope in (
            ("first_key", {"key": key - 1}),
            ("key", {"key": key}),
            ("window", {"key": key + 1, "within": 300}),
        ):
            row[f"{name}_seconds"] = _ask(live, scope)
        answer = live.answer(0.99, key=key)
        row |= {"stats_memory": live.stats()["memory"], **_memory()}
    row["again_seconds"], again = clock(_started, path)
    again.close()
    return row, answer


def appends(s: Settings) -> list[Row]:
    """Measure appends into a store with recent rows, and into one without, in turn."""
    say("live: appends with recent rows and without")
    large = s.step_rows * 5 // 2  # a million
    cases = [("100 rows", 100, 0, s.appends * 10), (f"{large:,} rows", large, 0, s.appends)]
    cases.append(("10,000 rows of 1,000 keys", 10_000, 1_000, s.appends * 2))
    cases.append((f"{large:,} rows of {s.keys:,} keys", large, s.keys, max(2, s.appends // 4)))
    return [_appends(*case, s) for case in cases]


def _appends(name: str, rows: int, keys: int, count: int, s: Settings) -> Row:
    batches = [Rows.make([19, i], rows, max(1, keys), float(i), rows) for i in range(4)]
    seconds = list[tuple[float, float]]()
    with scratch() as path:
        more: Scope = {"eps": s.eps, "keys": "key" if keys else None}
        with History(path / "kept", **more) as kept, History(path / "without", window=0, **more) as without:
            for i in range(count + 3):
                batch = batches[i % 4]
                key = batch.keys if keys else None
                taken = clock(kept.append, batch.values, key=key, times=batch.times)[0]
                seconds.append((taken, clock(without.append, batch.values, key=key)[0]))
        with LiveStream(path / "kept", follow=False) as live:
            recent = live.stats()["recent_bytes"] / (rows * (count + 3))
            exact = np.sort(np.concatenate([batches[i % 4].values for i in range(count + 3)]))
            holds = answer_holds(live.answer(0.99, last=len(exact)), exact, s.eps * len(exact))
    row: Row = {"append": name, "count": count, "recent_bytes_a_row": recent, "holds": holds}
    for way, found in zip(("kept", "without"), zip(*seconds[3:], strict=True), strict=True):
        row |= {f"{way}_median": float(np.median(found)), f"{way}_worst": max(found)}
    return row | {"ratio": row["kept_median"] / row["without_median"]}


def figures(report: Report) -> Row:
    if (rows := report.rows.get("restart")) is None:
        return {}
    named = (("first answers", "answered"), ("start", "start"))
    lines = [plots.Line(name, plots.points(rows, "commits", y, 1e3), i) for i, (name, y) in enumerate(named)]
    panel = plots.Panel("A reader starts", "commits of the stream", "milliseconds", lines)
    return {
        "live.svg": plots.svg([panel], "Milliseconds until a reader has started and answered, by the age of the stream")
    }


PARTS = {"questions": questions, "keys": day_of_keys, "small": small, "follow": follow}
PARTS |= {"restart": restart, "year": year, "appends": appends}
SUBJECT = Subject("a reader beside the writer: queries, lag, starts, memory", Settings, PARTS, plots=figures)
