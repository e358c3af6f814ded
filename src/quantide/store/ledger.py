"""The ledger: which source data is in the store, batch by batch.

A batch's record is written before the batch is committed, and named after it; it counts when the table knows that
batch, so both become true at once. Records of batches that were never committed are garbage.

Records become one file, the base, when a new checkpoint begins, and now and then where batches have no files. A source
file that is gone from its folder is left out of the second base after that, so the ledger grows with the files that are
there, and not with all that ever were.
"""

import json
import os
import re
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from quantide.errors import CorruptBytesError, StorageError
from quantide.store import faults
from quantide.store.disk import remove, sync, write_bytes
from quantide.store.fields import (
    MOST_INT,
    MOST_JSON,
    Fields,
    Read,
    integer,
    mapping,
    number,
    one_of,
    optional,
    parse_json,
    sequence,
    text,
)
from quantide.store.ledger_base import NAME as BASE
from quantide.store.ledger_base import read_base, write_base
from quantide.store.names import QUARANTINE, RECORDS, is_held_file, without_spare
from quantide.store.place import open_regular

DONE, WAITING, HELD = "done", "waiting", "quarantined"
MISSING = "it is gone from its folder"  # the reason of a file that is in the store, and that a base marks
RETRY = "retry"  # the source of batches that try files again
GONE = 100_000  # files that were removed after they were taken and are still known
FOLD = 256  # records that are put into one file
BATCHES = 64  # whose newest times are kept
NOTHING: dict[str, Any] = {"rows": 0, "bad": 0, "ahead": 0, "newest": None, "settled": ()}  # of a folded batch
_NAME = re.compile(r"([a-z0-9]{1,64})-(0|[1-9][0-9]{0,17})(?:-(0|[1-9][0-9]{0,17}))?\.jsonl")


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when it was read; another size or time, another file. The time is in milliseconds."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class Entry:
    """What became of a file: its rows are in the store, it waits to be tried again, or it is in quarantine."""

    file: SourceFile
    state: str = DONE
    reason: str = ""
    bad: int = 0


@dataclass(frozen=True)
class Record:
    """A batch: number `number` of a source. `order` grows over all sources."""

    source: str
    number: int
    order: int = 0
    at: float = 0.0
    rows: int = 0
    bad: int = 0
    newest: float | None = None
    origin: tuple[int, int, str] | None = None
    offsets: str = ""
    types: dict[str, str] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    ahead: int = 0  # of the bad rows those whose time is too far ahead of the clock
    config: str = ""
    """Fingerprint of the settings that the batch was read by."""
    entries: tuple[Entry, ...] = ()

    def to_lines(self) -> bytes:
        head = {name: value for name, value in asdict(self).items() if name != "entries"}
        rest = [[*asdict(e.file).values(), e.state, e.reason, e.bad] for e in self.entries]
        return "".join(json.dumps(line) + "\n" for line in (head, *rest)).encode()


class Ledger:
    """The committed records of a store, folded: what is done, what waits, what is in quarantine."""

    def __init__(self, folder: str, seen: Callable[[tuple[str, int]], bool], durable: bool = False) -> None:
        self._place, self._store = os.path.join(folder, RECORDS), folder
        self._seen, self._durable = seen, durable
        self.last: dict[str, int] = {}
        self.waiting: dict[str, Entry] = {}
        self.quarantined: dict[str, Entry] = {}
        self.held: dict[str, Record] = {}  # files of bad rows, and the batch they came with
        self.held_by: dict[str, str] = {}  # settings by which files came into quarantine, by path
        self.taken: dict[str, SourceFile] = {}  # files in the store as they were when they were read, by path
        self._came_with: dict[str, Record] = {}  # the batches of files that wait or are in quarantine
        self.newest: float | None = None
        self.newest_times: deque[tuple[float, float]] = deque(maxlen=BATCHES)  # when a batch came, and its newest time
        self.at = 0.0  # when the newest batch was taken in, by the clock of its machine
        self.origin: tuple[int, int, str] | None = None
        self.offsets = ""
        self.types: dict[str, str] = {}
        self.rows = self.bad = self.ahead = self._order = 0
        self._known: dict[str, set[SourceFile]] = {}
        self._base: dict[str, Entry] = {}  # files that were taken before the base was made, by path
        self.checkpoint, self._base_order, base = read_base(self._place)
        for head, files in base:
            entries = tuple(Entry(SourceFile(*file[:3]), *file[3:]) for file in files)
            self._base |= {entry.file.path: entry for entry in entries}
            self._apply(Record(**head, entries=entries), False)
        for record in sorted(self._newer(), key=lambda record: record.order):
            self._apply(record, True)

    def known(self, file: SourceFile, besides: str) -> bool:
        """Whether a file is in the store, or in quarantine, by a batch of another source than `besides`."""
        base = self._base.get(file.path)
        if base is not None and (besides == self.checkpoint or base.file == file):  # Spark looks at no name twice
            return True
        return any(file in files for source, files in self._known.items() if source != besides)

    def keep_taken(self, there: Container[str]) -> None:
        """Forget files that are not there any more, but for the last ones: their names may be used again."""
        gone = [path for path in self.taken if path not in there]
        for path in gone[: max(0, len(gone) - GONE)]:
            del self.taken[path]

    @property
    def base_files(self) -> int:
        """How many files the base names that were there when it was made."""
        return sum(entry.reason != MISSING for entry in self._base.values())

    def forget(self, source: str) -> None:
        """Keep no names of a source's files: whoever counts its batches remembers them."""
        self._known.pop(source, None)

    def write(self, record: Record) -> Record:
        """Write a record; the batch is to be committed next."""
        record = replace(record, order=min(self._order + 1, MOST_INT))
        self._write(f"{record.source}-{record.number}.jsonl", record.to_lines())
        return record

    def committed(self, record: Record) -> None:
        """The batch of a record that was written is in the table now."""
        self._apply(record, record.source == RETRY)
        if record.number % FOLD == FOLD - 1:
            if record.entries:
                self.fold(record.source)
            else:
                self.rebase(record.source)

    def fold(self, source: str) -> None:
        """Put a source's single records into one file."""
        single = sorted(n for name, n, last in self._names() if name == source and last is None and self._is(name, n))
        if len(single) < 2:
            return
        paths = [os.path.join(self._place, f"{source}-{number}.jsonl") for number in single]
        data = b"".join(line for path in paths for line in _lines(path))
        self._write(f"{source}-{single[0]}-{single[-1]}.jsonl", data)
        for path in paths:
            remove(path)

    def rebase(self, checkpoint: str, present: Container[str] | None = None) -> None:
        """Make all records one file, with which a checkpoint begins, or goes on.

        `present` are the paths of the source's files. One that is missing is marked; one that was marked is left out.
        Until the file has its name nothing is changed, and from then on the records that it replaces do not count.
        """
        records = sorted(self._newer(), key=lambda record: record.order)
        paths = [os.path.join(self._place, name) for name in self._files()]
        files = dict(self._base)
        for record in records:
            files |= {entry.file.path: entry for entry in record.entries}
        done = {path: entry for path, entry in files.items() if path not in {**self.waiting, **self.quarantined}}
        kept = {path: entry for path, entry in map(partial(_marked, present), done.items()) if entry is not None}
        data = write_base(checkpoint, self._order, (record.to_lines() for record in self._folded(checkpoint, kept)))
        write_bytes(os.path.join(self._place, BASE), data, True)
        sync(self._place)
        faults.point("ledger.based")
        self._base = kept | self.waiting | self.quarantined
        self.checkpoint, self._base_order, self._known = checkpoint, self._order, {}
        for path in paths:
            with suppress(OSError):  # what is left is in the base, and goes the next time
                os.remove(path)
            faults.point("ledger.cleared")

    def _folded(self, checkpoint: str, done: dict[str, Entry]) -> Iterator[Record]:
        """Records that say what all records say: a batch for each that left something open, and one for the rest."""
        for path, entry in {**self.waiting, **self.quarantined}.items():
            yield replace(self._came_with[path], **NOTHING, held=(), entries=(entry,))
        for name, record in self.held.items():
            yield replace(record, **NOTHING, held=(name,), entries=())
        usual = Record(RETRY, self.last.get(RETRY, -1), order=self._order, at=self.at, origin=self.origin)
        yield usual
        for at, newest in self.newest_times:
            yield replace(usual, at=at, newest=newest)
        yield replace(
            usual,
            source=checkpoint,
            number=self.last.get(checkpoint, -1),
            rows=self.rows,
            bad=self.bad,
            ahead=self.ahead,
            offsets=self.offsets,
            types=self.types,
            entries=tuple(done.values()),
        )

    def clean(self) -> None:
        """Remove what batches left that were never committed."""
        for name in os.listdir(self._place) if os.path.isdir(self._place) else ():
            found = _NAME.fullmatch(name)
            if without_spare(name) != name or (found and not self._is(found[1], int(found[2]))):
                remove(os.path.join(self._place, name))
        held = os.path.join(self._store, QUARANTINE)
        for name in os.listdir(held) if os.path.isdir(held) else ():
            if name not in self.held:
                remove(os.path.join(held, name))

    def _apply(self, record: Record, keep_names: bool) -> None:
        self._order = max(self._order, record.order)
        self.last[record.source] = max(self.last.get(record.source, -1), record.number)
        self.rows, self.bad = self.rows + record.rows, self.bad + record.bad
        self.ahead += record.ahead
        self.newest = max((t for t in (record.newest, self.newest) if t is not None), default=None)
        if record.newest is not None:
            self.newest_times.append((record.at, record.newest))
        self.at, self.origin = record.at or self.at, record.origin or self.origin
        self.offsets, self.types = record.offsets or self.offsets, {**record.types, **self.types}
        for entry in record.entries:
            path = entry.file.path
            self.waiting.pop(path, None)
            self.quarantined.pop(path, None)
            self.held_by.pop(path, None)
            if entry.state == DONE:
                self.taken[path] = entry.file
            self._came_with.pop(path, None)
            if entry.state == DONE and keep_names:
                self._known.setdefault(record.source, set()).add(entry.file)
            elif entry.state == WAITING:
                self.waiting[path] = entry
            elif entry.state == HELD:
                self.quarantined[path] = entry
                self.held_by[path] = record.config
                self._known.setdefault(record.source, set()).add(entry.file)
            if entry.state != DONE:
                self._came_with[path] = replace(record, entries=())
        for name in record.settled:
            self.held.pop(name, None)
        self.held |= {name: replace(record, entries=()) for name in record.held}

    def _write(self, name: str, data: bytes) -> None:
        write_bytes(os.path.join(self._place, name), data, self._durable)
        if self._durable:
            sync(self._place)

    def _is(self, source: str, number: int) -> bool:
        return self._seen((source, number))

    def _names(self) -> list[tuple[str, int, int | None]]:
        names = os.listdir(self._place) if os.path.isdir(self._place) else []
        found = [match for match in map(_NAME.fullmatch, names) if match]
        return [(match[1], int(match[2]), int(match[3]) if match[3] else None) for match in found]

    def _files(self) -> list[str]:
        """The names of files that have committed records."""
        found = [(n, _NAME.fullmatch(n)) for n in (os.listdir(self._place) if os.path.isdir(self._place) else [])]
        return [name for name, match in found if match and self._is(match[1], int(match[2]))]

    def _newer(self) -> Iterator[Record]:
        """The records that are not in the base."""
        return (record for record in self._committed() if record.order > self._base_order)

    def _committed(self) -> Iterator[Record]:
        """Every record that counts, once: a fold that was cut off has left some twice."""
        seen: set[tuple[str, int]] = set()
        for source, first, last in self._names():
            if not self._is(source, first):
                continue
            name = f"{source}-{first}" + (f"-{last}" if last is not None else "") + ".jsonl"
            numbers = range(first, (first if last is None else last) + 1)
            for record in _parsed(os.path.join(self._place, name), source, numbers):
                if (source, record.number) not in seen:
                    seen.add((source, record.number))
                    yield record


def _marked(present: Container[str] | None, item: tuple[str, Entry]) -> tuple[str, Entry | None]:
    """A file for the next base: as it is while it lies in its folder, marked when it is gone, None if it was marked."""
    path, entry = item
    if present is None:
        return path, entry
    if path in present:
        return path, replace(entry, reason="")
    return path, None if entry.reason == MISSING else replace(entry, reason=MISSING)


def _parsed(path: str, source: str, numbers: range) -> Iterator[Record]:
    """The records in a file, which are batches of a source and have these numbers."""
    head: Any = None
    entries: list[Entry] = []
    try:
        for line in _lines(path):
            found = parse_json(line)
            if isinstance(found, dict):
                if head is not None:
                    yield _record(head, entries, source, numbers)
                head, entries = found, []
            else:
                entries.append(_entry(found))
        if head is not None:
            yield _record(head, entries, source, numbers)
        else:
            raise ValueError("it has no batch")
    except ValueError as error:
        raise CorruptBytesError(
            f"{path} is damaged: {error}; it says which source files are in the store: restore it from a copy, "
            "or remove it, and --reset takes those files again"
        ) from error


def _record(head: dict[str, Any], entries: list[Entry], source: str, numbers: range) -> Record:
    reads: dict[str, Read[Any]] = {
        "source": one_of((source,)),
        "number": integer(numbers.start, numbers.stop - 1),
        "order": integer(),
        "at": number,
        "rows": integer(),
        "bad": integer(),
        "newest": optional(number),
        "origin": optional(_origin),
        "offsets": text,
        "types": mapping(text),
        "held": sequence(_held_name),
        "settled": sequence(_held_name),
        "ahead": integer(),
        "config": text,
    }
    optionals = ("order", "at", "rows", "bad", "newest", "offsets", "types", "ahead", "config")
    return Record(**Fields(head).take_all(reads, optionals), entries=tuple(entries))


def _entry(found: Any) -> Entry:
    """A line of a file: path, size, time of change, state, reason, bad rows."""
    if not isinstance(found, list) or not 3 <= len(found) <= 6:
        raise ValueError("a line is neither a batch nor a file")
    path, size, modified = text(found[0]), integer()(found[1]), integer(-(2**63))(found[2])
    reads: tuple[Read[Any], ...] = (one_of((DONE, WAITING, HELD)), text, integer())
    return Entry(SourceFile(path, size, modified), *(read(one) for read, one in zip(reads, found[3:], strict=False)))


def _origin(found: Any) -> tuple[int, int, str]:
    if not isinstance(found, list) or len(found) != 3:
        raise ValueError("an origin is a step, a place of the clock, and a length of time")
    return integer()(found[0]), integer(-(2**63))(found[1]), text(found[2])


def _held_name(found: Any) -> str:
    """A path is built from this name, read and removed: it must lie in the folder of the quarantine."""
    if not is_held_file(text(found)):
        raise ValueError(f"{found[:80]!r} is not the name of a file of the quarantine")
    return str(found)


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a file, none longer than JSON may be."""
    try:
        with open_regular(path) as file:
            while line := file.readline(MOST_JSON + 2):
                if not line.endswith(b"\n"):
                    raise CorruptBytesError(f"{path} is damaged: it is cut short, or a line of it is too long")
                yield line
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
