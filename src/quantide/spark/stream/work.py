"""Work: what a task does with its share of a batch. It runs on Spark's workers, or right here when there is little.

A file that fails must leave no trace: rows of a part of a file share no chunk with those of other files, and a small
file is read whole before its rows join others.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quantide.errors import QuantideError
from quantide.history.load import Loaded, Slot
from quantide.history.source import PIECE
from quantide.spark.reading import read_split
from quantide.spark.splits import Piece, Split
from quantide.spark.stream.intake import REASON, Rows, Rules, read_rows, write_rows
from quantide.spark.stream.lines import BLOCK, ROW, Numbering
from quantide.spark.stream.missing import column_missing
from quantide.spark.stream.origin import CAME_FROM, LINE
from quantide.spark.stream.selection import Selection
from quantide.store.disk import Sink, write_file
from quantide.store.ledger import HELD, WAITING, SourceFile
from quantide.store.names import QUARANTINE
from quantide.store.storage import Storage

CHANGED, CHANGING = "the schema changed", "it changed while it was read"
UNREADABLE = (QuantideError, OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True)
class Output:
    """What was written of some rows; `file` is set where they are a part of that file."""

    file: str | None
    loaded: list[Loaded]
    rows: int
    bad: int
    held: list[str]


@dataclass
class Done:
    """What a task did. It travels back as JSON."""

    outputs: list[Output] = field(default_factory=list)
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    newest: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> "Done":
        outputs = [
            Output(**{**one, "loaded": [Loaded.from_dict(file) for file in one["loaded"]]}) for one in found["outputs"]
        ]
        failed = {path: (state, reason) for path, (state, reason) in found["failed"].items()}
        return cls(**{**found, "outputs": outputs, "failed": failed})


@dataclass(frozen=True)
class Job:
    """What all tasks of a batch share; `files` are known by what Spark calls them."""

    slot: Slot
    rules: Rules
    name: str
    storage: Storage
    files: dict[str, SourceFile]
    types: dict[str, str]
    schema_change: str
    numbering: Numbering | None = None


def work(job: Job, task: int, split: Split) -> Done:
    """Read, sort and write a split."""
    collector = Collector(job, task)
    for piece in split:
        path = piece.file.uri
        part = piece.groups is not None
        try:
            schema = _schema(job, piece)
            if problem := schema_problem(job.rules.selection, schema, job.types, job.schema_change):
                collector.done.failed[path] = (HELD, problem)
                continue
            needed = job.rules.selection.needed(schema.names)
            added = [name for name in schema.names if name.startswith("=") or name in (CAME_FROM, LINE)]
            tables = list(read_split((piece,), [*needed, *added], schema, None, job.storage))
            read = [read_rows(table, job.rules) for table in tables]
            if LINE not in schema.names:
                read = _numbered(read, tables, None if CAME_FROM in schema.names else _rows_before(job, piece))
            _check_same(job, path)
        except UNREADABLE as error:
            collector.done.failed[path] = (WAITING, str(error))
        else:
            if part:
                collector.flush()
            collector.add(read, path)
            if part or collector.rows >= PIECE:
                collector.flush(path if part else None)
    collector.flush()
    return collector.done


def work_table(job: Job, table: pa.Table) -> Done:
    """As work(), of rows that are here already."""
    collector = Collector(job, 0)
    read = [read_rows(table, job.rules)]
    collector.add(read if LINE in table.column_names else _numbered(read, [table], None), "")
    collector.flush()
    return collector.done


class Collector:
    """Gathers rows until they are worth a chunk."""

    def __init__(self, job: Job, task: int) -> None:
        self._job, self._task = job, task
        self._good: list[Rows] = []
        self._bad: list[pa.Table] = []
        self._chunks = self._held = self.rows = 0
        self.done = Done()

    def add(self, read: Sequence[tuple[Rows, pa.Table | None]], path: str) -> None:
        for rows, bad in read:
            self._good.append(rows)
            self.rows += len(rows)
            if rows.newest is not None:
                self.done.newest = max(rows.newest, self.done.newest or rows.newest)
            if bad is not None:
                self._add_bad(bad, path)

    def _add_bad(self, bad: pa.Table, path: str) -> None:
        if BLOCK in bad.column_names:
            bad = self._with_lines(bad)
        if CAME_FROM not in bad.column_names:
            bad = bad.append_column(CAME_FROM, pa.repeat(pa.scalar(path), len(bad)))
        self._bad.append(bad)
        self.done.bad[path] = self.done.bad.get(path, 0) + len(bad)
        for found in bad[REASON].value_counts().to_pylist():
            self.done.reasons[found["values"]] = self.done.reasons.get(found["values"], 0) + found["counts"]

    def _with_lines(self, bad: pa.Table) -> pa.Table:
        """Bad rows of text files with the lines they are on."""
        numbering = self._job.numbering
        where = [bad[name].to_pylist() for name in (CAME_FROM, BLOCK, ROW)]
        lines = [None] * len(bad) if numbering is None else numbering.lines(*where)
        place = bad.column_names.index(LINE)
        return bad.set_column(place, LINE, pa.array(lines, pa.int64())).drop_columns([ROW, BLOCK])

    def flush(self, file: str | None = None) -> None:
        """Write what there is."""
        loaded: list[Loaded] = []
        if self.rows:
            rows = Rows.joined([rows for rows in self._good if len(rows)])
            loaded = write_rows(self._job.slot, self._task, self._chunks, rows, self._job.rules)
            self._chunks += 1
        bad = sum(len(table) for table in self._bad)
        if loaded or bad:
            held = [self._hold(table) for table in _by_schema(self._bad)]
            self.done.outputs.append(Output(file, loaded, sum(one.rows for one in loaded), bad, held))
        self._good, self._bad, self.rows = [], [], 0

    def _hold(self, table: pa.Table) -> str:
        """Bad rows as a file of the quarantine, with the columns they came with."""
        name = f"{self._job.name}-{self._task}-{self._held}.parquet"
        self._held += 1

        def fill(sink: Sink) -> None:
            pq.write_table(table, pa.PythonFile(sink, "w"))

        write_file(os.path.join(self._job.slot.folder, QUARANTINE, name), fill, self._job.slot.durable)
        return name


def _schema(job: Job, piece: Piece) -> pa.Schema:
    filesystem, path = job.storage.locate(piece.file.uri)
    schema = pq.read_schema(path, filesystem=filesystem)
    keys = [pa.field(name, pa.scalar(value).type) for name, value in piece.file.keys if name not in schema.names]
    return pa.schema([*schema.remove_metadata(), *keys])


def schema_problem(selection: Selection, schema: pa.Schema, types: dict[str, str], policy: str) -> str | None:
    """Why a file of that schema cannot be read; None when it can."""
    names = list(schema.names)
    missing = selection.missing(names)
    if missing:
        return f"{CHANGED}: {column_missing(missing[0], names)}"
    for name, known in types.items() if policy != "adapt" else ():
        if name.startswith("="):
            continue
        found = str(schema.field(name).type) if name in names else "missing"
        if found != known:
            return f"{CHANGED}: column {name!r} is {found} and was {known}"
    return None


def _rows_before(job: Job, piece: Piece) -> int:
    """Rows of a file before its piece."""
    if not piece.groups:
        return 0
    filesystem, path = job.storage.locate(piece.file.uri)
    metadata = pq.read_metadata(path, filesystem=filesystem)
    return sum(metadata.row_group(group).num_rows for group in range(piece.groups[0]))


def _numbered(
    read: Sequence[tuple[Rows, pa.Table | None]], tables: Sequence[pa.Table], before: int | None
) -> list[tuple[Rows, pa.Table | None]]:
    """Bad rows of tables that follow each other, numbered within their file; None for tables that are no whole file."""
    out = []
    for (rows, bad), table in zip(read, tables, strict=True):
        if bad is not None:
            numbers = pa.nulls(len(bad), pa.int64()) if before is None else pc.add(bad[LINE], before)
            bad = bad.set_column(bad.column_names.index(LINE), LINE, numbers)
        out.append((rows, bad))
        before = None if before is None else before + len(table)
    return out


def _check_same(job: Job, path: str) -> None:
    """A file must be, after it was read, the one that was to be read."""
    wanted = job.files.get(path)
    if wanted is not None and look(job.storage, path) != wanted:
        raise QuantideError(CHANGING)


def look(storage: Storage, path: str) -> SourceFile | None:
    """A file as it is now; None when it is gone."""
    filesystem, place = storage.locate(path)
    info = filesystem.get_file_info(place)
    if info.type.name != "File":
        return None
    return SourceFile(path, info.size, (info.mtime_ns or 0) // 10**6)


def _by_schema(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Tables of the same columns as one."""
    found: dict[str, list[pa.Table]] = {}
    for table in tables:
        found.setdefault(str(table.schema), []).append(table)
    return [pa.concat_tables(same) for same in found.values()]
