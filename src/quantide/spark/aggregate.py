"""Aggregate: tasks summarise, only summaries are shuffled, and merging is a tree."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from quantide.spark import parts
from quantide.spark.partials import MERGE, Request, merge_within, summarise
from quantide.spark.rows import Batches, Rows, Tables, gather, to_batches
from quantide.summary.summaries import Summaries

Emit = Callable[[str, Summaries], Iterable[dict[str, Any]]]

WIDE = 64  # tasks without keys whose parts are merged by one task


def buckets_for(tasks: int, cores: int) -> int:
    """Into how many buckets keys are dealt; tasks is 0 when it is not known."""
    return min(tasks or 4 * cores, max(4 * cores, 4 * math.isqrt(tasks)))


def summarise_rows(rows: Rows, request: Request, buckets: int) -> DataFrame:
    """The parts of all tasks."""

    def work(tables: Tables) -> Iterator[dict[str, Any]]:
        for name, held in summarise(tables, request):
            yield from parts.to_parts(name, held, buckets)

    return rows.map(work, parts.SCHEMA)


def merge_parts(
    found: DataFrame, tasks: int, buckets: int, request: Request, emit: Emit, schema: StructType
) -> DataFrame:
    """Parts of the same key and column become one summary, and that what `emit` makes of it.

    With keys, each bucket is merged by a task of its own. Without, parts are merged by about the square root of
    their number of tasks, and then by one.
    """
    if request.by:
        return found.repartitionById(buckets, found["bucket"]).mapInArrow(_merger(request, emit), schema)
    if tasks == 0 or tasks > WIDE:
        width = math.ceil(math.sqrt(tasks)) if tasks else int(math.sqrt(WIDE))
        found = found.repartition(width).mapInArrow(_merger(request, None), parts.SCHEMA)
    return found.repartition(1).mapInArrow(_merger(request, emit), schema)


def _merger(request: Request, emit: Emit | None) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        table = gather(batches)
        if table is None and (request.by or emit is None):
            return
        empty = dict(summarise([], request)) if table is None else {}  # no rows at all: still an answer, of n = 0
        for name in request.columns:
            held = [empty[name]] if table is None else parts.from_parts(table, name)
            if held:
                merged = merge_within(Summaries.merge(*held), request.eps, MERGE)
                for rows in emit(name, merged) if emit else parts.to_parts(name, merged, 1):
                    yield from to_batches(rows)

    return run
