"""Generated market: ticks with a quoted spread and the latency of the quote.

The same seed, start and times give the same ticks. Times are seconds after the start; negative ones are history.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.typing import Floats

SYMBOLS = ("AURA", "BOLT", "CYAN", "DUNE", "ECHO", "FLUX", "GALE", "HALO")
SHARE = np.array([0.22, 0.18, 0.14, 0.13, 0.12, 0.09, 0.07, 0.05])  # of all ticks
SPREAD = np.array([0.8, 1.3, 2.1, 2.8, 3.5, 5.5, 8.0, 13.0])  # typical, in basis points
VOLATILITY = np.array([0.30, 0.35, 0.40, 0.35, 0.40, 0.50, 0.55, 0.60])  # standard deviation of the spread's logarithm
LATENCY = np.array([70.0, 85.0, 110.0, 95.0, 130.0, 180.0, 150.0, 320.0])  # typical, in microseconds
DRIFTING, FAILING = SYMBOLS.index("DUNE"), SYMBOLS.index("ECHO")

RATE = 2_000.0  # ticks a second
HOUR, DAY = 3_600.0, 86_400.0

INCIDENT_FIRST, INCIDENT_EVERY, INCIDENT_LASTS = 30.0, 180.0, 40.0  # seconds
INCIDENT_FACTOR = 8.0

BURSTS = 25.0  # per second
BURST_LENGTH = 0.004  # seconds: mean delay of a tick after the start of its burst
WIDE, LATE = 20.0, 500.0
"""Thresholds of a wide spread and of a late tick."""

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
    """A market; `start` is the start of the demo, in microseconds since 1970.

    >>> ticks = Market(seed=1, start=1_700_000_000_000_000).ticks(0.0, 0.5)
    >>> ticks.schema.names, len(ticks) > 100
    (['ts', 'symbol', 'spread_bps', 'latency_us'], True)
    """

    seed: int
    start: int

    def ticks(self, since: float, until: float, rate: float = RATE) -> pa.Table:
        """Return the ticks between two times, in order; about `rate` ticks a second, in bursts."""
        key = [int(1e6 * time) % 2**63 for time in (since, until)]
        random = np.random.default_rng([self.seed, self.start, *key])
        seconds = until - since
        bursts = random.uniform(since, until, max(1, round(min(BURSTS, rate) * seconds)))
        size = random.gamma(0.7, 1 / 0.7, len(bursts))  # many small ones, some large; 1 on average
        burst = np.repeat(np.arange(len(bursts)), random.poisson(rate * seconds / len(bursts) * size))
        times = np.minimum(bursts[burst] + random.exponential(BURST_LENGTH, len(burst)), np.nextafter(until, since))
        symbols = random.choice(len(SYMBOLS), len(burst), p=SHARE)
        burst_load = np.sqrt(size)[burst]
        order = np.argsort(times)
        return pa.table(
            [
                pa.array((self.start + np.floor(1e6 * times[order])).astype("M8[us]"), SCHEMA.field("ts").type),
                pa.DictionaryArray.from_arrays(symbols[order], SYMBOLS).cast(pa.string()),
                pa.array(draw_spreads(random, symbols, times)[order]),
                pa.array(draw_latencies(random, symbols, burst_load)[order]),
            ],
            schema=SCHEMA,
        )


def draw_spreads(random: np.random.Generator, symbols: NDArray[np.int64], times: Floats) -> Floats:
    """Return spreads: lognormal, with one in fifty from a heavy tail."""
    log = random.standard_normal(len(symbols)) * VOLATILITY[symbols]
    spreads = SPREAD[symbols] * np.exp(log) * draw_tail(random, len(symbols), 0.02, 3.0)
    spreads[symbols == DRIFTING] *= drift_factor(times[symbols == DRIFTING])
    spreads[(symbols == FAILING) & is_incident(times)] *= INCIDENT_FACTOR
    return np.asarray(np.round(spreads, 3))


def draw_latencies(random: np.random.Generator, symbols: NDArray[np.int64], burst_load: Floats) -> Floats:
    """Return latencies: higher in large bursts, where ticks queue; one in two hundred meets a pause of a machine."""
    log = random.standard_normal(len(symbols)) * 0.35
    latencies: Floats = (
        LATENCY[symbols] * (0.7 + 0.3 * burst_load) * np.exp(log) * draw_tail(random, len(symbols), 0.005, 1.5)
    )
    return np.round(latencies, 1)


def draw_tail(random: np.random.Generator, size: int, share: float, power: float) -> Floats:
    """Return factors: 1 for most values; for a share of them, drawn from a Pareto distribution of that power."""
    factors = np.ones(size)
    in_tail = random.random(size) < share
    factors[in_tail] += 1 + random.pareto(power, int(in_tail.sum()))
    return factors


def drift_factor(times: Floats) -> Floats:
    """Return the factor of drifting spreads: 1 before the last hour, 1.6 at the start, then growing up to 4.

    >>> drift_factor(np.array([-DAY, -HOUR, 0.0, 600.0, 10 * DAY])).round(3).tolist()
    [1.0, 1.0, 1.6, 1.9, 4.0]
    """
    return np.asarray(np.interp(times, [-HOUR, 0.0, 4_800.0], [1.0, 1.6, 4.0]))


def is_incident(times: Floats) -> NDArray[np.bool_]:
    """
    >>> is_incident(np.array([0.0, 31.0, 69.0, 71.0, 211.0, -149.0])).tolist()
    [False, True, True, False, True, True]
    """
    return (times >= -HOUR) & ((times - INCIDENT_FIRST) % INCIDENT_EVERY < INCIDENT_LASTS)
