"""Index files: key directory, block index and summaries of a data file. docs/store-format.md describes every byte.

A section file. The directory (keys, counts, first values of blocks) is read when a store is opened; the summaries,
which can be large with many keys, are memory-mapped and read by the queries that need them. A process cannot map as
many files as a table has, so a file that is not in use is released, and mapped again when it is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.store.data_file import MAX_BLOCK_ROWS
from quantide.store.json_fields import Fields, Read, integer, sequence, text
from quantide.store.section_file import SectionFile
from quantide.store.stored_rows import ALL, keys_from_bytes, read_type, value_check
from quantide.summary.ranks import MAX_N
from quantide.summary.summaries import Summaries
from quantide.summary.summary import Summary
from quantide.summary.summary_bytes import SummaryTuples, are_valid_values, check_tuples
from quantide.summary.value_types import ValueType

MAGIC = b"QTSF"
VERSION = 1
PAGED = ("values", "ranks")
INT = np.dtype(np.int64)


@dataclass(frozen=True)
class IndexFileInfo:
    """Header: the origin of the rows of a data file, and the size and checksum of that file."""

    rows: int
    value_type: str
    block_rows: int
    data_size: int
    data_crc: int
    nulls: int = 0
    nans: int = 0
    sources: list[str] = field(default_factory=list)  # ids of batches, names of files

    @classmethod
    def read(cls, header: Any) -> "IndexFileInfo":
        """Check and parse a header."""
        reads: dict[str, Read[Any]] = {
            "rows": integer(1, MAX_N),
            "value_type": text,
            "block_rows": integer(1, MAX_BLOCK_ROWS),
            "data_size": integer(),
            "data_crc": integer(0, 2**32 - 1),
            "nulls": integer(0, MAX_N),
            "nans": integer(0, MAX_N),
            "sources": lambda value: list(sequence(text)(value)),
        }
        return cls(**Fields(header).take_all(reads, ("nulls", "nans", "sources")))


class IndexFile:
    """Open index file. Every number in it is checked before it is used as a length or an index."""

    def __init__(self, data: Any, name: str = "index file") -> None:
        remedy = "remove it, and it is rebuilt from its data file"
        self._sections = sections = SectionFile(data, MAGIC, VERSION, name, "an index file", remedy, PAGED)
        self.info = sections.parse(lambda: IndexFileInfo.read(sections.info))
        self.kind: ValueType = sections.parse(lambda: read_type(self.info.value_type))
        sections.page_checks = {"values": value_check(self.kind)}
        self.keyed = "keys" in sections
        self.keys = sections.parse(self._read_keys) if self.keyed else ALL
        self.counts = sections.read_array("counts", INT, len(self.keys)).copy()
        blocks = -(-self.info.rows // self.info.block_rows)
        self.fences = sections.read_array("fences", self.kind.carrier, blocks).copy()
        self.first_rows = np.concatenate(([0], np.cumsum(self.counts)))
        rises = (self.counts > 0).all() and (self.first_rows[1:] > self.first_rows[:-1]).all()  # cumsum can overflow
        if not rises or self.first_rows[-1] != self.info.rows:
            raise sections.damaged("its counts contradict each other")
        if not are_valid_values(self.fences, self.kind):
            raise sections.damaged(f"a first value of a block is not a {self.kind}")

    def _read_keys(self) -> Any:
        return keys_from_bytes(memoryview(bytes(self._sections.read_section("keys"))))

    def release(self, reopen: Callable[[], Any]) -> None:
        """Let go of the content of the file; `reopen` returns it again."""
        self._sections.release(reopen)

    def check_belongs(self, value_type: str, key_type: Any) -> None:
        """Refuse the index file of another store; `key_type` is None for a store without keys."""
        if self.kind.name != value_type or (self.keys.type if self.keyed else None) != key_type:
            raise self._sections.damaged(f"it is not about values of {value_type} with keys of {key_type}")

    @cached_property
    def tuples(self) -> SummaryTuples:
        """Summaries of all keys."""
        length = int(self._bounds[-1])
        ranks = self._sections.read_array("ranks", INT, length)
        zeros = np.zeros(len(self.counts), dtype=np.int64)
        values = self._sections.read_array("values", self.kind.carrier, length)
        return self._check_tuples(
            SummaryTuples(self.kind, values, ranks, ranks, self._bounds, self.counts, zeros, zeros)
        )

    @property
    def total(self) -> Summary:
        """Summary of all rows, read each time."""
        if not self.keyed:
            return self.read_summary(0)
        total = self._sections.parse(lambda: Summary.from_bytes(bytes(self._sections.read_section("total"))))
        if total.n != self.info.rows or total.type != self.kind:
            raise self._sections.damaged("its total contradicts its counts")
        return total

    def read_summary(self, key_index: int) -> Summary:
        """Return the summary of a key; only its own tuples are read and checked."""
        t = self.read_summaries(key_index, key_index + 1)
        return Summary(t.values, t.rmin, t.rmax, int(t.n[0]), self.kind)

    def read_summaries(self, start: int, end: int) -> SummaryTuples:
        """Return the summaries of a range of keys; only their tuples are read and checked."""
        bounds = self._bounds[start : end + 1]
        ranks = self._sections.read_range("ranks", INT, bounds[0], bounds[-1]).copy()
        values = self._sections.read_range("values", self.kind.carrier, bounds[0], bounds[-1]).copy()
        zeros = np.zeros(end - start, dtype=np.int64)
        return self._check_tuples(
            SummaryTuples(self.kind, values, ranks, ranks, bounds - bounds[0], self.counts[start:end], zeros, zeros)
        )

    @property
    def tuple_counts(self) -> NDArray[np.int64]:
        """Number of tuples of the summary of each key."""
        return np.diff(self._bounds)

    def read_min_max(self, key_index: int) -> tuple[Any, Any]:
        """Return the minimum and maximum of a key, in the carrier type."""
        start, end = self._bounds[key_index], self._bounds[key_index + 1]
        first, last = (self._sections.read_range("values", self.kind.carrier, i, i + 1)[0] for i in (start, end - 1))
        return first, last

    def read_all_min_max(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the minimum and maximum of every key, in the carrier type."""
        bounds = self._bounds
        values = self._sections.read_array("values", self.kind.carrier, int(bounds[-1]))
        return values[bounds[:-1]], values[bounds[1:] - 1]

    def read_fences(self, key_index: int) -> tuple[NDArray[np.int64], NDArray[Any], Any]:
        """Return the blocks with rows of a key, its first value in each, and its last value: all in order."""
        size, start, end = self.info.block_rows, int(self.first_rows[key_index]), int(self.first_rows[key_index + 1])
        blocks = np.arange(start // size, (end - 1) // size + 1)
        first, last = self.read_min_max(key_index)
        fences = self.fences[blocks].copy()
        fences[0] = first  # the block may begin with another key
        if not (fences[1:] >= fences[:-1]).all() or not fences[-1] <= last:
            raise self._sections.damaged("the first values of its blocks are not in order")
        return blocks, fences, last

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        """Start of the tuples of each key, and the end."""
        bounds = self._sections.read_array("bounds", INT, len(self.counts) + 1).copy()
        if bounds[0] != 0 or not (bounds[1:] > bounds[:-1]).all():
            raise self._sections.damaged("its bounds contradict its counts")
        for name, kind in (("values", self.kind.carrier), ("ranks", INT)):
            self._sections.check_length(name, kind, int(bounds[-1]))
        return bounds

    def _check_tuples(self, tuples: SummaryTuples) -> SummaryTuples:
        def check() -> SummaryTuples:
            check_tuples(tuples)
            return tuples

        return self._sections.parse(check)

    def check(self) -> None:
        """Verify everything, also the sections that are not read at opening."""
        summaries = Summaries(self.keys, self.tuples)
        if self.total.n != self.info.rows or not (np.diff(summaries.offsets) > 0).all():
            raise self._sections.damaged("its summaries contradict its counts")
        self._sections.check(MAGIC, VERSION)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays that are always loaded."""
        return int(self.counts.nbytes + self.fences.nbytes + self.first_rows.nbytes + self.keys.nbytes)
