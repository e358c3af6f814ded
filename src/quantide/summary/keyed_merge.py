"""Keyed merge: summaries of every key from many parts, such as files, a range of keys at a time.

The parts have their keys in order, so that a range of keys is a slice of each. Memory is that of a range, not of all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from quantide.errors import CorruptBytesError
from quantide.summary.key_encoding import encode_keys, group_by_code
from quantide.summary.summaries import Summaries
from quantide.summary.summary_bytes import SummaryTuples
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints

MAX_RANGE = 1 << 22  # values and tuples that are merged at a time, unless one key has more


@dataclass(frozen=True)
class PartSlice:
    """Content of some keys of a part: values with the index of their key, and summaries with theirs."""

    value_keys: Ints
    values: Array
    summary_keys: Ints
    summaries: SummaryTuples | None


class KeyedSource(Protocol):
    """Part with the values or the summaries of some keys, which are in order."""

    @property
    def keys(self) -> pa.Array: ...

    @property
    def sizes(self) -> Ints:
        """Number of values or tuples of each key, at most."""

    def read(self, start: int, end: int) -> PartSlice:
        """Return the content of the keys at these indexes."""


def key_codes(parts: Sequence[KeyedSource]) -> tuple[list[Ints], pa.Array]:
    """Return the codes of the keys of each part, and all keys in order."""
    codes, distinct = encode_keys(pa.concat_arrays([part.keys for part in parts]))
    ends = np.cumsum([len(part.keys) for part in parts])
    by_part = np.split(codes, ends[:-1])
    if any((own[1:] <= own[:-1]).any() for own in by_part):
        raise CorruptBytesError("the keys of a file are not in order; verify() finds the file")
    return by_part, distinct


def merge_ranges(parts: Sequence[KeyedSource], codes: Sequence[Ints], kind: ValueType) -> Iterator[Summaries]:
    """Yield the merged summaries of ranges of keys, which are codes here; keys without values are left out."""
    sizes = np.zeros(max(int(own[-1]) for own in codes) + 1, dtype=np.int64)
    for part, own in zip(parts, codes, strict=True):
        sizes[own] += part.sizes
    for first, last in _cut_ranges(sizes):
        slices = [np.searchsorted(own, (first, last)).tolist() for own in codes]
        read = [
            (own, part.read(start, end))
            for part, own, (start, end) in zip(parts, codes, slices, strict=True)
            if start < end
        ]
        yield _merge(read, first, last, kind)


def _cut_ranges(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Yield ranges of codes, each of at most MAX_RANGE items or of one code."""
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        limit = MAX_RANGE + (int(ends[start - 1]) if start else 0)
        end = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield start, end
        start = end


def _merge(read: list[tuple[Ints, PartSlice]], first: int, last: int, kind: ValueType) -> Summaries:
    codes = np.concatenate([own[part.value_keys] for own, part in read])
    values = np.concatenate([part.values for _, part in read]).astype(kind.carrier, copy=False)
    exact = _summarise(codes - first, values, last - first, kind)
    merged = [Summaries(pa.array(exact[0] + first), exact[1])]
    for own, part in read:
        if part.summaries is not None:
            merged.append(Summaries(pa.array(own[part.summary_keys]), part.summaries))
    return Summaries.merge(*merged)


def _summarise(codes: Ints, values: Array, groups: int, kind: ValueType) -> tuple[Ints, SummaryTuples]:
    """Return the codes that occur, and a summary of all values of each."""
    grouped, bounds = group_by_code(codes, values, groups)
    counts = np.diff(bounds)
    present = np.flatnonzero(counts)
    n = counts[present]
    own_bounds = np.concatenate(([0], np.cumsum(n)))
    ranks = np.arange(1, len(grouped) + 1) - np.repeat(own_bounds[:-1], n)
    zeros = np.zeros(len(n), dtype=np.int64)
    return present, SummaryTuples(kind, grouped, ranks, ranks, own_bounds, n, zeros, zeros)
