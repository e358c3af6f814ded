"""Backfill of the demo: thirty days as thirty steps, and the last hour in the open step."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise, repeat

import pyarrow as pa
import pyarrow.compute as pc

from quantide.config import StreamConfig
from quantide.demo.market import DAY, HOUR, RATE, SCHEMA, Market
from quantide.history.history import History
from quantide.spark.stream.running_stream import open_history

DAYS = 30
DAY_RATE = 60_000 / DAY  # ticks a second before the last hour
PIECES = 12  # of the last hour
LAST_HOUR_BATCH = "last hour"


def generate_day(market: Market, step: int) -> pa.Table:
    """Return the ticks of a day; step 1 is the oldest, and the last one ends where the last hour starts."""
    until = -HOUR - (DAYS - step) * DAY
    return market.ticks(until - DAY, until, DAY_RATE)


def generate_last_hour(market: Market) -> pa.Table:
    """Return the ticks of the hour before the demo starts, at a growing rate."""
    edges = [-HOUR + HOUR * piece / PIECES for piece in range(PIECES + 1)]
    pieces = [
        market.ticks(since, until, RATE * ((number + 1) / PIECES) ** 4)
        for number, (since, until) in enumerate(pairwise(edges))
    ]
    return pa.concat_tables(pieces)


def backfill(streams: Sequence[StreamConfig], market: Market) -> int:
    """Write the days and the last hour that the stores lack; return the number of values in the stores."""
    with ExitStack() as stack, ThreadPoolExecutor(len(streams)) as threads:
        histories = [stack.enter_context(open_history(stream)) for stream in streams]
        for step in range(min(history.step for history in histories), DAYS + 1):
            ticks = generate_day(market, step)
            list(threads.map(_write_day, streams, histories, repeat(step), repeat(ticks)))
        if not all(history.batch_seen(LAST_HOUR_BATCH) for history in histories):
            ticks = generate_last_hour(market)
            list(threads.map(_append, streams, histories, repeat(LAST_HOUR_BATCH), repeat(ticks)))
        return sum(int(history.n) for history in histories)


def _write_day(stream: StreamConfig, history: History, step: int, ticks: pa.Table) -> None:
    """Write a step, unless it exists because an earlier demo was killed during the backfill."""
    if history.step == step:
        _append(stream, history, f"day {step}", ticks)
        history.end_step(wait=False)


def _append(stream: StreamConfig, history: History, batch: str, ticks: pa.Table) -> None:
    """Append ticks as ingestion would: the same values, keys, times and filters."""
    filters = {
        name: pc.greater_equal(ticks[stream.value], _parse_threshold(condition))
        for name, condition in stream.filters.items()
    }
    history.append(
        ticks[stream.value].combine_chunks(),
        key=ticks[stream.keys[0]],
        batch_id=batch,
        times=ticks[SCHEMA.names[0]],
        filters=filters,
    )


def _parse_threshold(condition: str) -> float:
    """Return the number in a filter such as "spread_bps >= 20"."""
    return float(condition.rpartition(" ")[2])
