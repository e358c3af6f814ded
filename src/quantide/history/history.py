"""History: all data of a stream in runs on disk, and the open step."""

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import pyarrow as pa

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.history.appended_rows import (
    AppendedRows,
    ParquetPiece,
    check_paths,
    read_appended_rows,
    read_files,
    read_row_counts,
    repeat_rows,
)
from quantide.history.bulk_load import BulkLoad
from quantide.history.chunk_sort import SortedChunk, sort_chunk
from quantide.history.compaction_tasks import Executor
from quantide.history.deletion import DeleteResult, Deletion
from quantide.history.file_rebuild import replace_index
from quantide.history.history_reader import HistoryReader
from quantide.history.history_writer import HistoryWriter
from quantide.history.key_columns import read_key, read_keys
from quantide.history.snapshot import Snapshot
from quantide.history.step_times import read_before
from quantide.history.vacuum import RestoreResult, VacuumResult, check_hours, purge_retired, restore, vacuum
from quantide.store.ingest_log import IngestLog
from quantide.store.location import open_storage
from quantide.store.store_settings import CHANGEABLE, StoreSettings
from quantide.store.table_creation import create_table
from quantide.store.writable_table import WritableTable
from quantide.summary.ranks import DEFAULT
from quantide.summary.value_column import ValueColumn, check_nan_policy, plain_values, read_column, read_rows


class History(HistoryReader):
    """All data of a stream in sorted runs on disk, and the open step: exact for stored runs, within eps for the open
    step.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> h = History(folder, eps=0.01, kappa=2)
    >>> for step in range(4):
    ...     h.append(range(step * 1000, step * 1000 + 1000))
    ...     h.end_step()
    >>> h.append(range(4000, 4100))
    >>> answer = h.answer(0.5)
    >>> answer.value, answer.error <= 0.01 * 100 / 4100, answer.blocks_read <= h.stats()["runs"]
    (np.float64(2049.0), True, True)
    >>> [span.last_steps for span in h.spans()]
    [1, 2, 4]
    >>> h.close()

    `path` is the folder of the store, or a prefix in an object store ("s3://bucket/stream", "az://...", "gs://...")
    with its `storage_options`; an existing store is opened, and needs no other argument. `tail` is the largest
    error as a fraction of the distance from either end, by default 10 * eps for eps up to 0.01, and None (eps alone)
    above, with `memory`, and in stores of earlier versions. The guarantee of every mode: docs/guarantees/history.md.
    The files on disk: docs/store-format.md.
    """

    table: WritableTable
    REOPEN = (
        "it holds the lease of its store, and a store has one writer; pass its path, and open HistoryReader(path) "
        "where it is read, or close it and open History(path) where it is written"
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        eps: float | None = None,
        kappa: int | None = None,
        memory: int | str | None = None,
        keys: str | Sequence[str] | None = None,
        value_type: str | None = None,
        retention: int | None = None,
        durable: bool = False,
        executor: Executor | None = None,
        window: Any = None,
        filters: str | Sequence[str] | None = None,
        max_ahead: Any = None,
        tail: float | None = DEFAULT,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        values: dict[str, Any] = {"eps": eps, "kappa": kappa, "memory": memory, "keys": keys, "value_type": value_type}
        values |= {"retention": retention, "window": window, "filters": filters, "max_ahead": max_ahead}
        settings = {name: value for name, value in values.items() if value is not None}
        if tail is not DEFAULT:
            settings["tail"] = tail
        if eps is not None and memory is not None:
            raise InvalidArgumentError("eps and memory both say how accurate answers are; give one of them")
        storage = open_storage(path, storage_options, durable)
        table = WritableTable.open(storage)
        if table is None:
            table = create_table(storage, StoreSettings.of(**settings))
        if settings:
            table.settings.check_equal(settings)
        self._setting_changes = {name: settings[name] for name in CHANGEABLE if name in settings}
        super().__init__(table)
        self._write_lock = RLock()  # of writes; queries do not wait for it
        self._load_lock = RLock()  # of bulk loads and vacuum, which does not know the names reserved for tasks
        self._writer = HistoryWriter(table, self._holder.advance, executor)
        weakref.finalize(self, self._writer.release).atexit = False  # the next writer does not wait for its compactions

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot to query: the newest version. A writer has made all commits itself; a reader looks for new ones."""
        return self._holder.advance() if self._writer.is_active else self._holder.refresh()

    # Writing

    def append(
        self,
        values: Any,
        key: Any = None,
        batch_id: Any = None,
        nan: str = "refuse",
        times: Any = None,
        filters: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> None:
        """Append values to the open step; they are on disk, and visible to all readers, when this returns.

        `key` is one key for all values, or one for each; tuples where keys have several columns. A batch_id that was
        used before changes nothing: a number or text, or (source, number) for a source that counts upwards, of which
        only the last number is stored. After CommitUncertainError repeat the call as it was, or with the error's
        batch_id: rows that are in the store are not added again.

        `times` are for queries of recent values (quantide.live): one for each value or one for all, in any order;
        numbers (seconds) or timestamps. Without them values are dated on arrival. A time further ahead of the wall
        clock than `max_ahead` raises FutureTimeError: it would move all time windows there. `filters` is a mask for
        each declared filter: True for the values that satisfy it.

        `weights` are whole numbers, one for each value or one for all: a value of weight w is stored as w rows. Their
        sum may be at most 2**26; divide larger ones among several calls.
        """
        rows_like = plain_values(values)
        policy = check_nan_policy(nan)
        counts = None if weights is None else read_row_counts(weights, len(rows_like))
        column = read_column(rows_like, self._kind)
        valid = read_rows(rows_like).valid if column.nulls else None
        keys = None
        if self._settings.keys and len(rows_like):
            with self._write_lock:
                self._become_writer()  # only the writer knows the key types for certain
                keys = read_keys(key, self._settings.keys, len(rows_like), self.table.key_types())
            keys = keys if valid is None else keys.filter(pa.array(valid))
        elif key is not None and not self._settings.keys:
            read_key(key, (), None)
        recent_rows = self._read_recent(keys, column, valid, times, filters)
        if counts is not None:
            keys, column, recent_rows = repeat_rows(keys, column, recent_rows, counts, valid)
        chunk = sort_chunk(keys, column, self._kind, policy)
        with self._write_lock:
            self._become_writer()
            if batch_id is not None and self._writer.attempts.batch_seen(batch_id):
                return
            self._declare_keys(keys)
            self._writer.append([chunk], batch_id, recent_rows)

    def append_files(
        self,
        paths: str | Sequence[str],
        column: str | None = None,
        batch_id: Any = None,
        nan: str = "refuse",
        weights: str | None = None,
    ) -> int:
        """Append a column of Parquet files (with key columns of this store's names) in one commit; return the number of
        values.

        Files are read piece by piece: memory does not grow with their size. Files that a repair set aside are given by
        their full path in the store.

        `weights` names a column of whole numbers: a value of weight w is stored as w rows. In every 2**20 rows of a
        file their sum may be at most 2**26.
        """
        policy = check_nan_policy(nan)
        names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        pieces = read_files(
            check_paths(names), column, self._settings, self.table.key_types, self.table.storage, weights
        )
        with self._write_lock:
            self._become_writer()
            if batch_id is not None and self._writer.attempts.batch_seen(batch_id):
                return 0
            return self._writer.append(self._sort_pieces(pieces, policy), batch_id)

    @contextmanager
    def bulk_load(self, key_types: Sequence[pa.DataType] = (), batch_id: Any = None) -> Iterator[BulkLoad]:
        """Load files that tasks write with quantide.history.bulk_load.write_chunks, in one commit.

        For tasks of your own executor: reserve names, let the tasks write, commit the files they wrote. No other thread
        writes or vacuums until the block ends. quantide.spark.history_build loads a lake this way.
        """
        with self._load_lock, self._write_lock:
            self._become_writer()
            is_repeat = batch_id is not None and self._writer.attempts.batch_seen(batch_id)
            if key_types and not is_repeat and self.table.key_types() is None:
                self.table.add_keys(list(key_types))
            load = BulkLoad(self._writer, batch_id, is_repeat)
            try:
                yield load
            finally:
                load.close()

    def batch_seen(self, batch_id: Any) -> bool:
        """Return True if a batch with that id was appended; for a source that counts upwards, that one or a later one
        is enough.
        """
        if not self._writer.is_active:
            self.table.refresh()
        return self._writer.attempts.batch_seen(batch_id)

    def open(self) -> None:
        """Become the store's only writer now instead of with the first append; WriterConflictError names another
        writer.
        """
        with self._write_lock:
            self._become_writer()

    def end_step(self, wait: bool = True) -> None:
        """End the open step: its chunks become a run, and full levels are compacted.

        With wait=False compaction runs in the background, and so do appends and queries. Its error, or one of
        compacting small chunks while the step was open, is raised by the next end_step() or by close().
        """
        with self._write_lock:
            self._become_writer()
            self._writer.end_step()
        if not self.table.is_behind:  # if it is, the step has ended, and the end of the next one compacts
            self._writer.compactor.compact_levels(wait)

    def hold_steps(self, first: int, until: int) -> None:
        """Let the steps from `first` on, up to step `until`, expire as if they had ended when `until` was the open one.

        For rows whose steps were counted too early: they stay for one more retention from `until` on.
        """
        with self._write_lock:
            self._become_writer()
            self.table.commit(extended=range(first, until))

    @property
    def merging(self) -> bool:
        """Return True while ended steps are compacted in the background; ending another step would wait for that."""
        return self._writer.compactor.is_compacting

    @property
    def key_types(self) -> list[pa.DataType] | None:
        """Types of the key columns; None until the first append."""
        return self.table.key_types()

    @property
    def step(self) -> int:
        """Number of the open step; steps count from 1."""
        return self.table.step

    def vacuum(self, older_than_hours: float = 1, grace_hours: float | None = None) -> VacuumResult:
        """Remove files that were compacted away, or left by writers that died, that long ago; shorten the log.

        Runs dropped by retention can be restored until half as many steps have ended as the retention has, or until
        `grace_hours` of running time have passed: then they are removed, too.
        """
        hours = check_hours(older_than_hours)
        grace = None if grace_hours is None else check_hours(grace_hours, "grace_hours")
        with self._load_lock:
            with self._write_lock:
                self._become_writer()
            expired = purge_retired(self.table, self._writer.retired, grace)
            unused = vacuum(self.table, self._writer.serials.pending, self._writer.recent.pending, hours)
            return VacuumResult(expired.files + unused.files, expired.bytes + unused.bytes)

    def restore(self) -> RestoreResult:
        """Restore the runs that retention dropped and vacuum has not removed; they stay for one more retention.

        For a store whose steps ended too early because a clock ran ahead. Restoring twice changes nothing.
        """
        with self._write_lock:
            self._become_writer()
            return restore(self.table, self._writer.retired)

    def delete(self, key: Any = None, before: Any = None, dry_run: bool = False) -> DeleteResult:
        """Delete all rows of a key, or all steps before one; return the number of rows, and the files that had them.

        `before` is the number of a step, or a time: steps that ended before it. Both must end where runs end, see
        spans(). What was deleted is not restored by restore(), and is gone from disk after vacuum(0); its batches still
        count as seen. With `dry_run` nothing changes. docs/guarantees/history.md has the details.
        """
        if (key is None) == (before is None):
            raise InvalidArgumentError("delete() takes a key (key=) or the oldest steps (before=): give one of them")
        if not dry_run:
            with self._write_lock:
                self._become_writer()
        deletion = Deletion(self._writer, lambda: self.snapshot, self._write_lock, dry_run)
        if key is not None:
            parsed = read_key(key, self._settings.keys, self.run_query(lambda: self.snapshot).key_types)
            return self.run_query(lambda: deletion.delete_key(parsed))
        snapshot = self.run_query(lambda: self.snapshot)
        step, time = read_before(before, snapshot.step, lambda: IngestLog(self.table.storage, self.batch_seen).origin)
        return self.run_query(lambda: deletion.delete_before(step, time))

    def close(self) -> None:
        """Wait for compactions and release the lease. A handle dropped without close() loses nothing."""
        try:
            self._writer.close()
        finally:
            super().close()

    # Internals

    def _become_writer(self) -> None:
        """Take the lease, and rewrite the index files that were lost or damaged."""
        if not self._writer.is_active:
            self._writer.acquire()
            try:
                self.table.change_settings(self.table.settings.with_changes(self._setting_changes))
                self.run_query(self._holder.advance)
            except BaseException:
                self._writer.close()
                raise
        rebuilt = self._catalog.rebuilt
        while rebuilt:
            name = rebuilt[0]
            if name in self.table.files():
                replace_index(self.table.storage, name, self._settings)
            rebuilt.remove(name)

    def _read_recent(self, keys: Any, column: ValueColumn, valid: Any, times: Any, filters: Any) -> AppendedRows | None:
        """Return the rows of an append for queries of recent values; None in a store that has none."""
        if self._settings.window is not None:
            recent_rows = read_appended_rows(keys, column, valid, times, filters, self._settings.filters)
            recent_rows.check_ahead(self.table.settings.with_changes(self._setting_changes).ahead)
            return recent_rows
        if times is not None or filters is not None:
            raise InvalidArgumentError("this store keeps no recent values, so times and filters are of no use to it")
        return None

    def _declare_keys(self, keys: Any) -> None:
        """Declare the types of the key columns by the first keys; later ones must have the same."""
        if keys is None:
            return
        types = [field.type for field in keys.type] if len(self._settings.keys) > 1 else [keys.type]
        declared = self.table.key_types()
        if declared is None:
            self.table.add_keys(types)
        elif types != declared:
            raise TypeMismatchError(f"another thread declared keys of {declared}, and these are {types}; repeat")

    def _sort_pieces(self, pieces: Iterable[ParquetPiece], nan: str) -> Iterator[SortedChunk]:
        for keys, column, _ in pieces:
            chunk = sort_chunk(keys, column, self._kind, nan)
            self._declare_keys(keys)
            yield chunk
