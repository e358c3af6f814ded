"""How many questions a second one process answers: repeated, with a phi of their own, and first ones after a commit."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live_data import Rows, checked
from benchmarks.live_settings import Settings
from benchmarks.report import Row, say
from quantide import History
from quantide.live import LiveStream

BAR = 10_000  # questions a second
SHOWN = (0.5, 0.99, 0.999)  # the phis of a dashboard
KEY = 3


@dataclass(frozen=True)
class Question:
    """Words of LiveStream.answer(), and the name they have in a table."""

    name: str
    asked: dict[str, Any]

    def exact(self, rows: Rows) -> Any:
        """All values it is about."""
        words = {name: value for name, value in self.asked.items() if name != "mode"}
        return rows.window(**words)

    def allowed(self, n: int, stream: int, eps: float) -> float:
        """The most that an answer may be off, in ranks."""
        whole = not {"last", "within", "filter"} & self.asked.keys()
        return eps * (stream if whole and self.asked.get("mode") != "quick" else n)


WHOLE = (
    Question("everything, quick", {"mode": "quick"}),
    Question("everything, accurate", {}),
    Question("last 100,000", {"last": 100_000}),
    Question("within 5 min", {"within": 300}),
    Question("within 1 hour", {"within": 3_600}),
    Question("within 1 hour, filter", {"within": 3_600, "filter": "failed"}),
)
KEYED = (
    Question("a key, accurate", {"key": KEY}),
    Question("a key, last 1,000", {"key": KEY, "last": 1_000}),
    Question("a key, within 5 min", {"key": KEY, "within": 300}),
    Question("a key, within 1 hour, filter", {"key": KEY, "within": 3_600, "filter": "failed"}),
)


def questions(settings: Settings) -> list[Row]:
    """A store without keys, then one with them."""
    found = []
    for keyed, asked in ((False, WHOLE), (True, KEYED)):
        with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder:
            found += _asked(Path(folder) / "store", keyed, asked, settings)
    return found


def _asked(path: Path, keyed: bool, asked: tuple[Question, ...], settings: Settings) -> list[Row]:
    kept: list[Rows] = []
    with History(path, eps=settings.eps, keys="endpoint" if keyed else None, filters=["failed"]) as history:
        say(f"live: a store {'with' if keyed else 'without'} keys, {settings.steps} steps of {settings.step_rows:,}")
        for rows, last in _stream(settings):
            _append(history, rows, keyed)
            kept.append(rows)
            if last:
                history.end_step()
        rows, stream = Rows.joined(kept), history.stats()["stream_values"]
        with LiveStream(path) as live:  # its thread follows, as it does anywhere
            say("live: questions, again and again, then with a phi of their own")
            out = [{"question": q.name, **_again(live, q, settings), **_others(live, q, settings)} for q in asked]
            out.append({"question": "a dashboard of them all", **_dashboard(live, asked, settings)})
            for row, question in zip(out, asked, strict=False):
                row["checked"] = [_check(live, question, rows, stream, settings)]
        say(f"live: first questions after each of {settings.commits} commits")
        with LiveStream(path, follow=False) as live:
            for row, found in zip(out, _first(history, live, asked, kept, keyed, settings), strict=False):
                row |= {name: value for name, value in found.items() if name != "check"}
                row["checked"].append(found["check"])
    return [row | {"holds": all(c["holds"] for c in row.pop("checked", []))} for row in out]


def _stream(settings: Settings) -> Iterator[tuple[Rows, bool]]:
    """Chunks of all steps and of the open one, and whether a step ends after each."""
    begin = 0.0
    sizes = [settings.step_rows] * settings.steps + [settings.chunk_rows] * settings.open_chunks
    for number, size in enumerate(sizes):
        yield Rows.make([5, number], size, settings.endpoints, begin, settings.second_rows), number < settings.steps
        begin += size // settings.second_rows


def _append(history: History, rows: Rows, keyed: bool) -> None:
    key = rows.keys if keyed else None
    history.append(rows.values, key=key, times=rows.times, filters={"failed": rows.failed})


def _again(live: LiveStream, question: Question, settings: Settings) -> Row:
    """The same question, again and again."""
    asked = question.asked
    live.answer(0.99, **asked)
    begun = time.perf_counter()
    for _ in range(settings.repeats):
        live.answer(0.99, **asked)
    rate = settings.repeats / (time.perf_counter() - begun)
    seconds = [_clock(live, 0.99, asked) for _ in range(settings.repeats)]
    return {"rate": rate, "median": float(np.median(seconds)), "p99": float(np.quantile(seconds, 0.99))}


def _others(live: LiveStream, question: Question, settings: Settings) -> Row:
    """The same question with a phi that was not asked before."""
    phis = np.random.default_rng(9).uniform(0.001, 1, settings.phis).tolist()
    begun = time.perf_counter()
    seconds = [_clock(live, phi, question.asked) for phi in phis]
    rate = settings.phis / (time.perf_counter() - begun)
    median, p99 = np.quantile(seconds, [0.5, 0.99])
    return {"new_rate": rate, "new_median": float(median), "new_p99": float(p99)}


def _dashboard(live: LiveStream, asked: tuple[Question, ...], settings: Settings) -> Row:
    """All questions with three phis each, in turn."""
    panels = [(phi, question.asked) for question in asked for phi in SHOWN]
    rounds = max(1, settings.repeats // len(panels))
    seconds = [_clock(live, phi, words) for _ in range(2) for phi, words in panels][len(panels) :]
    begun = time.perf_counter()
    for _ in range(rounds):
        for phi, words in panels:
            live.answer(phi, **words)
    rate = rounds * len(panels) / (time.perf_counter() - begun)
    return {"rate": rate, "median": float(np.median(seconds)), "p99": float(np.quantile(seconds, 0.99))}


def _first(
    history: History, live: LiveStream, asked: tuple[Question, ...], kept: list[Rows], keyed: bool, settings: Settings
) -> list[Row]:
    """The first question of each kind after a commit; in another order each time, for they share what is read."""
    seconds: list[list[float]] = [[] for _ in asked]
    polls, rng, rows = [], np.random.default_rng(2), kept[-1]
    for number in range(settings.commits):
        rows = Rows.make([6, number], 1_000, settings.endpoints, rows.times.max() + 1, settings.second_rows)
        _append(history, rows, keyed)
        kept.append(rows)
        begun = time.perf_counter()
        live.poll()
        polls.append(time.perf_counter() - begun)
        for i in rng.permutation(len(asked)):
            seconds[i].append(_clock(live, 0.99, asked[i].asked))
    everything, stream = Rows.joined(kept), history.stats()["stream_values"]
    poll = float(np.median(polls))
    return [
        {
            "first_median": float(np.median(one)),
            "first_p99": float(np.quantile(one, 0.99)),
            "poll_median": poll,
            "check": _check(live, question, everything, stream, settings),
        }
        for question, one in zip(asked, seconds, strict=True)
    ]


def _check(live: LiveStream, question: Question, rows: Rows, stream: int, settings: Settings) -> Row:
    exact = question.exact(rows)
    allowed = question.allowed(len(exact), stream, settings.eps)
    return checked(question.name, live.answer(0.99, **question.asked), exact, allowed)


def _clock(live: LiveStream, phi: float, asked: dict[str, Any]) -> float:
    begun = time.perf_counter()
    live.answer(phi, **asked)
    return time.perf_counter() - begun
