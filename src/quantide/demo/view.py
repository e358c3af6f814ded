"""The view in a terminal: asks the running server, as any client would, and draws what it says."""

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np

from quantide.client import Client
from quantide.demo.frame import Alarm, Row, State
from quantide.demo.market import SYMBOLS
from quantide.demo.part import Part
from quantide.demo.screen import Screen
from quantide.errors import EmptyError, ServerError

STREAM, WINDOW = "spread", "1 min"
PHIS = (0.5, 0.9, 0.99)
TRAIL = 200
RATE_OVER = 10.0  # seconds that values a second are counted over
CALM = 1.0  # seconds after which a frame is drawn although nothing came


class View(Part):
    """Draws a frame when the stream, or an alarm, has moved on, and now and then although nothing has."""

    def __init__(self, client: Client, screen: Screen, moved: threading.Event) -> None:
        super().__init__("view")
        self._client, self._screen, self._moved = client, screen, moved
        self._began = time.monotonic()
        self._counts: deque[tuple[float, int]] = deque()
        self._trails: dict[str, deque[float]] = {symbol: deque(maxlen=TRAIL) for symbol in SYMBOLS}

    def work(self) -> None:
        while not self.ends.is_set():
            self._moved.wait(CALM)
            self._moved.clear()
            with suppress(ServerError):  # it is started again; the frame stays as it was
                self._screen.show(self.state())
            self.ends.wait(self._screen.every)

    def wake(self) -> None:
        self._moved.set()

    def state(self) -> State:
        """Ask everything that a frame shows."""
        stream = self._client.stream(STREAM)
        rows = tuple(row for symbol in SYMBOLS if (row := self._row(symbol)) is not None)
        return State(
            address=self._client.address,
            seconds=time.monotonic() - self._began,
            n=stream["n"],
            rate=self._rate(stream["n"]),
            lag=time.time() - _seconds(stream["newest"]),
            window=WINDOW,
            rows=rows,
            alarms=tuple(_alarm(found) for found in self._client.alarms()),
        )

    def _row(self, symbol: str) -> Row | None:
        """None while the window has nothing of it."""
        try:
            answers = self._client.answers(STREAM, PHIS, key=symbol, within=WINDOW)
        except EmptyError:
            return None
        p50, p90, p99 = answers
        trail = self._trails[symbol]
        trail.append(float(p99.value))
        values = (float(p50.value), float(p90.value), float(p99.value))
        return Row(symbol, *values, p99.rank_lo, p99.rank_hi, p99.n, p99.error, tuple(trail))

    def _rate(self, n: int) -> float:
        now = time.monotonic()
        self._counts.append((now, n))
        while len(self._counts) > 2 and self._counts[0][0] < now - RATE_OVER:
            self._counts.popleft()
        since, before = self._counts[0]
        return (n - before) / max(now - since, 1.0)


def _alarm(found: dict[str, Any]) -> Alarm:
    value = None if found["value"] is None else float(found["value"])
    return Alarm(found["name"], found["phi"], float(found["above"]), value, found["firing"], found["state"])


def _seconds(moment: np.datetime64) -> float:
    return float(moment.astype("M8[us]").astype(np.int64)) / 1e6
