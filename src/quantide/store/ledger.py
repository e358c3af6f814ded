"""The ledger: which source data is in the store, batch by batch.

A batch's record is written before the batch is committed, and named after it; it counts when the table knows that
batch, so both become true at once. Records of batches that were never committed are garbage.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from quantide.errors import CorruptBytesError
from quantide.store.disk import remove, sync, write_bytes
from quantide.store.names import QUARANTINE, RECORDS, without_spare

DONE, WAITING, HELD = "done", "waiting", "quarantined"
RETRY = "retry"  # the source of batches that try files again
FOLD = 256  # records that are put into one file
_NAME = re.compile(r"([a-z0-9]+)-(\d+)(?:-(\d+))?\.jsonl")


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
        self.newest: float | None = None
        self.origin: tuple[int, int, str] | None = None
        self.offsets = ""
        self.types: dict[str, str] = {}
        self.rows = self.bad = self._order = 0
        self._known: dict[str, set[SourceFile]] = {}
        for record in sorted(self._committed(), key=lambda record: record.order):
            self._apply(record, True)

    def known(self, file: SourceFile, besides: str) -> bool:
        """Whether a file is in the store, or in quarantine, by a batch of another source than `besides`."""
        return any(file in files for source, files in self._known.items() if source != besides)

    def forget(self, source: str) -> None:
        """Keep no names of a source's files: whoever counts its batches remembers them."""
        self._known.pop(source, None)

    def write(self, record: Record) -> Record:
        """Write a record; the batch is to be committed next."""
        record = replace(record, order=self._order + 1)
        self._write(f"{record.source}-{record.number}.jsonl", record.to_lines())
        return record

    def committed(self, record: Record) -> None:
        """The batch of a record that was written is in the table now."""
        self._apply(record, record.source == RETRY)
        if record.number % FOLD == FOLD - 1:
            self.fold(record.source)

    def fold(self, source: str) -> None:
        """Put a source's single records into one file."""
        single = sorted(n for name, n, last in self._names() if name == source and last is None and self._is(name, n))
        if len(single) < 2:
            return
        paths = [os.path.join(self._place, f"{source}-{number}.jsonl") for number in single]
        data = b"".join(_bytes(path) for path in paths)
        self._write(f"{source}-{single[0]}-{single[-1]}.jsonl", data)
        for path in paths:
            remove(path)

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
        self.newest = max((t for t in (record.newest, self.newest) if t is not None), default=None)
        self.origin = record.origin or self.origin
        self.offsets, self.types = record.offsets or self.offsets, {**record.types, **self.types}
        for entry in record.entries:
            path = entry.file.path
            self.waiting.pop(path, None)
            self.quarantined.pop(path, None)
            if entry.state == DONE and keep_names:
                self._known.setdefault(record.source, set()).add(entry.file)
            elif entry.state == WAITING:
                self.waiting[path] = entry
            elif entry.state == HELD:
                self.quarantined[path] = entry
                self._known.setdefault(record.source, set()).add(entry.file)
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

    def _committed(self) -> Iterator[Record]:
        """Every record that counts, once: a fold that was cut off has left some twice."""
        seen: set[tuple[str, int]] = set()
        for source, first, last in self._names():
            if not self._is(source, first):
                continue
            name = f"{source}-{first}" + (f"-{last}" if last is not None else "") + ".jsonl"
            for record in _parsed(os.path.join(self._place, name)):
                if (source, record.number) not in seen:
                    seen.add((source, record.number))
                    yield record


def _parsed(path: str) -> Iterator[Record]:
    """The records in a file."""
    head: dict[str, Any] | None = None
    entries: list[Entry] = []
    try:
        for line in _bytes(path).decode().splitlines():
            found = json.loads(line)
            if isinstance(found, dict):
                if head is not None:
                    yield _record(head, entries)
                head, entries = found, []
            else:
                entries.append(Entry(SourceFile(*found[:3]), *found[3:]))
        if head is not None:
            yield _record(head, entries)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptBytesError(f"{path} is damaged: {error}; it says which source files are in the store") from error


def _record(head: dict[str, Any], entries: list[Entry]) -> Record:
    lists = {name: tuple(head[name]) for name in ("held", "settled")}
    origin = tuple(head["origin"]) if head["origin"] else None
    return Record(**{**head, **lists, "origin": origin, "entries": tuple(entries)})


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
