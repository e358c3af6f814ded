"""Sorted rows: values in the order of (key, value), each key once with where its values begin."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.kernels.segments import sample
from quantide.summary.format import Tuples
from quantide.summary.summaries import Summaries
from quantide.summary.types import ValueType

ALL = pa.array([True])  # the one key of rows without keys


def keys_to_bytes(keys: pa.Array) -> bytes:
    """Keys as an Arrow stream of one column."""
    batch = pa.record_batch([keys], ["key"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def keys_from_bytes(data: memoryview) -> pa.Array:
    return next(iter(pa.ipc.open_stream(pa.py_buffer(data)))).column(0)


@dataclass(frozen=True)
class SortedRows:
    """`values` are carried numbers; those of keys[i] are values[bounds[i]:bounds[i+1]], and rise."""

    kind: ValueType
    keys: pa.Array
    bounds: NDArray[np.int64]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.bounds)

    def summarise(self, eps: float, of: int | None = None) -> Summaries:
        """Exactly ranked values of each key, so close that every rank is within eps of the key's count (or of `of`)."""
        counts = self.counts
        allowed = np.floor(eps * (counts if of is None else np.full(len(counts), of))).astype(np.int64)
        kept, ranks, bounds = sample(self.values, self.bounds, 2 * allowed + 1)
        none = np.zeros(len(counts), dtype=np.int64)
        return Summaries(self.keys, Tuples(self.kind, kept, ranks, ranks, bounds, counts, none, none))
