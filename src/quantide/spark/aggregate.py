"""Aggregate: tasks summarise, only summaries are shuffled, and merging is a tree."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from quantide.spark.partials import MERGE, Request, keys_of, merge_within, summarise, to_batch
from quantide.spark.rows import Batches, Rows, Tables, gather, to_batches
from quantide.summary.summaries import Summaries

Emit = Callable[[str, Summaries], dict[str, Any]]

WIDE = 64  # partials without keys that are merged by one task


def partial_schema(keys: Sequence[DataType]) -> StructType:
    """A row of partials: its keys, of these types, the column it is of, the summary."""
    named = [StructField(f"key{i}", kind) for i, kind in enumerate(keys)]
    fields = [StructField("column", StringType(), False), StructField("summary", BinaryType(), False)]
    return StructType([*named, *fields])


def summarise_rows(rows: Rows, request: Request, schema: StructType) -> DataFrame:
    """The partials of all tasks."""

    def work(tables: Tables) -> Iterator[dict[str, Any]]:
        found = summarise(tables, request)
        if found:
            yield to_batch(found, request.keys)

    return rows.map(work, schema)


def merge_partials(partials: DataFrame, tasks: int, request: Request, emit: Emit, schema: StructType) -> DataFrame:
    """Partials of the same key and column become one summary, and that what `emit` makes of it.

    With keys, Spark brings each key's partials together. Without, they are merged by about the square root of
    their number of tasks, and then by one.
    """
    if request.by:
        together = partials.repartition(*request.keys)
        return together.mapInArrow(_merger(request, emit), schema)
    if tasks == 0 or tasks > WIDE:
        width = math.ceil(math.sqrt(tasks)) if tasks else int(math.sqrt(WIDE))
        partials = partials.repartition(width).mapInArrow(_merger(request, None), partials.schema)
    return partials.repartition(1).mapInArrow(_merger(request, emit), schema)


def _merger(request: Request, emit: Emit | None) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        table = gather(batches)
        if table is None:
            if request.by or emit is None:
                return
            table = pa.table(to_batch(summarise([], request), ()))  # no rows at all: still an answer, of n = 0
        for name in request.columns:
            # In the order of their bytes: they come in any order, and of equal values the first part's goes first.
            rows = table.filter(pc.equal(table["column"], name)).sort_by("summary")
            if len(rows):
                parts = Summaries.from_binary(keys_of(rows, request.keys), rows["summary"])
                merged = merge_within(parts, request.eps, MERGE)
                yield from to_batches(emit(name, merged) if emit else to_batch({name: merged}, request.keys))

    return run
