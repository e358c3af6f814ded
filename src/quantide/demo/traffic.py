"""Latencies of a service that does not exist, in whole microseconds."""

import math

import numpy as np
from numpy.typing import NDArray

TIMEOUT = 4_000_000
"""No request takes longer than this many microseconds, so that exact counts of all values stay small."""

TYPICAL = math.log(12_000)
SLOWER = math.log(7)


class Traffic:
    """Most requests are served from a cache, some are not. The load drifts, and now and then it bursts.

    The same seed and the same calls give the same values.

    >>> block = Traffic(seed=1).block(5, now=0.0)
    >>> block.dtype, len(block), bool((block >= 1).all())
    (dtype('int64'), 5, True)
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def block(self, size: int, now: float) -> NDArray[np.int64]:
        """The latencies of `size` requests at `now` seconds after the start."""
        log = self._random.standard_normal(size, dtype=np.float32)
        log *= np.float32(0.35)
        log += np.float32(TYPICAL + drift(now))
        slow = self._random.random(size, dtype=np.float32) < slow_share(now)
        log[slow] = 1.3 * log[slow] + np.float32(SLOWER - 0.3 * TYPICAL)
        return np.clip(np.exp(log), 1, TIMEOUT).astype(np.int64)


def drift(now: float) -> float:
    """How far the logarithm of the typical latency is from its level at the start."""
    return 0.35 * math.sin(now * math.tau / 23) + 0.1 * math.sin(now * math.tau / 5.3)


def slow_share(now: float) -> float:
    """The share of requests that miss the cache: for one second in seven far more of them.

    >>> slow_share(1.0), slow_share(6.5)
    (0.08, 0.4)
    """
    return 0.4 if now % 7 >= 6 else 0.08
