"""Batch records: the outcome of each source file of a batch, as lines of JSON; and the base, a file of many records.

The first line of a record is its head, each further line a file. Records are stored in files of their own and in the
base of the ingest log, and are read in the same way from both: every field is checked before it is used.

The first line of the base names the checkpoint that begins with it and the order of its newest record; records follow
as in other files. A record whose order is not above that of the base is contained in it, and is ignored elsewhere. The
base omits names of source files that no longer exist.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from quantide.errors import CorruptBytesError
from quantide.store.file_names import RECORDS, is_quarantine_file
from quantide.store.json_fields import (
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
from quantide.store.storage import Storage

DONE, WAITING, QUARANTINED = "done", "waiting", "quarantined"
BASE = f"{RECORDS}/base.jsonl"
_SOURCE = re.compile(r"[a-z0-9]{1,64}")


@dataclass(frozen=True)
class IngestedFile:
    """Identity of a file when it was read: path, size, and modification time in milliseconds.

    `keys` are the partition columns of a table's file as text, by the table's log; None for null.
    """

    path: str
    size: int
    modified: int
    keys: tuple[tuple[str, str | None], ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class FileRecord:
    """Outcome of a file: its rows are in the store, it waits for a retry, or it is in quarantine."""

    file: IngestedFile
    state: str = DONE
    reason: str = ""
    bad: int = 0


@dataclass(frozen=True)
class BatchRecord:
    """Batch `number` of a source. `order` grows over all sources."""

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
    ahead: int = 0  # bad rows whose time is too far ahead of the clock
    lost: int = 0  # offsets that the source deleted before they were ingested
    topics: dict[str, str] = field(default_factory=dict)
    """Ids of Kafka's topics."""
    config: str = ""
    """Fingerprint of the settings with which the batch was read."""
    entries: tuple[FileRecord, ...] = ()

    def to_lines(self) -> bytes:
        head = {name: value for name, value in asdict(self).items() if name != "entries"}
        head = {name: value for name, value in head.items() if value or name not in ("lost", "topics")}
        files = [_entry_line(entry) for entry in self.entries]
        return "".join(json.dumps(line) + "\n" for line in (head, *files)).encode()


def _entry_line(entry: FileRecord) -> list[Any]:
    """Return the line of a file: path, size, modification time, state, reason, bad rows, and keys if it has some."""
    file = entry.file
    line = [file.path, file.size, file.modified, entry.state, entry.reason, entry.bad]
    return [*line, dict(file.keys)] if file.keys else line


def read_records(lines: Iterable[bytes], source: Read[str], batch: Read[int]) -> Iterator[BatchRecord]:
    """Parse records; `source` and `batch` read the source and the number of each."""
    head: Any = None
    entries: list[FileRecord] = []
    for line in lines:
        value = parse_json(line)
        if isinstance(value, dict):
            if head is not None:
                yield _read_record(head, entries, source, batch)
            head, entries = value, []
        elif head is None:
            raise ValueError("it has no batch")
        else:
            entries.append(_read_entry(value))
    if head is None:
        raise ValueError("it has no batch")
    yield _read_record(head, entries, source, batch)


def _read_record(head: dict[str, Any], entries: list[FileRecord], source: Read[str], batch: Read[int]) -> BatchRecord:
    reads: dict[str, Read[Any]] = {
        "source": source,
        "number": batch,
        "order": integer(),
        "at": number,
        "rows": integer(),
        "bad": integer(),
        "newest": optional(number),
        "origin": optional(_read_origin),
        "offsets": text,
        "types": mapping(text),
        "held": sequence(_read_quarantine_name),
        "settled": sequence(_read_quarantine_name),
        "ahead": integer(),
        "lost": integer(),
        "topics": mapping(text),
        "config": text,
    }
    optionals = ("order", "at", "rows", "bad", "newest", "offsets", "types", "ahead", "lost", "topics", "config")
    return BatchRecord(**Fields(head).take_all(reads, optionals), entries=tuple(entries))


def _read_entry(line: Any) -> FileRecord:
    """Parse the line of a file."""
    if not isinstance(line, list) or not 3 <= len(line) <= 7:
        raise ValueError("a line is neither a batch nor a file")
    keys = mapping(optional(text))(line[6]) if len(line) > 6 else {}
    path, size, modified = text(line[0]), integer()(line[1]), integer(-(2**63))(line[2])
    reads: tuple[Read[Any], ...] = (one_of((DONE, WAITING, QUARANTINED)), text, integer())
    return FileRecord(
        IngestedFile(path, size, modified, tuple(keys.items())),
        *(read(value) for read, value in zip(reads, line[3:6], strict=False)),
    )


def _read_origin(value: Any) -> tuple[int, int, str]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError("an origin is a step, a reading of the clock, and a length of time")
    return integer()(value[0]), integer(-(2**63))(value[1]), text(value[2])


def _read_quarantine_name(value: Any) -> str:
    """Check the name of a file of the quarantine: the file at the path built from it is read and removed."""
    if not is_quarantine_file(text(value)):
        raise ValueError(f"{value[:80]!r} is not the name of a file of the quarantine")
    return str(value)


def write_base(checkpoint: str, order: int, records: Iterable[bytes]) -> bytes:
    """Return the bytes of a base."""
    return json.dumps({"checkpoint": checkpoint, "order": order}).encode() + b"\n" + b"".join(records)


@dataclass(frozen=True)
class IngestBase:
    """Base of an ingest log: its checkpoint, its order, its records, and the version of its file; None without one."""

    checkpoint: str = ""
    order: int = 0
    records: tuple[BatchRecord, ...] = ()
    version: dict[str, str] | None = None


def read_base(storage: Storage) -> IngestBase:
    """Return the base of the ingest log; an empty one if it does not exist."""
    try:
        data, version = storage.read_version(BASE)
        first, *rest = data.splitlines() or [b""]
        head = Fields(parse_json(first)).take_all({"checkpoint": _read_source, "order": integer()})
        records = tuple(read_records(rest, _read_source, integer(-1)))
        return IngestBase(head["checkpoint"], head["order"], records, version)
    except FileNotFoundError:
        return IngestBase()
    except ValueError as error:
        raise CorruptBytesError(
            f"{storage.full_path(BASE)} is damaged: {error}; it records which source files are in the store: restore "
            "it from a copy"
        ) from error


def _read_source(value: Any) -> str:
    """Check the name of a source of batches."""
    if not _SOURCE.fullmatch(text(value)):
        raise ValueError(f"{value[:80]!r} is not the name of a source")
    return str(value)
