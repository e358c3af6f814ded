"""Recent rows: values in arrival order with their times, grouped by key, in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.kernels.key_segments import scatter
from quantide.store.sorted_rows import ALL
from quantide.summary.key_encoding import encode_keys
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints

NUMBER = np.dtype(np.uint32)


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
