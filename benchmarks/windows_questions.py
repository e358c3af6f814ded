"""How fast windows answer after something arrived, and how fast once more when nothing has."""

from typing import Any

import numpy as np

from benchmarks.report import Row, say
from benchmarks.timing import blocks, clock
from benchmarks.windows_settings import Settings
from quantide import RecentWindow, SlidingWindow

CHANGES = ("a block", "one value")
AGAIN = 20  # times that a question is repeated to be timed


def questions(settings: Settings) -> list[Row]:
    """For each window, each span of it and each kind of change."""
    say(f"windows: {settings.questions} questions about each span")
    values = np.random.default_rng(6).random(3 * settings.size)
    rows = []
    for eps in settings.epsilons:
        recent, sliding = RecentWindow(eps, max_items=settings.size), SlidingWindow(settings.size, eps)
        for part in blocks(len(values), settings.block):
            recent.update(values[part])
            sliding.update(values[part])
        for change, more in zip(CHANGES, (values[: settings.block], float(values[0])), strict=True):
            for span in settings.spans:
                found = _asked(recent, more, {"last": span}, settings.questions)
                rows.append({"window": "RecentWindow", "eps": eps, "change": change, "span": span, **found})
            found = _asked(sliding, more, {}, settings.questions)
            rows.append({"window": "SlidingWindow", "eps": eps, "change": change, "span": settings.size, **found})
    return rows


def _asked(window: Any, more: Any, asked: dict[str, int], count: int) -> Row:
    """Seconds of a question after each of so many changes, and of the same question repeated."""

    def ask() -> Any:
        return window.quantile(0.99, **asked)

    def repeat() -> None:
        for _ in range(AGAIN):
            ask()

    window.update(more)
    ask()
    first, again = [], []
    for _ in range(count):
        window.update(more)
        first.append(clock(ask)[0])
        again.append(clock(repeat)[0] / AGAIN)
    return {
        "median": float(np.median(first)),
        "worst": max(first),
        "again_median": float(np.median(again)),
        "again_worst": max(again),
    }
