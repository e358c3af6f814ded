"""Batch tasks: one task reads, sorts and writes its part of a batch, on a Spark worker or in the driver.

A file that fails must leave no trace: rows of a piece of a file share no chunk with rows of other files, and a small
file is read whole before its rows join others.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quantide.errors import QuantideError, StorageError
from quantide.history.appended_rows import PIECE_ROWS
from quantide.history.bulk_load import NameReservation, WrittenFile
from quantide.kernels.block_sort import sorted_copy
from quantide.kernels.run_merge import merge_runs
from quantide.spark.source_files import FileAccess, FilePiece, Split, open_file, read_split
from quantide.spark.stream.column_matching import column_missing
from quantide.spark.stream.column_selection import ColumnSelection
from quantide.spark.stream.record_reader import RecordReader, load_reader
from quantide.spark.stream.row_origin import BLOCK, COLUMN, LINE, RAW_RECORD, REASON, ROW, SOURCE_FILE, LineNumbers
from quantide.spark.stream.row_reader import IngestedRows, RowRules, read_rows, write_rows
from quantide.spark.stream.stream_source import stat_file
from quantide.store.file_names import QUARANTINE
from quantide.store.ingest_log import QUARANTINED, WAITING, IngestedFile
from quantide.store.storage import Sink, Storage

SCHEMA_CHANGED, FILE_CHANGED = "the schema changed", "it changed while it was read"
QUARANTINE_COLUMNS = (SOURCE_FILE, LINE, REASON, COLUMN)  # columns that bad rows have beside their own
MAX_REFUSED_BYTES = 4 << 20  # of the refused records of a task, which the driver collects
READ_ERRORS = (QuantideError, OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True)
class TaskOutput:
    """Files written of some rows; `source` is set if the rows are a piece of that source file."""

    source: str | None
    written: list[WrittenFile]
    rows: int
    bad: int
    quarantined: list[str]  # names of files with bad rows


@dataclass
class TaskResult:
    """Outputs of a task, the files that failed, and the bad rows of each file. It travels back as JSON."""

    outputs: list[TaskOutput] = field(default_factory=list)
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    newest: float | None = None
    refused: list[str] = field(default_factory=list)  # Kafka records that Spark must decode, as JSON

    @property
    def gives_up(self) -> bool:
        """Return True if so many records were refused that Spark must decode all of the batch."""
        return sum(map(len, self.refused)) > MAX_REFUSED_BYTES

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TaskResult":
        outputs = [
            TaskOutput(**{**output, "written": [WrittenFile.from_dict(file) for file in output["written"]]})
            for output in data["outputs"]
        ]
        failed = {path: (state, reason) for path, (state, reason) in data["failed"].items()}
        return cls(**{**data, "outputs": outputs, "failed": failed})


@dataclass(frozen=True)
class BatchTask:
    """Settings that all tasks of a batch share; `files` are the source files by the paths that Spark gives them."""

    names: NameReservation
    rules: RowRules
    batch: str
    access: FileAccess
    files: dict[str, IngestedFile]
    types: dict[str, str]
    schema_change: str
    line_numbers: LineNumbers | None = None
    skipped: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)  # ranges of rows, by path
    reader: RecordReader | None = None  # decodes Kafka records, if Spark did not

    def decode(self, table: pa.Table, result: TaskResult) -> pa.Table:
        """Decode records; those that are refused are added to the result."""
        if self.reader is None:
            return table
        rows, refused = self.reader.read(table)
        result.refused += refused
        return rows


def run_split_task(task: BatchTask, number: int, split: Split) -> TaskResult:
    """Read, sort and write a split, as task `number` of its batch."""
    collector = RowCollector(task, number)
    for piece in split:
        path = piece.file.uri
        is_part = piece.groups is not None
        try:
            schema = _read_schema(task, piece)
            if reason := schema_mismatch(task.rules.selection, schema, task.types, task.schema_change):
                collector.result.failed[path] = (QUARANTINED, reason)
                continue
            used = task.rules.selection.used_columns(schema.names)
            added = [name for name in schema.names if name.startswith("=") or name in QUARANTINE_COLUMNS]
            tables = list(read_split((piece,), [*used, *added], schema, None, task.access))
            if path in task.skipped:
                tables = _drop_rows(tables, task.skipped[path], _rows_before(task, piece))
            rows = [read_rows(table, task.rules) for table in tables]
            if LINE not in schema.names:
                rows = _number_rows(rows, tables, None if SOURCE_FILE in schema.names else _rows_before(task, piece))
            _check_unchanged(task, path)
        except READ_ERRORS as error:
            if is_outage(error, path):
                raise
            collector.result.failed[path] = (WAITING, str(error))
        else:
            if is_part:
                collector.flush()
            collector.add(rows, path)
            if is_part or collector.rows >= PIECE_ROWS:
                collector.flush(path if is_part else None)
    collector.flush()
    return collector.result


def is_outage(error: Exception, path: str) -> bool:
    """Return True if an object store cannot be reached: then the batch is tried again, and no file is at fault."""
    return isinstance(error, StorageError) and "://" in path


def prepare_worker(_number: int) -> None:
    """Load what tasks need, which takes a new worker a second: modules with this one, and the machine code of sorts."""
    values = sorted_copy(np.random.default_rng(1).random(1 << 17))
    merge_runs([values, values])
    load_reader()


def run_table_task(task: BatchTask, table: pa.Table, number: int = 0) -> TaskResult:
    """As run_split_task(), for rows that are in memory."""
    collector = RowCollector(task, number)
    table = task.decode(table, collector.result)
    rows = [read_rows(table, task.rules)]
    collector.add(rows if LINE in table.column_names else _number_rows(rows, [table], None), "")
    collector.flush()
    return collector.result


class RowCollector:
    """Collects rows until there are enough for a chunk, and writes them."""

    def __init__(self, task: BatchTask, number: int) -> None:
        self._task, self._number = task, number
        self._good: list[IngestedRows] = []
        self._bad: list[pa.Table] = []
        self._chunks = self._quarantine_files = self.rows = 0
        self.result = TaskResult()

    def add(self, tables: Sequence[tuple[IngestedRows, pa.Table | None]], path: str) -> None:
        """Add the good and the bad rows of a source file."""
        for rows, bad in tables:
            self._good.append(rows)
            self.rows += rows.stored
            if rows.newest is not None:
                self.result.newest = max(rows.newest, self.result.newest or rows.newest)
            if bad is not None:
                self._add_bad(bad, path)

    def _add_bad(self, bad: pa.Table, path: str) -> None:
        if BLOCK in bad.column_names:
            bad = self._add_lines(bad)
        if SOURCE_FILE not in bad.column_names:
            bad = bad.append_column(SOURCE_FILE, pa.repeat(pa.scalar(path), len(bad)))
        self._bad += _split_records(bad)
        self.result.bad[path] = self.result.bad.get(path, 0) + len(bad)
        for counted in bad[REASON].value_counts().to_pylist():
            reason = counted["values"]
            self.result.reasons[reason] = self.result.reasons.get(reason, 0) + counted["counts"]

    def _add_lines(self, bad: pa.Table) -> pa.Table:
        """Return bad rows of text files with their line numbers."""
        numbers = self._task.line_numbers
        positions = [bad[name].to_pylist() for name in (SOURCE_FILE, BLOCK, ROW)]
        lines = [None] * len(bad) if numbers is None else numbers.find_lines(*positions)
        index = bad.column_names.index(LINE)
        return bad.set_column(index, LINE, pa.array(lines, pa.int64())).drop_columns([ROW, BLOCK])

    def flush(self, source: str | None = None) -> None:
        """Write the collected rows."""
        written: list[WrittenFile] = []
        if self.rows:
            rows = IngestedRows.concat([rows for rows in self._good if len(rows)])
            for part in rows.repeated(PIECE_ROWS):
                written += write_rows(self._task.names, self._number, self._chunks, part, self._task.rules)
                self._chunks += 1
        bad = sum(len(table) for table in self._bad)
        if written or bad:
            quarantined = [self._quarantine(table) for table in _concat_by_schema(self._bad)]
            self.result.outputs.append(
                TaskOutput(source, written, sum(file.rows for file in written), bad, quarantined)
            )
        self._good, self._bad, self.rows = [], [], 0

    def _quarantine(self, table: pa.Table) -> str:
        """Write bad rows, with their original columns, as a file of the quarantine; return its name."""
        name = f"{self._task.batch}-{self._number}-{self._quarantine_files}.parquet"
        self._quarantine_files += 1

        def fill(sink: Sink) -> None:
            pq.write_table(table, pa.PythonFile(sink, "w"))

        self._task.names.storage.write(f"{QUARANTINE}/{name}", fill)
        return name


def _read_schema(task: BatchTask, piece: FilePiece) -> pa.Schema:
    with open_file(task.access, piece.file.uri) as file:
        schema = pq.read_schema(file)
    keys = [pa.field(name, pa.string()) for name, _ in piece.file.keys if name not in schema.names]
    return pa.schema([*schema.remove_metadata(), *keys])


def schema_mismatch(selection: ColumnSelection, schema: pa.Schema, types: dict[str, str], policy: str) -> str | None:
    """Return the reason why a file of that schema cannot be read; None if it can."""
    names = list(schema.names)
    missing = selection.missing_columns(names)
    if missing:
        return f"{SCHEMA_CHANGED}: {column_missing(missing[0], names)}"
    for name, expected in types.items() if policy != "adapt" else ():
        if name.startswith("="):
            continue
        actual = str(schema.field(name).type) if name in names else "missing"
        if actual != expected:
            return f"{SCHEMA_CHANGED}: column {name!r} is {actual} and was {expected}"
    return None


def _rows_before(task: BatchTask, piece: FilePiece) -> int:
    """Count the rows of a file before its piece."""
    if not piece.groups:
        return 0
    with open_file(task.access, piece.file.uri) as file:
        metadata = pq.read_metadata(file)
    return sum(metadata.row_group(group).num_rows for group in range(piece.groups[0]))


def _drop_rows(tables: Sequence[pa.Table], ranges: Sequence[tuple[int, int]], first: int) -> list[pa.Table]:
    """Return consecutive tables of a file, of which row `first` is the first one, without some ranges of rows."""
    out = []
    for table in tables:
        mask = np.ones(len(table), dtype=bool)
        for start, end in ranges:
            mask[max(0, start - first) : max(0, end - first)] = False
        out.append(table.filter(pa.array(mask)))
        first += len(table)
    return out


def _number_rows(
    rows: Sequence[tuple[IngestedRows, pa.Table | None]], tables: Sequence[pa.Table], before: int | None
) -> list[tuple[IngestedRows, pa.Table | None]]:
    """Number the bad rows of consecutive tables within their file; `before` is None if the tables are no file."""
    out = []
    for (good, bad), table in zip(rows, tables, strict=True):
        if bad is not None:
            numbers = pa.nulls(len(bad), pa.int64()) if before is None else pc.add(bad[LINE], before)
            bad = bad.set_column(bad.column_names.index(LINE), LINE, numbers)
        out.append((good, bad))
        before = None if before is None else before + len(table)
    return out


def _check_unchanged(task: BatchTask, path: str) -> None:
    """Raise if a file changed while it was read."""
    expected = task.files.get(path)
    if expected is None or isinstance(task.access, Storage) or task.access.immutable:
        return
    if stat_file(task.access, path) != expected:
        raise QuantideError(FILE_CHANGED)


def _split_records(bad: pa.Table) -> list[pa.Table]:
    """Split rows of Kafka into records that cannot be decoded, and decoded rows that are bad for another reason."""
    if RAW_RECORD not in bad.column_names:
        return [bad]
    decoded = bad[RAW_RECORD].is_null()
    parts = [bad.filter(pc.invert(decoded)), bad.filter(decoded).drop_columns([RAW_RECORD])]
    return [part for part in parts if len(part)]


def _concat_by_schema(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Concatenate tables of the same columns."""
    by_schema: dict[str, list[pa.Table]] = {}
    for table in tables:
        by_schema.setdefault(str(table.schema), []).append(table)
    return [pa.concat_tables(same) for same in by_schema.values()]
