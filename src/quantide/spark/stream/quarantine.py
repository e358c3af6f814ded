"""The quarantine: files that could not be read and bad rows, listed with their reasons, and ingested again."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quantide.config import Config, StreamConfig
from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history.history import History
from quantide.spark.ingest import session_for
from quantide.spark.source_files import open_file
from quantide.spark.stream.file_retries import next_retry
from quantide.spark.stream.micro_batch import BatchWriter
from quantide.spark.stream.row_origin import COLUMN, CORRUPT, LINE, RAW_RECORD, REASON, SOURCE_FILE, TEXT_FORMATS
from quantide.spark.stream.running_stream import open_history
from quantide.spark.stream.source_access import source_access
from quantide.spark.stream.stream_source import changed_files, list_files
from quantide.spark.stream.stream_status import StreamStatus
from quantide.store.file_names import QUARANTINE
from quantide.store.ingest_log import RETRY, IngestedFile, IngestLog, list_log_files, source_of
from quantide.store.ingest_status import publish_status
from quantide.store.storage import Storage
from quantide.summary.value_json import count, write_line

ROWS = 3  # bad rows that are shown for each file and reason
MAX_CONTENT = 500  # characters of a row that are shown
OWN_COLUMNS = (REASON, COLUMN, SOURCE_FILE, LINE, CORRUPT, RAW_RECORD)


def show(config: Config, name: str | None, out: TextIO, json: bool = False, rows: int = ROWS) -> None:
    """List every file in quarantine, and the bad rows by file and reason with the first `rows` of them."""
    listings = [_list_quarantine(stream, rows) for stream in _select_streams(config, name)]
    if json:
        write_line(out, {"streams": listings})
        return
    for listing in listings:
        if not listing["begun"]:
            out.write(f"{listing['stream']}: nothing was taken in yet\n")
            continue
        bad_rows = sum(group["count"] for group in listing["rows"])
        out.write(
            f"{listing['stream']}: {count(len(listing['files']), 'file')} and {count(bad_rows, 'row')} are held, "
            f"{count(len(listing['waiting']), 'file')} to be tried again\n"
        )
        source = config.streams[listing["stream"]].source
        unit = "offset" if source.is_kafka else "line" if source.format in TEXT_FORMATS else "row"
        out.writelines(f"  file  {file['path']}: {file['reason']}\n" for file in listing["files"])
        for group in listing["rows"]:
            out.write(f"  rows  {group['count']:,} of {group['path'] or 'the stream'}: {group['reason']}\n")
            out.writelines(f"        {_format_position(row, unit)}{row['content']}\n" for row in group["examples"])
        out.writelines(f"  waits {file['path']}: {file['reason']}\n" for file in listing["waiting"])
        out.writelines(f"  other {file['path']}: {file['reason']}\n" for file in listing["changed"])


def _format_position(row: dict[str, Any], unit: str) -> str:
    """Format the line and column of a row; `unit` is "line" or "row"."""
    line = "" if row["line"] is None else f"{unit} {row['line']:,}"
    column = "" if row["column"] is None else f"column {row['column']}"
    position = ", ".join(part for part in (line, column) if part)
    return f"{position}: " if position else ""


def _list_quarantine(stream: StreamConfig, rows: int) -> dict[str, Any]:
    """List files and rows in quarantine, files that wait for a retry, and files that changed after ingestion."""
    empty: dict[str, Any] = {
        "stream": stream.name,
        "begun": False,
        "files": [],
        "rows": [],
        "waiting": [],
        "changed": [],
    }
    storage = stream.open_storage()
    if not storage.list_files("_delta_log"):
        return empty
    history = History(stream.folder, storage_options=stream.storage_options or None)
    ingest_log = IngestLog(history.table.storage, history.batch_seen)
    return empty | {
        "begun": True,
        "files": [
            {"path": path, "reason": entry.reason} for path, entry in sorted(ingest_log.quarantined_files.items())
        ],
        "rows": _list_bad_rows(storage, ingest_log, rows),
        "waiting": [{"path": path, "reason": entry.reason} for path, entry in sorted(ingest_log.waiting.items())],
        "changed": [{"path": path, "reason": reason} for path, reason in _find_changed(stream, ingest_log).items()],
    }


def _find_changed(stream: StreamConfig, ingest_log: IngestLog) -> dict[str, str]:
    if not stream.source.is_files or stream.source.is_table:
        return {}
    return changed_files(ingest_log.ingested, list_files(stream.source, source_access(stream.source)))


def retry(config: Config, name: str | None, master: str, out: TextIO, json: bool = False) -> None:
    """Ingest the quarantine again with the present configuration; files and rows that fail again stay in it."""
    streams = _select_streams(config, name)
    with session_for(config, master) as session:
        results = []
        for stream in streams:
            listed = list_log_files(stream.open_storage())
            with open_history(stream) as history:
                ingest_log = IngestLog(history.table.storage, history.batch_seen)
                writer = BatchWriter(stream, history, ingest_log, session)
                all_sources = not writer.store.loses_local_files  # else ingestion writes some of them again
                ingest_log.clean(name for name in listed if all_sources or source_of(name).startswith(RETRY))
                before = ingest_log.rows
                _retry_files(writer)
                _retry_rows(writer)
                ingested, files = ingest_log.rows - before, len(ingest_log.quarantined_files)
                rows = sum(group["count"] for group in _list_bad_rows(writer.store, ingest_log, 0))
                _publish_counts(stream, ingest_log, history)
            results.append({"stream": stream.name, "rows": ingested, "held_files": files, "held_rows": rows})
            if not json:
                out.write(
                    f"{stream.name}: {count(ingested, 'row')} taken in; {count(files, 'file')} and "
                    f"{count(rows, 'row')} are still held\n"
                )
    if json:
        write_line(out, {"streams": results})


def _retry_files(writer: BatchWriter) -> None:
    if writer.ingest_log.quarantined_files:
        writer.retry_files(next_retry(writer), list(writer.ingest_log.quarantined_files))


def _retry_rows(writer: BatchWriter) -> None:
    """Ingest bad rows again, from the Parquet files that have their original columns, and records of Kafka."""
    names = tuple(writer.ingest_log.quarantined_rows)
    sizes = {file.name: file.size for file in writer.store.list_files(QUARANTINE)}
    stored = [name for name in names if _stored_name(name) in sizes]
    records = [name for name in stored if _has_records(writer.store, name)]
    rows = tuple(name for name in names if name not in records)
    files = [IngestedFile(_stored_name(name), sizes[_stored_name(name)], 0) for name in stored if name in rows]
    if files:
        writer.retry_rows(next_retry(writer), files, rows)
    if records:
        writer.retry_records(next_retry(writer), [_stored_name(name) for name in records], tuple(records))
    for name in set(names) - set(writer.ingest_log.quarantined_rows):
        writer.store.remove(_stored_name(name))


def _has_records(storage: Storage, name: str) -> bool:
    """Return True if a file of the quarantine has Kafka records that could not be decoded."""
    with open_file(storage, _stored_name(name)) as file:
        return RAW_RECORD in pq.read_schema(file).names


def _publish_counts(stream: StreamConfig, ingest_log: IngestLog, history: History) -> None:
    """Publish the counts after a retry for readers of the store; ingestion is not running."""
    counts = (ingest_log.rows, ingest_log.bad, ingest_log.ahead, ingest_log.lost)
    status = StreamStatus(stream.name, *counts, unit=stream.unit)
    status.quarantined_files, status.waiting_files = len(ingest_log.quarantined_files), len(ingest_log.waiting)
    status.clock_problem = history.stats()["clock_problem"] or ""
    publish_status(history.table.storage, status.to_ingest_status(running=False))


def _list_bad_rows(storage: Storage, ingest_log: IngestLog, examples: int) -> list[dict[str, Any]]:
    return read_bad_rows(storage, [_stored_name(name) for name in ingest_log.quarantined_rows], examples)


def _stored_name(name: str) -> str:
    return f"{QUARANTINE}/{name}"


def _select_streams(config: Config, name: str | None) -> list[StreamConfig]:
    if name is None:
        return list(config.streams.values())
    if name not in config.streams:
        raise InvalidArgumentError(f"there is no stream {name!r}; there are {', '.join(config.streams)}")
    return [config.streams[name]]


@dataclass
class QuarantinedRows:
    """Bad rows of one file with one reason."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)


def read_bad_rows(storage: Storage, names: Iterable[str], examples: int) -> list[dict[str, Any]]:
    """Group the bad rows in files of the quarantine by source file and reason, with some examples of each."""
    groups: dict[tuple[str, str], QuarantinedRows] = {}
    for name in names:
        try:
            with open_file(storage, name) as file, pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches():
                    _add_rows(groups, pa.Table.from_batches([batch]), examples)
        except StorageError:
            raise
        except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
            raise CorruptBytesError(
                f"{storage.full_path(name)} is damaged: {error}; it has rows of the quarantine: restore it from a copy"
            ) from error
    return [
        {"path": path or None, "reason": reason, "count": rows.count, "examples": rows.examples}
        for (path, reason), rows in sorted(groups.items())
    ]


def _add_rows(groups: dict[tuple[str, str], QuarantinedRows], table: pa.Table, examples: int) -> None:
    for group in table.group_by([SOURCE_FILE, REASON]).aggregate([([], "count_all")]).to_pylist():
        rows = groups.setdefault((group[SOURCE_FILE] or "", group[REASON]), QuarantinedRows())
        rows.count += group["count_all"]
        missing = examples - len(rows.examples)
        if missing > 0:
            same = pc.and_kleene(
                pc.equal(table[SOURCE_FILE], group[SOURCE_FILE]), pc.equal(table[REASON], group[REASON])
            )
            rows.examples += [_to_example(row) for row in table.filter(same).slice(0, missing).to_pylist()]


def _to_example(row: dict[str, Any]) -> dict[str, Any]:
    """Return the line, the column at fault and the content of a row: the text of the line, or the columns as JSON."""
    columns = {name: value for name, value in row.items() if name not in OWN_COLUMNS}
    content = row.get(CORRUPT) or json.dumps(columns, default=str, ensure_ascii=False)
    shown = content if len(content) <= MAX_CONTENT else content[: MAX_CONTENT - 3] + "..."
    return {"line": row.get(LINE), "column": row.get(COLUMN), "content": shown}
