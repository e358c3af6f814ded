"""Ticks of a market that does not exist: quoted spreads, and how late each quote came.

The same seed, start and moments give the same ticks. Moments are seconds after the start; those before it are history.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SYMBOLS = ("AURA", "BOLT", "CYAN", "DUNE", "ECHO", "FLUX", "GALE", "HALO")
SHARE = np.array([0.22, 0.18, 0.14, 0.13, 0.12, 0.09, 0.07, 0.05])  # of all ticks
SPREAD = np.array([0.8, 1.3, 2.1, 2.8, 3.5, 5.5, 8.0, 13.0])  # typical, in basis points
UNREST = np.array([0.30, 0.35, 0.40, 0.35, 0.40, 0.50, 0.55, 0.60])  # how much the spread's logarithm moves
LATENCY = np.array([70.0, 85.0, 110.0, 95.0, 130.0, 180.0, 150.0, 320.0])  # typical, in microseconds
DRIFTS, FAILS = SYMBOLS.index("DUNE"), SYMBOLS.index("ECHO")

RATE = 2_000.0  # ticks a second
HOUR, DAY = 3_600.0, 86_400.0

INCIDENT_FIRST, INCIDENT_EVERY, INCIDENT_LASTS = 30.0, 180.0, 40.0  # seconds
INCIDENT_TIMES = 8.0

BURSTS = 25.0  # a second
BURST_LENGTH = 0.004  # seconds: what comes after the first tick of a burst comes soon
WIDE, LATE = 20.0, 500.0
"""From here on a spread is wide, and a tick is late."""

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("symbol", pa.string()),
        ("spread_bps", pa.float64()),
        ("latency_us", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Market:
    """`start` is when the demo begins, in microseconds since 1970.

    >>> ticks = Market(seed=1, start=1_700_000_000_000_000).ticks(0.0, 0.5)
    >>> ticks.schema.names, len(ticks) > 100
    (['ts', 'symbol', 'spread_bps', 'latency_us'], True)
    """

    seed: int
    start: int

    def ticks(self, since: float, until: float, rate: float = RATE) -> pa.Table:
        """What came from one moment until another, in order; about `rate` ticks a second, in bursts."""
        key = [int(1e6 * moment) % 2**63 for moment in (since, until)]
        random = np.random.default_rng([self.seed, self.start, *key])
        seconds = until - since
        bursts = random.uniform(since, until, max(1, round(min(BURSTS, rate) * seconds)))
        size = random.gamma(0.7, 1 / 0.7, len(bursts))  # many small ones, some large; 1 on average
        burst = np.repeat(np.arange(len(bursts)), random.poisson(rate * seconds / len(bursts) * size))
        moments = np.minimum(bursts[burst] + random.exponential(BURST_LENGTH, len(burst)), np.nextafter(until, since))
        symbols = random.choice(len(SYMBOLS), len(burst), p=SHARE)
        crowd = np.sqrt(size)[burst]
        order = np.argsort(moments)
        return pa.table(
            [
                pa.array((self.start + np.floor(1e6 * moments[order])).astype("M8[us]"), SCHEMA.field("ts").type),
                pa.DictionaryArray.from_arrays(symbols[order], SYMBOLS).cast(pa.string()),
                pa.array(spreads(random, symbols, moments)[order]),
                pa.array(latencies(random, symbols, crowd)[order]),
            ],
            schema=SCHEMA,
        )


def spreads(random: np.random.Generator, symbols: NDArray[np.int64], moments: Floats) -> Floats:
    """Lognormal, and one in fifty out of a heavy tail."""
    log = random.standard_normal(len(symbols)) * UNREST[symbols]
    found = SPREAD[symbols] * np.exp(log) * tail(random, len(symbols), 0.02, 3.0)
    found[symbols == DRIFTS] *= drift(moments[symbols == DRIFTS])
    found[(symbols == FAILS) & incident(moments)] *= INCIDENT_TIMES
    return np.asarray(np.round(found, 3))


def latencies(random: np.random.Generator, symbols: NDArray[np.int64], crowd: Floats) -> Floats:
    """In a large burst ticks wait for each other; one in two hundred meets a pause of a machine."""
    log = random.standard_normal(len(symbols)) * 0.35
    found: Floats = LATENCY[symbols] * (0.7 + 0.3 * crowd) * np.exp(log) * tail(random, len(symbols), 0.005, 1.5)
    return np.round(found, 1)


def tail(random: np.random.Generator, size: int, share: float, power: float) -> Floats:
    """Factors: 1 for most, for a share of them as large as a Pareto distribution of that power has it."""
    found = np.ones(size)
    hit = random.random(size) < share
    found[hit] += 1 + random.pareto(power, int(hit.sum()))
    return found


def drift(moments: Floats) -> Floats:
    """How much wider than ever before: nothing before the last hour, 1.6 times at the start, and more from then on.

    >>> drift(np.array([-DAY, -HOUR, 0.0, 600.0, 10 * DAY])).round(3).tolist()
    [1.0, 1.0, 1.6, 1.9, 4.0]
    """
    return np.asarray(np.interp(moments, [-HOUR, 0.0, 4_800.0], [1.0, 1.6, 4.0]))


def incident(moments: Floats) -> NDArray[np.bool_]:
    """
    >>> incident(np.array([0.0, 31.0, 69.0, 71.0, 211.0, -149.0])).tolist()
    [False, True, True, False, True, True]
    """
    return (moments >= -HOUR) & ((moments - INCIDENT_FIRST) % INCIDENT_EVERY < INCIDENT_LASTS)
