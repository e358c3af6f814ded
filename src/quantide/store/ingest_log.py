"""Ingest log: records of the source files and batches that are in a store.

The record of a batch is written before the batch is committed, and is named after it. It takes effect when the table
has that batch, so both become visible at once. Records of batches that were never committed are garbage.

Records are joined into one file, the base, when a new checkpoint begins, and now and then for batches without files. A
source file that was removed from its folder is left out of the second base after that, so the ingest log grows with the
number of existing files, not with the number of all files there ever were.

In an object store a writer may be paused, lose its lease and wake up. It cannot harm the records of its successor: they
are of sources with other names, the base is replaced on the condition that it is unchanged, and only files that were
listed before the writer took over are removed as garbage.
"""

import io
import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from quantide.errors import CorruptBytesError, StorageError
from quantide.store import fault_points
from quantide.store.batch_record import BASE as BASE
from quantide.store.batch_record import (
    DONE,
    QUARANTINED,
    WAITING,
    BatchRecord,
    FileRecord,
    IngestBase,
    IngestedFile,
    read_base,
    read_records,
    write_base,
)
from quantide.store.file_names import QUARANTINE, RECORDS
from quantide.store.json_fields import MAX_INT, MAX_JSON, integer, one_of
from quantide.store.storage import Storage

__all__ = ["DONE", "QUARANTINED", "RETRY", "WAITING", "BatchRecord", "FileRecord", "IngestLog", "IngestedFile"]

MISSING = "it is gone from its folder"  # mark, in a base, of an ingested file that was removed
RETRY = "retry"  # source of batches that retry files, or the beginning of its name
MAX_MISSING = 100_000  # removed source files whose records stay
FOLD = 256  # records per file
MAX_NEWEST_TIMES = 64  # batches
NO_COUNTS: dict[str, Any] = {
    "rows": 0,
    "bad": 0,
    "ahead": 0,
    "lost": 0,
    "newest": None,
    "settled": (),
}  # of a folded batch
_NAME = re.compile(rf"{RECORDS}/([a-z0-9]{{1,64}})-(0|[1-9][0-9]{{0,17}})(?:-(0|[1-9][0-9]{{0,17}}))?\.jsonl")


class IngestLog:
    """State that results from the committed records of a store: ingested files, waiting files, quarantine."""

    def __init__(
        self,
        storage: Storage,
        has_batch: Callable[[tuple[str, int]], bool],
        check_writer: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage, self._has_batch, self._check_writer = storage, has_batch, check_writer
        self.last: dict[str, int] = {}
        self.waiting: dict[str, FileRecord] = {}
        self.quarantined_files: dict[str, FileRecord] = {}
        self.quarantined_rows: dict[str, BatchRecord] = {}  # by the name of a file of bad rows: their batch
        self.quarantine_settings: dict[str, str] = {}  # settings at the quarantine of a file, by path
        self.ingested: dict[str, IngestedFile] = {}  # by path
        self._batches: dict[str, BatchRecord] = {}  # batches of files that wait or are in quarantine, by path
        self.newest: float | None = None
        self.newest_times: deque[tuple[float, float]] = deque(maxlen=MAX_NEWEST_TIMES)  # (time of a batch, newest)
        self.at = 0.0  # time of the newest batch, by the clock of its machine
        self.origin: tuple[int, int, str] | None = None
        self.offsets = ""
        self.types: dict[str, str] = {}
        self.topics: dict[str, str] = {}  # ids of Kafka's topics
        self.rows = self.bad = self.ahead = self.lost = self._order = 0
        self._files_by_source: dict[str, set[IngestedFile]] = {}
        self._base: dict[str, FileRecord] = {}  # files of the base, by path
        self._later_files = 0  # files in records after the base
        base, records = self._load()
        self.checkpoint, self._base_version = base.checkpoint, base.version
        for record in base.records:
            self._base |= {entry.file.path: entry for entry in record.entries}
            self._apply(record, False)
        self._later_files = 0
        for record in records:
            self._apply(record, True)

    def _load(self) -> tuple[IngestBase, list[BatchRecord]]:
        """Return the base, and the later records in their order.

        A paused predecessor may replace the base once more and remove the records that it contains; then read again.
        """
        while True:
            base = read_base(self._storage)
            self._base_order = base.order
            try:
                records = sorted(self._newer(), key=lambda record: record.order)
            except StorageError:
                if self._read_base_version() == base.version:
                    raise
                continue
            if self._read_base_version() == base.version:
                return base, records

    def _read_base_version(self) -> dict[str, str] | None:
        try:
            return self._storage.read_version(BASE)[1]
        except FileNotFoundError:
            return None

    def has_file(self, file: IngestedFile, besides: str) -> bool:
        """Return True if a batch of another source than `besides` ingested or quarantined a file."""
        base = self._base.get(file.path)
        if base is not None and (besides == self.checkpoint or base.file == file):  # Spark reads no path twice
            return True
        return any(file in files for source, files in self._files_by_source.items() if source != besides)

    def forget_missing(self, present: Container[str]) -> None:
        """Forget removed source files except for the last MAX_MISSING, whose names may be used again."""
        missing = [path for path in self.ingested if path not in present]
        for path in missing[: max(0, len(missing) - MAX_MISSING)]:
            del self.ingested[path]

    @property
    def base_files(self) -> int:
        """Number of files of the base that existed when it was written."""
        return sum(entry.reason != MISSING for entry in self._base.values())

    @property
    def logged_files(self) -> int:
        """Number of files in the base and in later records; a file that was retried counts twice."""
        return len(self._base) + self._later_files

    def forget_source(self, source: str) -> None:
        """Forget the files of a source that tracks them itself."""
        self._files_by_source.pop(source, None)

    def write(self, record: BatchRecord) -> BatchRecord:
        """Write a record; the commit of its batch follows."""
        record = replace(record, order=min(self._order + 1, MAX_INT))
        self._write(f"{record.source}-{record.number}.jsonl", record.to_lines())
        return record

    def mark_committed(self, record: BatchRecord) -> None:
        """Apply a written record, whose batch is in the table now."""
        self._apply(record, record.source.startswith(RETRY))
        if record.number % FOLD == FOLD - 1:
            if record.entries:
                self.fold(record.source)
            else:
                self.rebase(record.source)

    def fold(self, source: str) -> None:
        """Join the single records of a source into one file."""
        single = sorted(
            n for name, n, last in self._names() if name == source and last is None and self._is_committed(name, n)
        )
        if len(single) < 2:
            return
        names = [f"{RECORDS}/{source}-{number}.jsonl" for number in single]
        data = b"".join(line for name, content in self._read_all(names) for line in self._split_lines(name, content))
        self._write(f"{source}-{single[0]}-{single[-1]}.jsonl", data)
        for name in names:
            self._storage.remove(name)

    def rebase(self, checkpoint: str, present: Container[str] | None = None) -> None:
        """Write all records to a new base, for a checkpoint that begins or continues.

        `present` are the paths of the source's files. A missing file is marked; one that was already marked is left
        out. The new base takes effect when it gets its name; from then on the records that it replaces are ignored.
        """
        replaced = self._files()
        retained = self._retain(present)
        try:
            self._base_version = self._storage.update(BASE, self._join(checkpoint, retained), self._base_version)
        except FileExistsError as error:
            self._check_writer()
            raise StorageError(
                f"{self._storage.path}: an earlier writer has replaced the base of the ingest log; start again"
            ) from error
        fault_points.point("ledger.based")
        self._base, self._later_files = retained | self.waiting | self.quarantined_files, 0
        self.checkpoint, self._base_order, self._files_by_source = checkpoint, self._order, {}
        for name in replaced:
            with suppress(OSError):  # it is in the base, and is removed the next time
                self._storage.remove(name)
            fault_points.point("ledger.cleared")

    def _retain(self, present: Container[str] | None) -> dict[str, FileRecord]:
        """Return the files of all records that the next base contains, except unfinished ones, by path."""
        files = dict(self._base)
        for record in sorted(self._newer(), key=lambda record: record.order):
            files |= {entry.file.path: entry for entry in record.entries}
        done = {path: entry for path, entry in files.items() if path not in {**self.waiting, **self.quarantined_files}}
        return {path: entry for path, entry in map(partial(_mark, present), done.items()) if entry is not None}

    def _join(self, checkpoint: str, retained: dict[str, FileRecord]) -> bytes:
        records = (record.to_lines() for record in self._fold_all(checkpoint, retained))
        return write_base(checkpoint, self._order, records)

    def _fold_all(self, checkpoint: str, done: dict[str, FileRecord]) -> Iterator[BatchRecord]:
        """Yield records with the effect of all: one for each unfinished file or quarantine, and one for the rest."""
        for path, entry in {**self.waiting, **self.quarantined_files}.items():
            yield replace(self._batches[path], **NO_COUNTS, held=(), entries=(entry,))
        for name, record in self.quarantined_rows.items():
            yield replace(record, **NO_COUNTS, held=(name,), entries=())
        template = BatchRecord(RETRY, self.last.get(RETRY, -1), order=self._order, at=self.at, origin=self.origin)
        yield template
        for at, newest in self.newest_times:
            yield replace(template, at=at, newest=newest)
        yield replace(
            template,
            source=checkpoint,
            number=self.last.get(checkpoint, -1),
            rows=self.rows,
            bad=self.bad,
            ahead=self.ahead,
            lost=self.lost,
            topics=self.topics,
            offsets=self.offsets,
            types=self.types,
            entries=tuple(done.values()),
        )

    def clean(self, names: Iterable[str] | None = None) -> None:
        """Remove the files of batches that were never committed: of these names, or all.

        Names that were listed before the writer took over, and are not those of a batch that it commits, belong to
        batches that can never be committed, even if the writer has lost its lease since.
        """
        for name in list_log_files(self._storage) if names is None else names:
            record = _NAME.fullmatch(name)
            if record is not None:
                is_garbage = not self._is_committed(record[1], int(record[2]))
            else:
                folder, _, file = name.rpartition("/")
                is_garbage = folder == QUARANTINE and file not in self.quarantined_rows
            if is_garbage:
                self._storage.remove(name)
        for folder in (RECORDS, QUARANTINE):
            self._storage.remove_remains(folder)

    def _apply(self, record: BatchRecord, remember_files: bool) -> None:
        self._order, self._later_files = max(self._order, record.order), self._later_files + len(record.entries)
        self.last[record.source] = max(self.last.get(record.source, -1), record.number)
        self.rows, self.bad = self.rows + record.rows, self.bad + record.bad
        self.ahead, self.lost = self.ahead + record.ahead, self.lost + record.lost
        self.topics = {**self.topics, **record.topics}
        self.newest = max((t for t in (record.newest, self.newest) if t is not None), default=None)
        if record.newest is not None:
            self.newest_times.append((record.at, record.newest))
        self.at, self.origin = record.at or self.at, record.origin or self.origin
        self.offsets, self.types = record.offsets or self.offsets, {**record.types, **self.types}
        for entry in record.entries:
            path = entry.file.path
            self.waiting.pop(path, None)
            self.quarantined_files.pop(path, None)
            self.quarantine_settings.pop(path, None)
            if entry.state == DONE:
                self.ingested[path] = entry.file
            self._batches.pop(path, None)
            if entry.state == DONE and remember_files:
                self._files_by_source.setdefault(record.source, set()).add(entry.file)
            elif entry.state == WAITING:
                self.waiting[path] = entry
            elif entry.state == QUARANTINED:
                self.quarantined_files[path] = entry
                self.quarantine_settings[path] = record.config
                self._files_by_source.setdefault(record.source, set()).add(entry.file)
            if entry.state != DONE:
                self._batches[path] = replace(record, entries=())
        for name in record.settled:
            self.quarantined_rows.pop(name, None)
        if (
            record.settled and not self.quarantined_rows
        ):  # all rows of the quarantine were tried again: these failed again
            self.bad, self.ahead = record.bad, record.ahead
        self.quarantined_rows |= {name: replace(record, entries=()) for name in record.held}

    def _write(self, name: str, data: bytes) -> None:
        self._storage.replace(f"{RECORDS}/{name}", data)
        self._storage.sync(RECORDS)

    def _is_committed(self, source: str, number: int) -> bool:
        return self._has_batch((source, number))

    def _names(self) -> list[tuple[str, int, int | None]]:
        matches = [match for file in self._storage.list_files(RECORDS) if (match := _NAME.fullmatch(file.name))]
        return [(match[1], int(match[2]), int(match[3]) if match[3] else None) for match in matches]

    def _files(self) -> list[str]:
        """Return the names of files with committed records."""
        matches = [match for file in self._storage.list_files(RECORDS) if (match := _NAME.fullmatch(file.name))]
        return [match[0] for match in matches if self._is_committed(match[1], int(match[2]))]

    def _newer(self) -> Iterator[BatchRecord]:
        """Return the committed records that are not in the base."""
        return (record for record in self._committed() if record.order > self._base_order)

    def _committed(self) -> Iterator[BatchRecord]:
        """Yield each committed record once: an interrupted fold leaves some of them twice."""
        seen: set[tuple[str, int]] = set()
        for name, content in self._read_all(self._files()):
            for record in self._parse(name, content):
                if (record.source, record.number) not in seen:
                    seen.add((record.source, record.number))
                    yield record

    def _read_all(self, names: list[str]) -> list[tuple[str, bytes]]:
        """Return the content of files by their names."""

        def read(name: str) -> tuple[str, bytes]:
            try:
                return name, self._storage.read(name)
            except StorageError:
                raise
            except OSError as error:
                raise StorageError(f"{self._storage.full_path(name)} cannot be read: {error}") from error

        return self._storage.map_all(read, names)

    def _parse(self, name: str, content: bytes) -> Iterator[BatchRecord]:
        """Yield the records in a file, which must be batches of the source and the numbers in its name."""
        match = _NAME.fullmatch(name)
        assert match is not None
        source, first, last = match[1], int(match[2]), int(match[3] or match[2])
        try:
            yield from read_records(self._split_lines(name, content), one_of((source,)), integer(first, last))
        except ValueError as error:
            raise CorruptBytesError(
                f"{self._storage.full_path(name)} is damaged: {error}; it records which source files are in the "
                "store: restore it from a copy, or remove it and ingest those files again with --reset"
            ) from error

    def _split_lines(self, name: str, content: bytes) -> Iterator[bytes]:
        """Yield the lines of a file; refuse lines longer than MAX_JSON."""
        file = io.BytesIO(content)
        while line := file.readline(MAX_JSON + 2):
            if not line.endswith(b"\n"):
                path = self._storage.full_path(name)
                raise CorruptBytesError(f"{path} is damaged: it is cut short, or a line of it is too long")
            yield line


def list_log_files(storage: Storage) -> list[str]:
    """Return the names of records and of files of the quarantine."""
    return [file.name for folder in (RECORDS, QUARANTINE) for file in storage.list_files(folder)]


def source_of(name: str) -> str:
    """Return the source of batches in the name of a record or of a file of the quarantine.

    >>> source_of("_quantide/sources/c0-17.jsonl"), source_of("_quantide/quarantine/retry-3-0-0.parquet")
    ('c0', 'retry')
    """
    return name.rpartition("/")[2].partition("-")[0]


def _mark(present: Container[str] | None, item: tuple[str, FileRecord]) -> tuple[str, FileRecord | None]:
    """Return the record of a file for the next base: marked if the file is missing, None if it was already marked."""
    path, entry = item
    if present is None:
        return path, entry
    if path in present:
        return path, replace(entry, reason="")
    return path, None if entry.reason == MISSING else replace(entry, reason=MISSING)
