"""Recent files: rows as they came, with their times, key by key. docs/store-format.md describes every byte.

A file holds the rows of one append, or of several that were compacted, for questions about recent windows. Each key's
rows lie together, in the order they came; `numbers` tells the order among all. Where a key (or the whole file) has so
many rows that sorting them for a question would be slow, a summary of them is stored beside, and one for each filter.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quantide.kernels.segments import scatter
from quantide.store.disk import Sink, write_file
from quantide.store.rows import ALL, SortedRows, keys_from_bytes, keys_to_bytes
from quantide.store.sections import Sections, pack
from quantide.summary.format import Tuples
from quantide.summary.grouping import sort_segments
from quantide.summary.keys import encode_keys
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType, type_named

MAGIC, VERSION = b"QTRF", 1
PART = 4  # a stored summary is within eps / PART
HEAVY = 8  # rows, times 1/eps, above which a summary is stored
INT, NUMBER, FLAG = np.dtype(np.int64), np.dtype(np.uint32), np.dtype(np.uint16)

Ints = NDArray[np.int64]
Array = NDArray[Any]


@dataclass(frozen=True)
class RecentRows:
    """Rows of keys[i] are bounds[i]:bounds[i+1], in the order they came. `numbers` is the place of each among all rows,
    None when they lie in the order they came. `flags` has a bit for each filter that a row satisfies."""

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
        """Rows in the order they came."""
        if keys is None:
            return RecentRows(kind, clock, ALL, np.array([0, len(values)]), values, times, None, flags)
        codes, distinct = encode_keys(keys)
        order, bounds = _by_key(codes, len(distinct))
        numbers, flags = order.astype(NUMBER), None if flags is None else flags[order]
        return RecentRows(kind, clock, distinct, bounds, values[order], times[order], numbers, flags)

    @staticmethod
    def joined(many: Sequence["RecentRows"]) -> "RecentRows":
        """Rows that came one after the other as one."""
        first, keyed = many[0], many[0].numbers is not None
        values, times = (np.concatenate([getattr(rows, name) for rows in many]) for name in ("values", "times"))
        flags = None if first.flags is None else np.concatenate([rows.flags for rows in many if rows.flags is not None])
        if not keyed:
            return RecentRows(first.kind, first.clock, ALL, np.array([0, len(values)]), values, times, None, flags)
        starts = np.cumsum([0, *map(len, many)])
        own = [rows.numbers for rows in many if rows.numbers is not None]
        numbers = np.concatenate([one + NUMBER.type(at) for one, at in zip(own, starts, strict=False)])
        codes, distinct = encode_keys(pa.concat_arrays([rows.keys for rows in many]))
        counts = np.concatenate([np.diff(rows.bounds) for rows in many])
        order, bounds = _by_key(np.repeat(codes, counts), len(distinct))
        flags = None if flags is None else flags[order]
        return RecentRows(first.kind, first.clock, distinct, bounds, values[order], times[order], numbers[order], flags)


def _by_key(codes: Ints, keys: int) -> tuple[Array, Ints]:
    """The order that brings the rows of each key together, as they came, and where each key's begin."""
    bounds = np.zeros(keys + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=keys), out=bounds[1:])
    return scatter(codes, np.arange(len(codes)), bounds), bounds


@dataclass(frozen=True)
class About:
    """What a recent file says of itself. Times are the numbers of its clock."""

    rows: int
    value_type: str
    clock: str
    oldest: Any
    newest: Any
    filters: list[str]


def write_recent(path: str, rows: RecentRows, filters: Sequence[str], eps: float, durable: bool) -> tuple[int, About]:
    """Write rows; the size of the file and what it says of itself."""
    oldest, newest = rows.times.min().item(), rows.times.max().item()
    about = About(len(rows), rows.kind.name, rows.clock, oldest, newest, list(filters))
    sections: dict[str, Any] = {"values": rows.values}
    if oldest != newest:
        sections["times"] = rows.times
    if rows.numbers is not None:
        sections |= {"numbers": rows.numbers, "counts": np.diff(rows.bounds), "keys": keys_to_bytes(rows.keys)}
    if filters:
        sections["flags"] = rows.flags
    if len(rows) > HEAVY / eps:
        for place in range(len(filters) + 1):
            sections |= _summaries(rows, place, eps)
    pieces = pack(MAGIC, VERSION, asdict(about), sections, ("values", "times", "numbers", "flags"))

    def fill(sink: Sink) -> None:
        for piece in pieces:
            sink.write(piece)

    return write_file(path, fill, durable)[0], about


def _summaries(rows: RecentRows, place: int, eps: float) -> dict[str, Any]:
    """The summaries of all rows, or of those that satisfy filter `place` - 1; and of each key that has many."""
    values, bounds = rows.values, rows.bounds
    if place:
        assert rows.flags is not None
        chosen = rows.flags >> (place - 1) & 1 == 1
        values, bounds = values[chosen], np.concatenate(([0], np.cumsum(chosen)))[bounds]
    if len(values) <= HEAVY / eps:
        return {}
    whole = _sampled(SortedRows(rows.kind, ALL, np.array([0, len(values)]), np.sort(values)), eps)
    out: dict[str, Any] = {
        f"total{place}": Summary(whole.values, whole.rmin, whole.rmax, len(values), rows.kind).to_bytes()
    }
    heavy = np.flatnonzero(np.diff(bounds) > HEAVY / eps) if rows.numbers is not None else np.empty(0, INT)
    if len(heavy):
        some = np.concatenate([values[bounds[i] : bounds[i + 1]] for i in heavy])
        ends = np.concatenate(([0], np.cumsum(np.diff(bounds)[heavy])))
        sort_segments(some, ends)
        kept = _sampled(SortedRows(rows.kind, rows.keys.take(pa.array(heavy)), ends, some), eps)
        arrays = {"places": heavy, "bounds": kept.bounds, "values": kept.values, "ranks": kept.rmin, "n": kept.n}
        out |= {f"heavy{place}.{name}": array for name, array in arrays.items()}
    return out


def _sampled(rows: SortedRows, eps: float) -> Tuples:
    """Exactly ranked values, close enough for a file's share of the error."""
    return rows.summarise(eps / PART).tuples


class RecentFile:
    """A recent file, read where it lies. Key None stands for all rows."""

    def __init__(self, data: Any, name: str) -> None:
        mend = "values within the window cannot be asked about; the table still has them all"
        self._held = Sections(data, MAGIC, VERSION, name, "recent file", mend)
        self.name, self.about = name, About(**self._held.about)
        self.kind = type_named(self.about.value_type)
        self.keyed = "keys" in self._held
        self.keys = keys_from_bytes(self._held.section("keys")) if self.keyed else ALL
        counts = self._held.array("counts", INT) if self.keyed else np.array([self.about.rows])
        self.bounds = np.concatenate(([0], np.cumsum(counts)))
        if self.bounds[-1] != self.about.rows or len(self.keys) != len(counts):
            raise self._held.damaged("its counts contradict each other")
        self._time_type = np.dtype(np.float64 if self.about.clock == "seconds" else np.int64)
        self._totals: dict[int, Summary | None] = {}  # summaries that were read, by the number of their filter
        self._heavies: dict[int, list[Array]] = {}

    @property
    def nbytes(self) -> int:
        """Memory of what is always held; the rest is mapped."""
        return int(self.bounds.nbytes)

    def lane(self, place: int | None) -> slice:
        """Where the rows of a key lie."""
        if place is None:
            return slice(0, self.about.rows)
        return slice(int(self.bounds[place]), int(self.bounds[place + 1]))

    def values(self, lane: slice) -> Array:
        return self._held.part("values", self.kind.carrier, lane.start, lane.stop)

    def times(self, lane: slice) -> Array:
        if "times" not in self._held:
            return np.broadcast_to(np.array(self.about.oldest, self._time_type), (lane.stop - lane.start,))
        return self._held.part("times", self._time_type, lane.start, lane.stop)

    def numbers(self, lane: slice) -> Array:
        """The place of each row among all of the file, in the order they came."""
        if not self.keyed:
            return np.arange(lane.start, lane.stop)
        return self._held.part("numbers", NUMBER, lane.start, lane.stop)

    def satisfies(self, lane: slice, filter: str) -> NDArray[np.bool_]:
        """Whether each row satisfies a filter."""
        flags = self._held.part("flags", FLAG, lane.start, lane.stop)
        chosen: NDArray[np.bool_] = flags >> self.about.filters.index(filter) & 1 == 1
        return chosen

    def summary(self, place: int | None, filter: str | None) -> Summary | None:
        """The summary of a key's rows that satisfy a filter, if there are so many that it is stored."""
        number = 0 if filter is None else self.about.filters.index(filter) + 1
        if place is None or not self.keyed:
            return self._total(number)
        if f"heavy{number}.places" not in self._held:
            return None
        places, bounds, values, ranks, counts = self._heavy(number)
        at = int(np.searchsorted(places, place))
        if at == len(places) or places[at] != place:
            return None
        part = slice(bounds[at], bounds[at + 1])
        return Summary(values[part], ranks[part], ranks[part], int(counts[at]), self.kind)

    def rows(self) -> RecentRows:
        """Everything, to be compacted with others."""
        every = self.lane(None)
        numbers = self.numbers(every) if self.keyed else None
        flags = self._held.part("flags", FLAG, 0, self.about.rows) if self.about.filters else None
        lanes = self.values(every), self.times(every)
        return RecentRows(self.kind, self.about.clock, self.keys, self.bounds, *lanes, numbers, flags)

    def check(self) -> None:
        """Look at every byte."""
        self._held.check(MAGIC, VERSION)
        times = self.times(self.lane(None))
        if self.about.rows and (times.min() != self.about.oldest or times.max() != self.about.newest):
            raise self._held.damaged("its times are not those it tells")

    def _total(self, number: int) -> Summary | None:
        if number not in self._totals:
            name = f"total{number}"
            found = Summary.from_bytes(bytes(self._held.section(name))) if name in self._held else None
            self._totals[number] = found
        return self._totals[number]

    def _heavy(self, number: int) -> list[Array]:
        if number not in self._heavies:
            types = {"places": INT, "bounds": INT, "values": self.kind.carrier, "ranks": INT, "n": INT}
            self._heavies[number] = [self._held.array(f"heavy{number}.{name}", kind) for name, kind in types.items()]
        return self._heavies[number]
