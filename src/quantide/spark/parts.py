"""Parts: Summaries on their way from task to task, some thousands of keys in one row of a DataFrame.

Keys are dealt to buckets by a hash of their values, so that all parts of a key meet in one task. A row for each key
would make Spark sort and move millions of rows; a row here is a bucket of one task.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from quantide.summary.summaries import Summaries

MOST_KEYS = 1 << 17  # of one row: a row is one array of bytes in the JVM, and must stay far from its limit of 2 GB
SCHEMA = StructType(
    [
        StructField("bucket", IntegerType(), False),
        StructField("column", StringType(), False),
        StructField("part", BinaryType(), False),
    ]
)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(32)


def to_parts(column: str, held: Summaries, buckets: int) -> Iterator[dict[str, Any]]:
    """Rows of SCHEMA that hold these summaries, each key in its bucket."""
    bucket = bucket_of(held.keys, buckets)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for number in range(buckets):
        for start in range(ends[number], ends[number + 1], MOST_KEYS):
            some = held.take(order[start : min(start + MOST_KEYS, ends[number + 1])])
            yield {"bucket": pa.array([number], pa.int32()), "column": [column], "part": [_to_bytes(some)]}


def from_parts(rows: pa.Table, column: str) -> list[Summaries]:
    """The summaries of a column out of rows of SCHEMA, in the order of their bytes: the rows come in any order."""
    parts = rows.filter(pc.equal(rows["column"], column))["part"].to_pylist()
    return [Summaries.from_arrow(pa.ipc.open_stream(part).read_all()) for part in sorted(parts)]


def bucket_of(keys: pa.Array, buckets: int) -> NDArray[np.int64]:
    """A number below `buckets` for each key, the same in every process."""
    return ((_hash(keys) >> SHIFT) % np.uint64(buckets)).astype(np.int64)


def _hash(keys: pa.Array) -> NDArray[np.uint64]:
    if pa.types.is_struct(keys.type):
        mixed = np.zeros(len(keys), dtype=np.uint64)
        for i in range(keys.type.num_fields):
            mixed = mixed * MULTIPLIER + _hash(keys.field(i))
        return mixed
    if pa.types.is_integer(keys.type) and not keys.null_count:
        numbers: NDArray[np.uint64] = keys.to_numpy().astype(np.uint64)
        return numbers * MULTIPLIER
    words = keys.to_numpy(zero_copy_only=False).astype(object)
    hashed: NDArray[np.uint64] = pd.util.hash_array(words, categorize=False)
    return hashed


def _to_bytes(held: Summaries) -> bytes:
    table, sink = held.to_arrow(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
