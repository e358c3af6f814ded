"""What the demo runs: made-up traffic, a sketch, and exact counts beside it."""

import time
from collections import deque

import numpy as np
from numpy.typing import NDArray

from quantide.demo.exact import Counts
from quantide.demo.frame import Row, State
from quantide.demo.traffic import TIMEOUT, Traffic
from quantide.errors import InvalidArgumentError
from quantide.sketches.stream import StreamSketch

TICK = 0.05
"""Seconds of traffic in one block."""

LARGEST_BLOCK = 2_000_000
TRAIL = 200
TRAIL_TICKS = 6
TRAIL_SAMPLE = 20_000

ASKED = {
    "p1": 0.01,
    "p10": 0.1,
    "p50": 0.5,
    "p90": 0.9,
    "p99": 0.99,
    "p99.9": 0.999,
    "p99.99": 0.9999,
    "max": 1.0,
}

EDGES = np.logspace(3, 6, 73).astype(np.int64)
"""Where the picture of the distribution is cut: 1 ms to 1 s in microseconds."""


class Feed:
    """Feeds a sketch and asks it, and keeps count of how its answers compare with the truth."""

    def __init__(self, eps: float, rate: float, seed: int) -> None:
        if not rate >= 1 / TICK:
            raise InvalidArgumentError(f"rate is {rate:g} values a second; give at least {1 / TICK:g}")
        if seed < 0:
            raise InvalidArgumentError(f"seed is {seed}; give 0 or a number above it")
        self.sketch = StreamSketch(eps)
        self._counts = Counts(TIMEOUT)
        self._traffic = Traffic(seed)
        self._block = int(min(rate * TICK, LARGEST_BLOCK))
        self._ticks = 0
        self._sketching = 0.0
        self._asked = self._broken = 0
        self._worst = 0.0
        self._medians: deque[float] = deque(maxlen=TRAIL)
        self._tails: deque[float] = deque(maxlen=TRAIL)

    def tick(self) -> None:
        """The values of the next TICK seconds."""
        values = self._traffic.block(self._block, self._ticks * TICK)
        start = time.perf_counter()
        self.sketch.update(values)
        self._sketching += time.perf_counter() - start
        self._counts.update(values)
        if self._ticks % TRAIL_TICKS == 0:
            self._note(values[:TRAIL_SAMPLE])
        self._ticks += 1

    def state(self, seconds: float) -> State:
        """Ask every question, compare, and gather what a frame shows `seconds` after the start."""
        rows = tuple(self._ask(label, phi) for label, phi in ASKED.items())
        self._asked += len(rows)
        self._broken += sum(not row.kept for row in rows)
        self._worst = max(self._worst, *(row.error for row in rows))
        return State(
            eps=self.sketch.eps,
            seconds=seconds,
            n=self.sketch.n,
            arriving=self.sketch.n / max(seconds, TICK),
            sketching=self.sketch.n / max(self._sketching, 1e-9),
            nbytes=self.sketch.nbytes,
            rows=rows,
            asked=self._asked,
            broken=self._broken,
            worst=self._worst,
            density=density(self.sketch.cdf(EDGES)),
            medians=tuple(self._medians),
            tails=tuple(self._tails),
        )

    def _note(self, latest: NDArray[np.int64]) -> None:
        """Keep how the traffic is just now: a sketch of everything hardly moves any more."""
        median, tail = np.quantile(latest, [0.5, 0.99])
        self._medians.append(float(median))
        self._tails.append(float(tail))

    def _ask(self, label: str, phi: float) -> Row:
        answer = self.sketch.answer(phi)
        value = int(answer.value)
        return Row(
            label=label,
            answer=value,
            exact=self._counts.value_at(answer.target),
            rank_lo=answer.rank_lo,
            rank_hi=answer.rank_hi,
            bound=answer.error,
            error=self._counts.distance(value, answer.target) / answer.n,
        )


def density(cdf: NDArray[np.float64]) -> tuple[float, ...]:
    """The share of values between neighbouring edges.

    >>> density(np.array([0.25, 0.5, 1.0]))
    (0.25, 0.5)
    """
    return tuple(np.maximum(np.diff(cdf), 0).tolist())
