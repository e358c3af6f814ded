"""The quarantine: files that could not be read and rows that had no place, shown, and tried again."""

import os
from typing import Any, TextIO

from quantide.config import Config, StreamConfig
from quantide.errors import InvalidArgumentError
from quantide.history.history import History
from quantide.spark.ingest import session_for
from quantide.spark.stream.bad_rows import read_bad_rows
from quantide.spark.stream.batch import BatchWriter
from quantide.spark.stream.lines import TEXT_FORMATS
from quantide.spark.stream.listing import changed_files, list_files
from quantide.spark.stream.retry import next_retry
from quantide.spark.stream.stream import open_history
from quantide.spark.stream.work import look
from quantide.store.disk import remove
from quantide.store.ledger import Ledger
from quantide.store.names import QUARANTINE
from quantide.store.storage import Storage
from quantide.summary.shown import write_line

ROWS = 3  # bad rows of a kind that are shown


def show(config: Config, name: str | None, out: TextIO, json: bool = False, rows: int = ROWS) -> None:
    """Every file that is held, and every kind of bad row, with its reason and the first `rows` of them."""
    held = [_held(stream, rows) for stream in _chosen(config, name)]
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
        count = "line" if config.streams[one["stream"]].source.format in TEXT_FORMATS else "row"
        out.writelines(f"  file  {file['path']}: {file['reason']}\n" for file in one["files"])
        for kind in one["rows"]:
            out.write(f"  rows  {kind['count']:,} of {kind['path'] or 'the stream'}: {kind['reason']}\n")
            out.writelines(f"        {_place_of(row, count)}{row['content']}\n" for row in kind["examples"])
        out.writelines(f"  waits {file['path']}: {file['reason']}\n" for file in one["waiting"])
        out.writelines(f"  other {file['path']}: {file['reason']}\n" for file in one["changed"])


def _place_of(row: dict[str, Any], count: str) -> str:
    """Place of a row, as the list shows it; `count` is "line" or "row"."""
    line = "" if row["line"] is None else f"{count} {row['line']:,}"
    column = "" if row["column"] is None else f"column {row['column']}"
    place = ", ".join(part for part in (line, column) if part)
    return f"{place}: " if place else ""


def _held(stream: StreamConfig, rows: int) -> dict[str, Any]:
    """Held files and rows of a stream, files that will be tried again, and files that changed after they were taken."""
    found: dict[str, Any] = {
        "stream": stream.name,
        "begun": False,
        "files": [],
        "rows": [],
        "waiting": [],
        "changed": [],
    }
    if not os.path.isdir(os.path.join(stream.folder, "_delta_log")):
        return found
    ledger = Ledger(stream.folder, History(stream.folder).batch_seen)
    return found | {
        "begun": True,
        "files": [{"path": path, "reason": entry.reason} for path, entry in sorted(ledger.quarantined.items())],
        "rows": _bad_rows(stream, ledger, rows),
        "waiting": [{"path": path, "reason": entry.reason} for path, entry in sorted(ledger.waiting.items())],
        "changed": [{"path": path, "reason": reason} for path, reason in _changed(stream, ledger).items()],
    }


def _changed(stream: StreamConfig, ledger: Ledger) -> dict[str, str]:
    if not stream.source.is_files:
        return {}
    return changed_files(ledger.taken, list_files(stream.source, Storage()))


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
                rows = sum(kind["count"] for kind in _bad_rows(stream, ledger, 0))
            done.append({"stream": stream.name, "rows": taken, "held_files": files, "held_rows": rows})
            if not json:
                out.write(
                    f"{stream.name}: {taken:,} rows were taken in; {files:,} files and {rows:,} rows are still held\n"
                )
    if json:
        write_line(out, {"streams": done})


def _retry_files(writer: BatchWriter) -> None:
    if writer.ledger.quarantined:
        writer.take_again(next_retry(writer), list(writer.ledger.quarantined))


def _retry_rows(writer: BatchWriter) -> None:
    """Rows that were held are a Parquet file with the columns they came with."""
    names = tuple(writer.ledger.held)
    paths = [_place(writer.stream, name) for name in names]
    found = [file for path in paths if (file := look(writer.storage, path)) is not None]
    if found:
        writer.take_rows(next_retry(writer), found, names)
        for name in set(names) - set(writer.ledger.held):
            remove(_place(writer.stream, name))


def _bad_rows(stream: StreamConfig, ledger: Ledger, examples: int) -> list[dict[str, Any]]:
    return read_bad_rows([_place(stream, name) for name in ledger.held], examples)


def _place(stream: StreamConfig, name: str) -> str:
    return os.path.join(stream.folder, QUARANTINE, name)


def _chosen(config: Config, name: str | None) -> list[StreamConfig]:
    if name is None:
        return list(config.streams.values())
    if name not in config.streams:
        raise InvalidArgumentError(f"there is no stream {name!r}; there are {', '.join(config.streams)}")
    return [config.streams[name]]
