"""Rows of a store in memory: sorted by key and value, or recent rows in arrival order, grouped by key."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import TypeMismatchError
from quantide.kernels.error_profile import sample_by_profile
from quantide.kernels.key_segments import sample, scatter
from quantide.store.store_settings import ErrorProfile
from quantide.summary.key_encoding import encode_keys
from quantide.summary.summaries import Summaries
from quantide.summary.summary_bytes import SummaryTuples, are_valid_values
from quantide.summary.value_types import ValueType, type_named
from quantide.typing import Array, Ints

ALL = pa.array([True])  # the only key of rows without keys
NUMBER = np.dtype(np.uint32)


def keys_to_bytes(keys: pa.Array) -> bytes:
    """Encode keys as an Arrow stream of one column."""
    batch = pa.record_batch([keys], ["key"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def keys_from_bytes(data: memoryview) -> pa.Array:
    """Parse keys; raise ValueError unless they are one plain, uncompressed column with all offsets in range."""
    try:
        messages = list(islice(pa.ipc.MessageReader.open_stream(pa.py_buffer(data)), 3))
        if [message.type for message in messages] != ["schema", "record batch"]:
            raise ValueError("its keys are not one batch")
        schema = pa.ipc.read_schema(messages[0])
        if len(schema) != 1 or not _is_key_type(schema.field(0).type):
            raise ValueError(f"its keys have the schema {str(schema)[:200]!r}")
        if _is_compressed(messages[1].metadata.to_pybytes()):
            raise ValueError("its keys are compressed")
        keys = pa.ipc.read_record_batch(messages[1], schema).column(0)
        keys.validate(full=True)
    except (pa.ArrowException, OSError, LookupError, struct.error) as error:
        raise ValueError(f"its keys cannot be read: {error}") from error
    return keys


def key_type(names: Sequence[str], types: Sequence[pa.DataType] | None) -> pa.DataType | None:
    """Return the type of the keys of a store with these key columns; None without any, or before the first batch."""
    if not names or types is None:
        return None
    return types[0] if len(names) == 1 else pa.struct(list(zip(names, types, strict=True)))


def read_type(name: str) -> ValueType:
    """Return the value type that a file names; raise ValueError if it is unknown."""
    try:
        return type_named(name)
    except TypeMismatchError as error:
        raise ValueError(str(error)) from error


def value_check(kind: ValueType) -> Callable[[memoryview], bool]:
    """Return a check of a page of values: no NaN, nothing out of range."""
    return lambda page: are_valid_values(np.frombuffer(page, kind.carrier), kind)


def _is_key_type(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_plain(field.type) for field in kind)
    return _is_plain(kind)


def _is_plain(kind: pa.DataType) -> bool:
    """Return True for types without nesting or indirection: arrays cannot be larger than their bytes."""
    t = pa.types
    tests = (t.is_integer, t.is_floating, t.is_boolean, t.is_date, t.is_timestamp, t.is_decimal)
    return any(test(kind) for test in (*tests, t.is_string, t.is_large_string, t.is_binary, t.is_large_binary))


def _is_compressed(metadata: bytes) -> bool:
    """Return True if a record batch has the field `compression`: then its buffers could expand to any length.

    Arrow has no function for this. Metadata is a flatbuffer: a table points back to a list of the offsets of its
    fields; field 2 of the message is the batch, and field 3 of the batch is the compression.
    """

    def field(table: int, index: int) -> int:
        fields = table - struct.unpack_from("<i", metadata, table)[0]
        (size,) = struct.unpack_from("<H", metadata, fields)
        offset = 4 + 2 * index
        return int(struct.unpack_from("<H", metadata, fields + offset)[0]) if offset < size else 0

    (message,) = struct.unpack_from("<I", metadata)
    header = message + field(message, 2)
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return field(batch, 3) != 0


def is_same_key(keys: pa.Array, following: pa.Array) -> bool:
    """Return True if the last key of one directory is the first one of the next: a key can continue there."""
    if not len(keys) or not len(following):
        return False
    return len(encode_keys(pa.concat_arrays([keys.slice(len(keys) - 1), following.slice(0, 1)]))[1]) == 1


@dataclass(frozen=True)
class SortedRows:
    """Rows of keys[i] are values[bounds[i]:bounds[i+1]], ascending; `values` have the carrier type."""

    kind: ValueType
    keys: pa.Array
    bounds: NDArray[np.int64]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.bounds)

    def slice(self, start: int, end: int) -> "SortedRows":
        """Return rows start to end; there is at least one."""
        first = int(np.searchsorted(self.bounds, start, side="right")) - 1
        last = int(np.searchsorted(self.bounds, end, side="left"))
        bounds = np.clip(self.bounds[first : last + 1], start, end) - start
        return SortedRows(self.kind, self.keys.slice(first, last - first), bounds, self.values[start:end])

    def follow_with(self, following: "SortedRows") -> "SortedRows":
        """Return these rows and those that follow them in the order of (key, value)."""
        continues = is_same_key(self.keys, following.keys)
        bounds = np.concatenate((self.bounds[: -1 if continues else None], following.bounds[1:] + len(self)))
        keys = pa.concat_arrays([self.keys, following.keys.slice(int(continues))])
        return SortedRows(self.kind, keys, bounds, np.concatenate((self.values, following.values)))

    def summarise(self, profile: ErrorProfile, of: int | None = None) -> Summaries:
        """Sample exactly ranked values of each key, so that each rank is within eps of the key's count (or of `of`).

        With a tail, each rank is also within that fraction of its distance from either end of the key's values.
        """
        counts = self.counts
        allowed = np.floor(profile.eps * (counts if of is None else np.full(len(counts), of))).astype(np.int64)
        if profile.tail is None:
            values, ranks, bounds = sample(self.values, self.bounds, 2 * allowed + 1)
        else:
            values, ranks, bounds = sample_by_profile(self.values, self.bounds, 2 * allowed, 2 * profile.tail)
        zeros = np.zeros(len(counts), dtype=np.int64)
        return Summaries(self.keys, SummaryTuples(self.kind, values, ranks, ranks, bounds, counts, zeros, zeros))


@dataclass(frozen=True)
class RecentRows:
    """Rows in arrival order; those of keys[i] are bounds[i]:bounds[i+1].

    `numbers` is the arrival number of each row, None if the rows are not grouped by key. `flags` has a bit for each
    filter that a row satisfies.
    """

    kind: ValueType
    clock: str
    keys: pa.Array
    bounds: Ints
    values: Array
    times: Array
    numbers: NDArray[np.uint32] | None
    flags: NDArray[np.uint16] | None

    def __len__(self) -> int:
        return len(self.values)

    @staticmethod
    def of(
        kind: ValueType, clock: str, keys: pa.Array | None, values: Array, times: Array, flags: Array | None
    ) -> "RecentRows":
        """Group rows in arrival order by key."""
        if keys is None:
            return RecentRows(kind, clock, ALL, np.array([0, len(values)]), values, times, None, flags)
        codes, distinct = encode_keys(keys)
        order, bounds = _group_by_key(codes, len(distinct))
        numbers, flags = order.astype(NUMBER), None if flags is None else flags[order]
        return RecentRows(kind, clock, distinct, bounds, values[order], times[order], numbers, flags)

    @staticmethod
    def concatenate(many: Sequence["RecentRows"]) -> "RecentRows":
        """Concatenate rows that arrived one after the other."""
        first, keyed = many[0], many[0].numbers is not None
        values, times = (np.concatenate([getattr(rows, name) for rows in many]) for name in ("values", "times"))
        flags = None if first.flags is None else np.concatenate([rows.flags for rows in many if rows.flags is not None])
        if not keyed:
            return RecentRows(first.kind, first.clock, ALL, np.array([0, len(values)]), values, times, None, flags)
        starts = np.cumsum([0, *map(len, many)])
        parts = [rows.numbers for rows in many if rows.numbers is not None]
        numbers = np.concatenate([part + NUMBER.type(start) for part, start in zip(parts, starts, strict=False)])
        codes, distinct = encode_keys(pa.concat_arrays([rows.keys for rows in many]))
        counts = np.concatenate([np.diff(rows.bounds) for rows in many])
        order, bounds = _group_by_key(np.repeat(codes, counts), len(distinct))
        flags = None if flags is None else flags[order]
        return RecentRows(first.kind, first.clock, distinct, bounds, values[order], times[order], numbers[order], flags)

    def select(self, mask: NDArray[np.bool_]) -> "RecentRows":
        """Return the rows for which a mask is True, renumbered."""
        order = np.arange(len(self)) if self.numbers is None else np.argsort(self.numbers)
        order = order[mask[order]]
        keys = None
        if self.numbers is not None:
            codes = np.repeat(np.arange(len(self.keys)), np.diff(self.bounds))
            keys = self.keys.take(pa.array(codes[order]))
        flags = None if self.flags is None else self.flags[order]
        return RecentRows.of(self.kind, self.clock, keys, self.values[order], self.times[order], flags)


def _group_by_key(codes: Ints, keys: int) -> tuple[Array, Ints]:
    """Return the order that groups rows by key, in arrival order, and the bounds of the keys."""
    bounds = np.zeros(keys + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=keys), out=bounds[1:])
    return scatter(codes, np.arange(len(codes)), bounds), bounds
