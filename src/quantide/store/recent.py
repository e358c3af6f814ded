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

from quantide.errors import CorruptBytesError
from quantide.kernels.segments import scatter
from quantide.store.disk import Sink, write_file
from quantide.store.fields import Fields, Read, integer, moment, one_of, sequence, text
from quantide.store.manifest import MOST_ROWS, Entry
from quantide.store.rows import ALL, SortedRows, keys_from_bytes, keys_to_bytes, read_type, values_check
from quantide.store.sections import PageCheck, Sections, pack
from quantide.store.settings import MOST_FILTERS, Settings
from quantide.summary.format import Tuples, check_tuples
from quantide.summary.grouping import sort_segments
from quantide.summary.keys import encode_keys
from quantide.summary.summary import Summary
from quantide.summary.types import ValueType
from quantide.windows.clock import Clock

MAGIC, VERSION = b"QTRF", 1
PAGED = ("values", "times", "numbers", "flags")
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

    def selected(self, mask: NDArray[np.bool_]) -> "RecentRows":
        """Those rows for which a mask is true, as if the others had not come."""
        order = np.arange(len(self)) if self.numbers is None else np.argsort(self.numbers)
        order = order[mask[order]]
        keys = None
        if self.numbers is not None:
            codes = np.repeat(np.arange(len(self.keys)), np.diff(self.bounds))
            keys = self.keys.take(pa.array(codes[order]))
        flags = None if self.flags is None else self.flags[order]
        return RecentRows.of(self.kind, self.clock, keys, self.values[order], self.times[order], flags)


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

    @classmethod
    def read(cls, found: Any) -> "About":
        """Check what a header says."""
        fields = Fields(found)
        clock = fields.take("clock", one_of(Clock.KINDS))
        reads: dict[str, Read[Any]] = {
            "rows": integer(1, MOST_ROWS),
            "value_type": text,
            "oldest": moment(clock),
            "newest": moment(clock),
            "filters": lambda found: list(sequence(text, MOST_FILTERS)(found)),
        }
        about = cls(clock=clock, **fields.take_all(reads))
        if about.oldest > about.newest or len(set(about.filters)) < len(about.filters):
            raise ValueError("its oldest time is after its newest, or a filter stands twice")
        return about


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
    pieces = pack(MAGIC, VERSION, asdict(about), sections, PAGED)

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
        self._held = held = Sections(data, MAGIC, VERSION, name, "recent file", mend, PAGED)
        self.name, self.size = name, len(data)
        self.about = about = held.parse(lambda: About.read(held.about))
        self.kind = held.parse(lambda: read_type(about.value_type))
        self.keyed = "keys" in held
        self.keys = held.parse(lambda: keys_from_bytes(held.section("keys"))) if self.keyed else ALL
        counts = held.array("counts", INT, len(self.keys)) if self.keyed else np.array([about.rows])
        self.bounds = np.concatenate(([0], np.cumsum(counts)))
        rises = (counts > 0).all() and (self.bounds[1:] > self.bounds[:-1]).all()  # sums can overflow
        if not rises or self.bounds[-1] != about.rows:
            raise held.damaged("its counts contradict each other")
        self._time_type = np.dtype(np.float64 if about.clock == "seconds" else np.int64)
        self._check_columns()
        held.page_checks = _page_checks(about, self.kind, self._time_type)
        self._totals: dict[int, Summary | None] = {}  # summaries that were read, by the number of their filter
        self._heavies: dict[int, list[Array]] = {}

    @classmethod
    def open(cls, data: Any, entry: Entry, clock: str | None, settings: Settings, key_type: Any) -> "RecentFile":
        """The file of an entry of a manifest; refuses one that the entry, or the store, does not describe."""
        file = cls(data, entry.name)
        about = file.about
        own = (about.rows, about.oldest, about.newest, file.size, about.clock)
        if own != (entry.rows, entry.oldest, entry.newest, entry.size, clock):
            raise file._held.damaged("its rows, times or size are not those that the manifest tells")
        if (about.value_type, tuple(about.filters)) != (settings.value_type, settings.filters):
            raise file._held.damaged("its values or filters are not those of this store")
        if (file.keys.type if file.keyed else None) != key_type:
            raise file._held.damaged(f"its keys are not of type {key_type}, as in this store")
        return file

    def _check_columns(self) -> None:
        """A column has a number for each row. What it holds is checked page by page, when it is read."""
        held, rows = self._held, self.about.rows
        held.check_length("values", self.kind.carrier, rows)
        if "times" in held or self.about.oldest != self.about.newest:
            held.check_length("times", self._time_type, rows)
        if self.keyed:
            held.check_length("numbers", NUMBER, rows)
        if self.about.filters:
            held.check_length("flags", FLAG, rows)

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

    def order(self) -> Ints:
        """Where the rows lie, in the order they came: each of them once."""
        numbers = self.numbers(self.lane(None))
        order = np.full(len(numbers), -1, dtype=np.int64)
        order[numbers] = np.arange(len(numbers))
        if (order < 0).any():
            raise self._held.damaged("two rows have the same number")
        return order

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
        own, n, none = np.array([0, len(values[part])]), counts[at : at + 1], np.zeros(1, dtype=np.int64)
        check_tuples(Tuples(self.kind, values[part], ranks[part], ranks[part], own, n, none, none))
        return Summary(values[part], ranks[part], ranks[part], int(n[0]), self.kind)

    def rows(self) -> RecentRows:
        """Everything, to be compacted with others."""
        every = self.lane(None)
        if self.keyed:
            self.order()
        numbers = self.numbers(every) if self.keyed else None
        flags = self._held.part("flags", FLAG, 0, self.about.rows) if self.about.filters else None
        lanes = self.values(every), self.times(every)
        return RecentRows(self.kind, self.about.clock, self.keys, self.bounds, *lanes, numbers, flags)

    def check(self) -> None:
        """Look at every byte."""
        self._held.check(MAGIC, VERSION)
        self.order()
        for number in range(len(self.about.filters) + 1):
            self._total(number)
            if f"heavy{number}.places" in self._held:
                self._heavy(number)
        times = self.times(self.lane(None))
        if self.about.rows and (times.min() != self.about.oldest or times.max() != self.about.newest):
            raise self._held.damaged("its times are not those it tells")

    def _total(self, number: int) -> Summary | None:
        if number not in self._totals:
            name, held = f"total{number}", self._held
            found = held.parse(lambda: Summary.from_bytes(bytes(held.section(name)))) if name in held else None
            if found is not None and (found.type != self.kind or not self._fits(found.n, self.about.rows, number)):
                raise held.damaged(f"its {name} contradicts its counts")
            self._totals[number] = found
        return self._totals[number]

    def _heavy(self, number: int) -> list[Array]:
        if number not in self._heavies:
            types = {"places": INT, "bounds": INT, "values": self.kind.carrier, "ranks": INT, "n": INT}
            found = [self._held.array(f"heavy{number}.{name}", kind) for name, kind in types.items()]
            self._held.parse(lambda: self._check_heavy(number, *found))
            self._heavies[number] = found
        return self._heavies[number]

    def _check_heavy(self, number: int, places: Ints, bounds: Ints, values: Array, ranks: Ints, n: Ints) -> None:
        """Refuse summaries of keys that there are not, or of more rows than a key has."""
        rises = len(places) and (places[1:] > places[:-1]).all() and places[0] >= 0 and places[-1] < len(self.keys)
        if not rises or len(n) != len(places) or len(bounds) != len(places) + 1:
            raise CorruptBytesError("summaries of its keys contradict its counts")
        none = np.zeros(len(n), dtype=np.int64)
        check_tuples(Tuples(self.kind, values, ranks, ranks, bounds, n, none, none))
        rows = np.diff(self.bounds)[places]
        if not (n > 0).all() or not self._fits(n, rows, number):
            raise CorruptBytesError("summaries of its keys contradict its counts")

    def _fits(self, n: Any, rows: Any, number: int) -> bool:
        """Return True if summaries can be of so many rows: of all of them, or of those that satisfy a filter."""
        return bool(np.all(n <= rows if number else n == rows))


def _page_checks(about: About, kind: ValueType, times: np.dtype[Any]) -> dict[str, PageCheck]:
    """What the columns may hold. Windows take rows by the oldest and newest time, and by their numbers."""

    def fit_times(page: memoryview) -> bool:
        found = np.frombuffer(page, times)
        return bool((found >= about.oldest).all() and (found <= about.newest).all())

    return {
        "values": values_check(kind),
        "times": fit_times,
        "numbers": lambda page: bool((np.frombuffer(page, NUMBER) < about.rows).all()),
        "flags": lambda page: bool((np.frombuffer(page, FLAG) >> len(about.filters) == 0).all()),
    }
