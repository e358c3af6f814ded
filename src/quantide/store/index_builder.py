"""Index builder: makes the index file of sorted rows that arrive in pieces, such as the ranges of a compaction."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.kernels.error_profile import ROUNDING, ranks_in_range
from quantide.store.index_file import MAGIC, PAGED, VERSION, IndexFileInfo
from quantide.store.section_file import pack
from quantide.store.store_settings import ErrorProfile
from quantide.store.stored_rows import SortedRows, is_same_key, keys_to_bytes
from quantide.summary.summaries import Summaries
from quantide.summary.summary_bytes import SummaryTuples
from quantide.summary.value_types import ValueType


class IndexBuilder:
    """Builds the index file of rows that are added piece by piece, in the order of (key, value).

    A key may continue in the next piece. Its summary then has the samples of each piece, with the rows of the key in
    earlier pieces added to their ranks: docs/guarantees/history.md.

    `run_rows` are the rows of the run, and `before` those of its earlier files. If that is not known, the ends of a
    piece count as ends of the run, which takes more samples than the profile needs.
    """

    def __init__(
        self, keyed: bool, profile: ErrorProfile, block_rows: int, run_rows: int | None, before: int | None = None
    ) -> None:
        self._keyed, self._profile, self._block_rows = keyed, profile, block_rows
        self._run_rows, self._before = run_rows, before
        self.rows = 0
        self._kind: ValueType | None = None
        self._keys: list[Any] = []
        self._fences: list[NDArray[Any]] = []
        self._values: list[NDArray[Any]] = []
        self._ranks: list[NDArray[np.int64]] = []
        self._counts: list[NDArray[np.int64]] = []  # of keys; the last one may grow
        self._bounds = [np.zeros(1, dtype=np.int64)]  # of the tuples of each key

    def add(self, rows: SortedRows) -> None:
        """Add the next piece."""
        self._kind = rows.kind
        self._fences.append(rows.values[-self.rows % self._block_rows :: self._block_rows].copy())
        if not self._keyed and self._run_rows is not None and self._before is not None:
            self._add_sample(rows, self._before, self._run_rows)
        else:
            self._add_tuples(rows, rows.summarise(self._profile, None if self._keyed else self._run_rows).tuples)
        self.rows += len(rows)

    def _add_sample(self, rows: SortedRows, before: int, run_rows: int) -> None:
        """Sample rows of a run without keys, by their distance from both ends of the run."""
        first, tail = before + self.rows + 1, self._profile.tail
        limit = 2 * math.floor(self._profile.eps * run_rows)
        slope = -1.0 if tail is None else 2 * tail * ROUNDING
        ranks = ranks_in_range(first, first + len(rows) - 1, run_rows, limit, slope) - (first - 1)
        bounds, zeros, counts = np.array([0, len(ranks)]), np.zeros(1, dtype=np.int64), np.array([len(rows)])
        values = rows.values[ranks - 1]
        self._add_tuples(rows, SummaryTuples(rows.kind, values, ranks, ranks, bounds, counts, zeros, zeros))

    def _add_tuples(self, rows: SortedRows, tuples: SummaryTuples) -> None:
        continues = bool(self._keys) and is_same_key(self._keys[-1], rows.keys)
        ranks, counts, ends = tuples.rmin, tuples.n, tuples.bounds[1:] + self._bounds[-1][-1]
        if continues:
            ranks, earlier = ranks.copy(), self._counts[-1]
            ranks[: tuples.bounds[1]] += earlier[-1]
            self._counts[-1] = np.append(earlier[:-1], earlier[-1] + counts[0])
            self._bounds[-1] = self._bounds[-1][:-1]
            counts = counts[1:]
        if len(counts):
            self._counts.append(counts)
            self._keys.append(rows.keys.slice(int(continues)))
        self._values.append(tuples.values)
        self._ranks.append(ranks)
        self._bounds.append(ends)

    def finish(self, info: IndexFileInfo) -> bytes:
        """Return the bytes of the index file. The error of the total over keys may be twice that of the profile, and
        its tail one and a half times.
        """
        assert self._kind is not None  # a file has rows
        counts, ranks, values, bounds = map(_concatenate, (self._counts, self._ranks, self._values, self._bounds))
        zeros = np.zeros(len(counts), dtype=np.int64)
        tuples = SummaryTuples(self._kind, values, ranks, ranks, bounds, counts, zeros, zeros)
        sections = {
            "counts": counts.tobytes(),
            "fences": _concatenate(self._fences).tobytes(),
            "bounds": bounds.tobytes(),
            "values": values.tobytes(),
            "ranks": ranks.tobytes(),
        }
        if self._keyed:
            keys = pa.concat_arrays(self._keys)  # a copy: slices would be written with bytes of keys beside them
            sections["keys"] = keys_to_bytes(keys)
            share = None if self._profile.tail is None else self._profile.tail / 2
            total = Summaries(keys, tuples).total().compress(math.ceil(1 / (2 * self._profile.eps)), share)
            sections["total"] = total.to_bytes()
        return b"".join(pack(MAGIC, VERSION, info.__dict__, sections, PAGED))


def _concatenate(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
