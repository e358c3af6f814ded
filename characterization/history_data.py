"""Four data sets in steps, the same every time: two of the paper's, and two that look as real ones do."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

PACKETS, SHARES = (40.0, 52.0, 576.0, 1420.0, 1500.0), (0.30, 0.15, 0.05, 0.15, 0.35)
DAY = 24  # steps


def step_values(name: str, step: int, size: int) -> Values:
    """The values of a step of a data set."""
    return SETS[name](np.random.default_rng([list(SETS).index(name), step]), step, size)


def _normal(rng: np.random.Generator, step: int, size: int) -> Values:
    return rng.normal(1e8, 1e7, size)


def _uniform(rng: np.random.Generator, step: int, size: int) -> Values:
    return rng.integers(10**8, 10**9, size).astype(np.float64)


def _network(rng: np.random.Generator, step: int, size: int) -> Values:
    """Bytes of flows: packets of five sizes or of any, numbers of packets with a heavy tail. Many values are equal."""
    usual = rng.choice(np.array(PACKETS), size, p=SHARES)
    packet = np.where(rng.random(size) < 0.6, usual, rng.integers(41, 1500, size).astype(np.float64))
    return np.asarray(packet * (np.floor(np.minimum(rng.pareto(1.2, size), 1e6)) + 1))


def _latency(rng: np.random.Generator, step: int, size: int) -> Values:
    """Milliseconds of requests, to the microsecond: fast, slow and very slow ones, slower and more in the daytime."""
    load = 1 + 0.5 * np.sin(2 * np.pi * step / DAY)
    kind = rng.random(size)
    median = np.where(kind < 0.02 * load, 900.0, np.where(kind < 0.25 * load, 45.0 * load, 2.5))
    return np.round(median * np.exp(rng.normal(0, 0.5, size)), 3)


SETS: dict[str, Callable[[np.random.Generator, int, int], Values]] = {
    "normal": _normal,
    "uniform": _uniform,
    "network": _network,
    "latency": _latency,
}
