"""What came before the demo began: thirty days as thirty steps, and the last hour in the step that is open."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise, repeat

import pyarrow as pa
import pyarrow.compute as pc

from quantide.config import StreamConfig
from quantide.demo.market import DAY, HOUR, RATE, SCHEMA, Market
from quantide.history.history import History
from quantide.spark.stream.stream import open_history

DAYS = 30
DAY_RATE = 60_000 / DAY  # ticks a second of the days before
PIECES = 12  # of the last hour
LAST = "last hour"


def day(market: Market, step: int) -> pa.Table:
    """The ticks of a day; step 1 is the oldest, and the last one ends where the last hour begins."""
    until = -HOUR - (DAYS - step) * DAY
    return market.ticks(until - DAY, until, DAY_RATE)


def last_hour(market: Market) -> pa.Table:
    """The hour before the demo began; there is more and more to trade."""
    edges = [-HOUR + HOUR * piece / PIECES for piece in range(PIECES + 1)]
    pieces = [
        market.ticks(since, until, RATE * ((number + 1) / PIECES) ** 4)
        for number, (since, until) in enumerate(pairwise(edges))
    ]
    return pa.concat_tables(pieces)


def backfill(streams: Sequence[StreamConfig], market: Market) -> int:
    """Write what the stores lack of it, if they lack something; how many values there are."""
    with ExitStack() as stack, ThreadPoolExecutor(len(streams)) as threads:
        histories = [stack.enter_context(open_history(stream)) for stream in streams]
        for step in range(min(history.step for history in histories), DAYS + 1):
            ticks = day(market, step)
            list(threads.map(_write_day, streams, histories, repeat(step), repeat(ticks)))
        if not all(history.batch_seen(LAST) for history in histories):
            ticks = last_hour(market)
            list(threads.map(_append, streams, histories, repeat(LAST), repeat(ticks)))
        return sum(int(history.n) for history in histories)


def _write_day(stream: StreamConfig, history: History, step: int, ticks: pa.Table) -> None:
    """A step that is there already, after the demo was killed, is left as it is."""
    if history.step == step:
        _append(stream, history, f"day {step}", ticks)
        history.end_step(wait=False)


def _append(stream: StreamConfig, history: History, name: str, ticks: pa.Table) -> None:
    """As ingestion would: the same values, keys, times and filters."""
    conditions = {name: pc.greater_equal(ticks[stream.value], _limit(text)) for name, text in stream.filters.items()}
    history.append(
        ticks[stream.value].combine_chunks(),
        key=ticks[stream.keys[0]],
        batch_id=name,
        times=ticks[SCHEMA.names[0]],
        filters=conditions,
    )


def _limit(condition: str) -> float:
    """The number in a filter such as "spread_bps >= 20"."""
    return float(condition.rpartition(" ")[2])
