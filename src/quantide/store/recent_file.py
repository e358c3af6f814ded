"""Recent files: rows in arrival order with their times, key by key. docs/store-format.md describes every byte.

A file contains the rows of one append, or of several after compaction, for queries about windows. If a key, or the
whole file, has so many rows that sorting them for a query would be slow, a summary of them is stored, too, and one for
each filter.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.errors import CorruptBytesError
from quantide.kernels.block_sort import sorted_copy
from quantide.store.json_fields import Fields, Read, integer, moment, one_of, sequence, text
from quantide.store.recent_manifest import MAX_FILE_ROWS, ManifestEntry
from quantide.store.section_file import PageCheck, SectionFile, pack
from quantide.store.storage import Sink, Storage
from quantide.store.store_settings import MAX_FILTERS, ErrorProfile, StoreSettings
from quantide.store.stored_rows import (
    ALL,
    NUMBER,
    RecentRows,
    SortedRows,
    keys_from_bytes,
    keys_to_bytes,
    read_type,
    value_check,
)
from quantide.summary.key_encoding import sort_segments
from quantide.summary.summary import Summary
from quantide.summary.summary_bytes import SummaryTuples, check_tuples
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints
from quantide.windows.time_clock import TimeClock

MAGIC, VERSION = b"QTRF", 1
PAGED = ("values", "times", "numbers", "flags")
EPS_DIVISOR = 4  # the error of a stored summary is eps / EPS_DIVISOR, and its tail as much smaller
HEAVY = 8  # a summary is stored for more than HEAVY / eps rows
INT, FLAG = np.dtype(np.int64), np.dtype(np.uint16)


@dataclass(frozen=True)
class RecentFileInfo:
    """Header of a recent file. Times are numbers of its clock."""

    rows: int
    value_type: str
    clock: str
    oldest: Any
    newest: Any
    filters: list[str]

    @classmethod
    def read(cls, header: Any) -> "RecentFileInfo":
        """Check and parse a header."""
        fields = Fields(header)
        clock = fields.take("clock", one_of(TimeClock.KINDS))
        reads: dict[str, Read[Any]] = {
            "rows": integer(1, MAX_FILE_ROWS),
            "value_type": text,
            "oldest": moment(clock),
            "newest": moment(clock),
            "filters": lambda value: list(sequence(text, MAX_FILTERS)(value)),
        }
        info = cls(clock=clock, **fields.take_all(reads))
        if info.oldest > info.newest or len(set(info.filters)) < len(info.filters):
            raise ValueError("its oldest time is after its newest, or a filter occurs twice")
        return info


def write_recent(
    storage: Storage,
    name: str,
    rows: RecentRows,
    filters: Sequence[str],
    profile: ErrorProfile,
    sorted_values: Array | None = None,
) -> tuple[int, RecentFileInfo]:
    """Write rows; return the size of the file and its header. `sorted_values` spares sorting them for a summary."""
    oldest, newest = rows.times.min().item(), rows.times.max().item()
    info = RecentFileInfo(len(rows), rows.kind.name, rows.clock, oldest, newest, list(filters))
    sections: dict[str, Any] = {"values": rows.values}
    if oldest != newest:
        sections["times"] = rows.times
    if rows.numbers is not None:
        sections |= {"numbers": rows.numbers, "counts": np.diff(rows.bounds), "keys": keys_to_bytes(rows.keys)}
    if filters:
        sections["flags"] = rows.flags
    if len(rows) > HEAVY / profile.eps:
        for number in range(len(filters) + 1):
            sections |= _build_summaries(rows, number, profile, sorted_values)
    buffers = pack(MAGIC, VERSION, asdict(info), sections, PAGED)

    def fill(sink: Sink) -> None:
        for buffer in buffers:
            sink.write(buffer)

    return storage.write(name, fill, checked=False)[0], info  # sections have their own checksums


def _build_summaries(
    rows: RecentRows, number: int, profile: ErrorProfile, sorted_values: Array | None = None
) -> dict[str, Any]:
    """Build a summary of all rows, or of those that satisfy filter `number` - 1, and one of each heavy key."""
    values, bounds = rows.values, rows.bounds
    if number:
        assert rows.flags is not None
        matches = rows.flags >> (number - 1) & 1 == 1
        values, bounds = values[matches], np.concatenate(([0], np.cumsum(matches)))[bounds]
    if len(values) <= HEAVY / profile.eps:
        return {}
    in_order = sorted_values if sorted_values is not None and not number else sorted_copy(values)
    total = _sample(SortedRows(rows.kind, ALL, np.array([0, len(values)]), in_order), profile)
    out: dict[str, Any] = {
        f"total{number}": Summary(total.values, total.rmin, total.rmax, len(values), rows.kind).to_bytes()
    }
    heavy = np.flatnonzero(np.diff(bounds) > HEAVY / profile.eps) if rows.numbers is not None else np.empty(0, INT)
    if len(heavy):
        heavy_values = np.concatenate([values[bounds[i] : bounds[i + 1]] for i in heavy])
        ends = np.concatenate(([0], np.cumsum(np.diff(bounds)[heavy])))
        sort_segments(heavy_values, ends)
        tuples = _sample(SortedRows(rows.kind, rows.keys.take(pa.array(heavy)), ends, heavy_values), profile)
        arrays = {
            "places": heavy,
            "bounds": tuples.bounds,
            "values": tuples.values,
            "ranks": tuples.rmin,
            "n": tuples.n,
        }
        out |= {f"heavy{number}.{name}": array for name, array in arrays.items()}
    return out


def _sample(rows: SortedRows, profile: ErrorProfile) -> SummaryTuples:
    """Sample exactly ranked values within the share of the error of a file."""
    return rows.summarise(sample_profile(profile)).tuples


def sample_profile(profile: ErrorProfile) -> ErrorProfile:
    """Return the error of the summaries of files and blocks, of which a window is made."""
    return ErrorProfile(profile.eps / EPS_DIVISOR, None if profile.tail is None else profile.tail / EPS_DIVISOR)


class RecentFile:
    """Open recent file, in memory or memory-mapped. `key_index` None stands for all rows."""

    def __init__(self, data: Any, name: str) -> None:
        remedy = "values within the window cannot be queried; the table still has them all"
        self._sections = sections = SectionFile(data, MAGIC, VERSION, name, "a recent file", remedy, PAGED)
        self.name, self.size = name, len(data)
        self.info = info = sections.parse(lambda: RecentFileInfo.read(sections.info))
        self.kind = sections.parse(lambda: read_type(info.value_type))
        self.keyed = "keys" in sections
        self.keys = sections.parse(lambda: keys_from_bytes(sections.read_section("keys"))) if self.keyed else ALL
        counts = sections.read_array("counts", INT, len(self.keys)) if self.keyed else np.array([info.rows])
        self.bounds = np.concatenate(([0], np.cumsum(counts)))
        rises = (counts > 0).all() and (self.bounds[1:] > self.bounds[:-1]).all()  # cumsum can overflow
        if not rises or self.bounds[-1] != info.rows:
            raise sections.damaged("its counts contradict each other")
        self.time_type = np.dtype(np.float64 if info.clock == "seconds" else np.int64)
        self._check_columns()
        sections.page_checks = _page_checks(info, self.kind, self.time_type)
        self._totals: dict[int, Summary | None] = {}  # cached, by the number of their filter
        self._heavies: dict[int, list[Array]] = {}

    @classmethod
    def open(
        cls, data: Any, entry: ManifestEntry, clock: str | None, settings: StoreSettings, key_type: Any
    ) -> "RecentFile":
        """Open the file of an entry of a manifest; refuse it if the entry or the settings of the store differ."""
        file = cls(data, entry.name)
        info = file.info
        own = (info.rows, info.oldest, info.newest, file.size, info.clock)
        if own != (entry.rows, entry.oldest, entry.newest, entry.size, clock):
            raise file._sections.damaged("its rows, times or size are not those in the manifest")
        if (info.value_type, tuple(info.filters)) != (settings.value_type, settings.filters):
            raise file._sections.damaged("its values or filters are not those of this store")
        if (file.keys.type if file.keyed else None) != key_type:
            raise file._sections.damaged(f"its keys are not of type {key_type}, as in this store")
        return file

    def _check_columns(self) -> None:
        """Check that each column has an item for each row. Values are checked page by page at their first read."""
        sections, rows = self._sections, self.info.rows
        sections.check_length("values", self.kind.carrier, rows)
        if "times" in sections or self.info.oldest != self.info.newest:
            sections.check_length("times", self.time_type, rows)
        if self.keyed:
            sections.check_length("numbers", NUMBER, rows)
        if self.info.filters:
            sections.check_length("flags", FLAG, rows)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays that are always loaded; the rest is memory-mapped."""
        return int(self.bounds.nbytes)

    def row_range(self, key_index: int | None) -> slice:
        """Return the rows of a key."""
        if key_index is None:
            return slice(0, self.info.rows)
        return slice(int(self.bounds[key_index]), int(self.bounds[key_index + 1]))

    def values(self, rows: slice) -> Array:
        return self._sections.read_range("values", self.kind.carrier, rows.start, rows.stop)

    def times(self, rows: slice) -> Array:
        if "times" not in self._sections:
            return np.broadcast_to(np.array(self.info.oldest, self.time_type), (rows.stop - rows.start,))
        return self._sections.read_range("times", self.time_type, rows.start, rows.stop)

    def numbers(self, rows: slice) -> Array:
        """Return the arrival number of each row within the file."""
        if not self.keyed:
            return np.arange(rows.start, rows.stop)
        return self._sections.read_range("numbers", NUMBER, rows.start, rows.stop)

    def order(self) -> Ints:
        """Return the indexes of all rows in arrival order; raise CorruptBytesError if a number occurs twice."""
        numbers = self.numbers(self.row_range(None))
        order = np.full(len(numbers), -1, dtype=np.int64)
        order[numbers] = np.arange(len(numbers))
        if (order < 0).any():
            raise self._sections.damaged("two rows have the same number")
        return order

    def satisfies(self, rows: slice, filter: str) -> NDArray[np.bool_]:
        """Return a mask of the rows that satisfy a filter."""
        flags = self._sections.read_range("flags", FLAG, rows.start, rows.stop)
        mask: NDArray[np.bool_] = flags >> self.info.filters.index(filter) & 1 == 1
        return mask

    def summary(self, key_index: int | None, filter: str | None) -> Summary | None:
        """Return the stored summary of a key's rows that satisfy a filter; None if they were too few to store one."""
        number = 0 if filter is None else self.info.filters.index(filter) + 1
        if key_index is None or not self.keyed:
            return self._read_total(number)
        if f"heavy{number}.places" not in self._sections:
            return None
        key_indexes, bounds, values, ranks, counts = self._read_heavy(number)
        i = int(np.searchsorted(key_indexes, key_index))
        if i == len(key_indexes) or key_indexes[i] != key_index:
            return None
        part = slice(bounds[i], bounds[i + 1])
        own_bounds, n, zeros = np.array([0, len(values[part])]), counts[i : i + 1], np.zeros(1, dtype=np.int64)
        check_tuples(SummaryTuples(self.kind, values[part], ranks[part], ranks[part], own_bounds, n, zeros, zeros))
        return Summary(values[part], ranks[part], ranks[part], int(n[0]), self.kind)

    def heavy_summaries(self, filter: str | None) -> tuple[Ints, SummaryTuples] | None:
        """Return the keys that have a stored summary of their rows that satisfy a filter, as indexes, and these."""
        number = 0 if filter is None else self.info.filters.index(filter) + 1
        if f"heavy{number}.places" not in self._sections:
            return None
        key_indexes, bounds, values, ranks, n = self._read_heavy(number)
        zeros = np.zeros(len(n), dtype=np.int64)
        return key_indexes, SummaryTuples(self.kind, values, ranks, ranks, bounds, n, zeros, zeros)

    def rows(self) -> RecentRows:
        """Return all rows, for compaction with those of other files."""
        everything = self.row_range(None)
        if self.keyed:
            self.order()
        numbers = self.numbers(everything) if self.keyed else None
        flags = self._sections.read_range("flags", FLAG, 0, self.info.rows) if self.info.filters else None
        columns = self.values(everything), self.times(everything)
        return RecentRows(self.kind, self.info.clock, self.keys, self.bounds, *columns, numbers, flags)

    def check(self) -> None:
        """Verify every byte."""
        self._sections.check(MAGIC, VERSION)
        self.order()
        for number in range(len(self.info.filters) + 1):
            self._read_total(number)
            if f"heavy{number}.places" in self._sections:
                self._read_heavy(number)
        times = self.times(self.row_range(None))
        if self.info.rows and (times.min() != self.info.oldest or times.max() != self.info.newest):
            raise self._sections.damaged("its times are not those of its header")

    def _read_total(self, number: int) -> Summary | None:
        if number not in self._totals:
            name, sections, total = f"total{number}", self._sections, None
            if name in sections:
                total = sections.parse(lambda: Summary.from_bytes(bytes(sections.read_section(name))))
                if total.type != self.kind or not self._fits(total.n, self.info.rows, number):
                    raise sections.damaged(f"its {name} contradicts its counts")
            self._totals[number] = total
        return self._totals[number]

    def _read_heavy(self, number: int) -> list[Array]:
        if number not in self._heavies:
            types = {"places": INT, "bounds": INT, "values": self.kind.carrier, "ranks": INT, "n": INT}
            arrays = [self._sections.read_array(f"heavy{number}.{name}", kind) for name, kind in types.items()]
            self._sections.parse(lambda: self._check_heavy(number, *arrays))
            self._heavies[number] = arrays
        return self._heavies[number]

    def _check_heavy(self, number: int, key_indexes: Ints, bounds: Ints, values: Array, ranks: Ints, n: Ints) -> None:
        """Refuse summaries of keys that do not exist, or of more rows than a key has."""
        rises = len(key_indexes) and (key_indexes[1:] > key_indexes[:-1]).all()
        if not rises or key_indexes[0] < 0 or key_indexes[-1] >= len(self.keys):
            raise CorruptBytesError("summaries of its keys contradict its counts")
        if len(n) != len(key_indexes) or len(bounds) != len(key_indexes) + 1:
            raise CorruptBytesError("summaries of its keys contradict its counts")
        zeros = np.zeros(len(n), dtype=np.int64)
        check_tuples(SummaryTuples(self.kind, values, ranks, ranks, bounds, n, zeros, zeros))
        rows = np.diff(self.bounds)[key_indexes]
        if not (n > 0).all() or not self._fits(n, rows, number):
            raise CorruptBytesError("summaries of its keys contradict its counts")

    def _fits(self, n: Any, rows: Any, number: int) -> bool:
        """Return True if counts of summaries are possible: equal to the rows, or at most as many with a filter."""
        return bool(np.all(n <= rows if number else n == rows))


def _page_checks(info: RecentFileInfo, kind: ValueType, times: np.dtype[Any]) -> dict[str, PageCheck]:
    """Return the checks of the columns. Windows select rows by the oldest and newest time, and by their numbers."""

    def fit_times(page: memoryview) -> bool:
        values = np.frombuffer(page, times)
        return bool((values >= info.oldest).all() and (values <= info.newest).all())

    return {
        "values": value_check(kind),
        "times": fit_times,
        "numbers": lambda page: bool((np.frombuffer(page, NUMBER) < info.rows).all()),
        "flags": lambda page: bool((np.frombuffer(page, FLAG) >> len(info.filters) == 0).all()),
    }
