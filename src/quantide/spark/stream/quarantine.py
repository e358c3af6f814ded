"""The quarantine: files that could not be read and rows that had no place, shown, and tried again."""

import os
from typing import Any, TextIO

import pyarrow.parquet as pq

from quantide.config import Config, StreamConfig
from quantide.errors import InvalidArgumentError
from quantide.history.history import History
from quantide.spark.ingest import session_for
from quantide.spark.stream.batch import BatchWriter
from quantide.spark.stream.intake import REASON
from quantide.spark.stream.retry import next_retry
from quantide.spark.stream.selection import CAME_FROM
from quantide.spark.stream.stream import open_history
from quantide.spark.stream.work import look
from quantide.store.disk import remove
from quantide.store.ledger import Ledger
from quantide.store.names import QUARANTINE
from quantide.summary.shown import write_line


def show(config: Config, name: str | None, out: TextIO, json: bool = False) -> None:
    """Every file that is held, and every kind of bad row, with its reason."""
    held = [_held(stream) for stream in _chosen(config, name)]
    if json:
        write_line(out, {"streams": held})
        return
    for one in held:
        if not one["begun"]:
            out.write(f"{one['stream']}: nothing was taken in yet\n")
            continue
        out.write(
            f"{one['stream']}: {len(one['files']):,} files and {sum(row['count'] for row in one['rows']):,} rows are "
            f"held, {len(one['waiting']):,} files wait to be tried again\n"
        )
        out.writelines(f"  file  {file['path']}: {file['reason']}\n" for file in one["files"])
        out.writelines(
            f"  rows  {row['count']:,} of {row['path'] or 'the stream'}: {row['reason']}\n" for row in one["rows"]
        )
        out.writelines(f"  waits {file['path']}: {file['reason']}\n" for file in one["waiting"])


def _held(stream: StreamConfig) -> dict[str, Any]:
    """What is held of a stream: files, rows by file and reason, and files that will be tried again by themselves."""
    if not os.path.isdir(os.path.join(stream.folder, "_delta_log")):
        return {"stream": stream.name, "begun": False, "files": [], "rows": [], "waiting": []}
    ledger = Ledger(stream.folder, History(stream.folder).batch_seen)
    rows = sorted(_bad_rows(stream, ledger).items())
    return {
        "stream": stream.name,
        "begun": True,
        "files": [{"path": path, "reason": entry.reason} for path, entry in sorted(ledger.quarantined.items())],
        "rows": [{"path": path or None, "reason": reason, "count": count} for (path, reason), count in rows],
        "waiting": [{"path": path, "reason": entry.reason} for path, entry in sorted(ledger.waiting.items())],
    }


def retry(config: Config, name: str | None, master: str, out: TextIO, json: bool = False) -> None:
    """Take in again what is held, by the configuration as it is now; what fails again is held again."""
    chosen = _chosen(config, name)
    with session_for(config, master) as session:
        done = []
        for stream in chosen:
            with open_history(stream) as history:
                ledger = Ledger(stream.folder, history.batch_seen, stream.durable)
                ledger.clean()
                writer = BatchWriter(stream, history, ledger, session)
                before = ledger.rows
                _retry_files(writer)
                _retry_rows(writer)
                taken, files = ledger.rows - before, len(ledger.quarantined)
                rows = sum(_bad_rows(stream, ledger).values())
            done.append({"stream": stream.name, "rows": taken, "held_files": files, "held_rows": rows})
            if not json:
                out.write(
                    f"{stream.name}: {taken:,} rows were taken in; {files:,} files and {rows:,} rows are still held\n"
                )
    if json:
        write_line(out, {"streams": done})


def _retry_files(writer: BatchWriter) -> None:
    held = writer.ledger.quarantined
    files = [look(writer.storage, path) or entry.file for path, entry in held.items()]
    if files:
        writer.take_files(next_retry(writer), files)


def _retry_rows(writer: BatchWriter) -> None:
    """Rows that were held are a Parquet file with the columns they came with."""
    names = tuple(writer.ledger.held)
    paths = [_place(writer.stream, name) for name in names]
    found = [file for path in paths if (file := look(writer.storage, path)) is not None]
    if found:
        writer.take_rows(next_retry(writer), found, names)
        for name in set(names) - set(writer.ledger.held):
            remove(_place(writer.stream, name))


def _bad_rows(stream: StreamConfig, ledger: Ledger) -> dict[tuple[str, str], int]:
    """How many rows of which file have which reason."""
    out: dict[tuple[str, str], int] = {}
    for name in ledger.held:
        table = pq.read_table(_place(stream, name), columns=[CAME_FROM, REASON])
        for row in table.group_by([CAME_FROM, REASON]).aggregate([([], "count_all")]).to_pylist():
            where = (row[CAME_FROM] or "", row[REASON])
            out[where] = out.get(where, 0) + row["count_all"]
    return out


def _place(stream: StreamConfig, name: str) -> str:
    return os.path.join(stream.folder, QUARANTINE, name)


def _chosen(config: Config, name: str | None) -> list[StreamConfig]:
    if name is None:
        return list(config.streams.values())
    if name not in config.streams:
        raise InvalidArgumentError(f"there is no stream {name!r}; there are {', '.join(config.streams)}")
    return [config.streams[name]]
