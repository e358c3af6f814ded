"""History: everything that ever arrived, on disk, and the open step, asked as one."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any

import pyarrow as pa

from quantide.errors import InvalidArgumentError, TypeMismatchError
from quantide.history.arrivals import Arrivals, read_arrivals
from quantide.history.keys import read_key, read_keys
from quantide.history.load import Loaded, Slot
from quantide.history.reader import HistoryReader
from quantide.history.rebuild import replace_side
from quantide.history.restore import Restored, restore
from quantide.history.snapshot import Snapshot
from quantide.history.sort import Chunk, chunk_of
from quantide.history.source import Piece, check_paths, read_files
from quantide.history.tasks import Executor
from quantide.history.vacuum import Vacuumed, check_hours, purge_retired, vacuum
from quantide.history.writer import Writer
from quantide.store.commits import WritableTable
from quantide.store.creation import create_table
from quantide.store.place import Folder, folder_of
from quantide.store.settings import CHANGEABLE, Settings
from quantide.summary.column import Column, check_nan_policy, plain_values, read_column, read_rows


class History(HistoryReader):
    """All data of a stream in sorted runs on disk, and the open step: exact on what is stored, within eps on the step.

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
    [1, 4]
    >>> h.close()

    The first argument says where; a store that is there is opened, and needs no other argument. The guarantee of
    every mode: docs/guarantees/history.md. What lies on disk: docs/store-format.md.
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
    ) -> None:
        given: dict[str, Any] = {"eps": eps, "kappa": kappa, "memory": memory, "keys": keys, "value_type": value_type}
        given |= {"retention": retention, "window": window, "filters": filters, "max_ahead": max_ahead}
        asked = {name: value for name, value in given.items() if value is not None}
        if eps is not None and memory is not None:
            raise InvalidArgumentError("eps and memory both say how accurate answers are; give one of them")
        folder = folder_of(path)
        table = WritableTable.open(Folder(folder))
        if table is None:
            table = create_table(folder, Settings.of(**asked), durable)
        if asked:
            table.settings.check_same(asked)
        self._changes = {name: asked[name] for name in CHANGEABLE if name in asked}
        super().__init__(table)
        table.durable = durable
        self._writing = RLock()  # questions do not wait for chunks to be written
        self._loading = RLock()  # vacuum does not know the names that tasks give their files
        self._writer = Writer(table, self._pin.newest, executor)
        weakref.finalize(self, self._writer.let_go).atexit = False  # the next writer need not wait for its merges

    @property
    def snapshot(self) -> Snapshot:
        """What questions are about: a writer's own commits are all there are; a reader looks for those of others."""
        return self._pin.newest() if self._writer.active else self._pin.refresh()

    # Writing

    def append(
        self,
        values: Any,
        key: Any = None,
        batch_id: Any = None,
        nan: str = "refuse",
        times: Any = None,
        filters: Mapping[str, Any] | None = None,
    ) -> None:
        """Add values to the open step; they are on disk, and visible to everyone, when this returns.

        `key` is one key for all, or one for each value; tuples where keys have several columns. A batch_id that was
        used before changes nothing: a number or text, or (source, number) for a source that counts upwards, of
        which only the last number is kept. After CommitUncertainError repeat the call as it was, or with the error's
        batch_id: rows that are in the store are not added again.

        `times` are for questions about recent values (quantide.live): one for each value or one for all, in any order;
        numbers (seconds) or timestamps. Without them values have the time at which they come. One further ahead of the
        wall clock than `max_ahead` raises FutureTimeError: it would move all windows of time there. `filters` tells for
        each declared filter which values satisfy it.
        """
        plain = plain_values(values)
        policy = check_nan_policy(nan)
        column = read_column(plain, self._kind)
        valid = read_rows(plain).valid if column.nulls else None
        keys = None
        if self._settings.keys and len(plain):
            with self._writing:
                self._begin()  # what types keys have is sure only for the writer
                keys = read_keys(key, self._settings.keys, len(plain), self.table.key_types())
            keys = keys if valid is None else keys.filter(pa.array(valid))
        elif key is not None and not self._settings.keys:
            read_key(key, (), None)
        chunk = chunk_of(keys, column, self._kind, policy)
        arrivals = self._arrivals(keys, column, valid, times, filters)
        with self._writing:
            self._begin()
            if batch_id is not None and self._writer.attempts.batch_seen(batch_id):
                return
            self._settle_keys(keys)
            self._writer.append([chunk], batch_id, arrivals)

    def append_files(
        self, paths: str | Sequence[str], column: str | None = None, batch_id: Any = None, nan: str = "refuse"
    ) -> int:
        """Add a column of Parquet files (with key columns of this store's names) in one commit; how many values.

        Files are read piece by piece: memory does not grow with their size.
        """
        policy = check_nan_policy(nan)
        names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        pieces = read_files(check_paths(names), column, self._settings, self.table.key_types)
        with self._writing:
            self._begin()
            if batch_id is not None and self._writer.attempts.batch_seen(batch_id):
                return 0
            return self._writer.append(self._settled(pieces, policy), batch_id)

    def load(
        self,
        tasks: int,
        write: Callable[[Slot], Iterable[Loaded]],
        key_types: Sequence[pa.DataType] = (),
        batch_id: Any = None,
    ) -> int:
        """Add what tasks write with quantide.history.load.write_chunks, in one commit; how many values.

        For executors of one's own: quantide.spark.build uses it to load a lake.
        """
        with self._loading, self._writing:
            self._begin()
            if batch_id is not None and self._writer.attempts.batch_seen(batch_id):
                return 0
            if key_types and self.table.key_types() is None:
                self.table.add_keys(list(key_types))
            return self._writer.load(tasks, write, batch_id)

    def batch_seen(self, batch_id: Any) -> bool:
        """Whether a batch with that id was appended; of a source that counts upwards, that one or a later one."""
        if not self._writer.active:
            self.table.refresh()
        return self._writer.attempts.batch_seen(batch_id)

    def open(self) -> None:
        """Become the store's one writer now, and not with the first append; WriterConflictError names another one."""
        with self._writing:
            self._begin()

    def end_step(self, wait: bool = True) -> None:
        """End the open step: its chunks become a run, and full levels are merged.

        With wait=False merges go on in the background, and so do appends and questions. An error of theirs, or of
        merging small chunks while the step was open, is raised by the next end_step() or by close().
        """
        with self._writing:
            self._begin()
            self._writer.end_step()
        if not self.table.behind:  # else the step has ended, and the next one makes up for its merges
            self._writer.merger.merge_levels(wait)

    def hold_steps(self, first: int, until: int) -> None:
        """Let the steps from `first` on, up to step `until`, expire as if they had ended when `until` was the open one.

        For rows whose steps were counted too early: they stay for one more retention from `until` on.
        """
        with self._writing:
            self._begin()
            self.table.commit(held=range(first, until))

    @property
    def merging(self) -> bool:
        """Whether merges go on in the background; the end of another step would wait for them."""
        return self._writer.merger.merging

    @property
    def key_types(self) -> list[pa.DataType] | None:
        """The types of the key columns; None while no batch has told them."""
        return self.table.key_types()

    @property
    def step(self) -> int:
        """The number of the open step; steps count from 1."""
        return self.table.step

    def vacuum(self, older_than_hours: float = 1, grace_hours: float | None = None) -> Vacuumed:
        """Remove files that were merged away, or left by writers that died, that long ago; shorten the log.

        Runs that retention dropped can be restored until half as many steps ended as the retention has, or until
        `grace_hours` of running time have passed: then they are removed, too.
        """
        hours = check_hours(older_than_hours)
        grace = None if grace_hours is None else check_hours(grace_hours, "grace_hours")
        with self._loading:
            with self._writing:
                self._begin()
            old = purge_retired(self.table, self._writer.retired, grace)
            rest = vacuum(self.table, self._writer.serials.pending, self._writer.recent.pending, hours)
            return Vacuumed(old.files + rest.files, old.bytes + rest.bytes)

    def restore(self) -> Restored:
        """Bring back the runs that retention dropped and that vacuum has not removed; they stay for one more retention.

        For a store whose steps ended too early, because a clock ran ahead. Restoring twice changes nothing.
        """
        with self._writing:
            self._begin()
            return restore(self.table, self._writer.retired)

    def close(self) -> None:
        """Wait for merges and give the lease back. A handle that is dropped instead loses nothing."""
        try:
            self._writer.close()
        finally:
            super().close()

    # Inside

    def _begin(self) -> None:
        """Become the writer, and leave no file without a side file that is in order."""
        if not self._writer.active:
            self._writer.begin()
            try:
                self.table.change_settings(self.table.settings.changed(self._changes))
                self.asking(self._pin.newest)
            except BaseException:
                self._writer.close()
                raise
        lost = self._catalog.rebuilt
        while lost:
            name = lost[0]
            if name in self.table.files():
                replace_side(self.table.place, name, self._settings, self.table.durable)
            lost.remove(name)

    def _arrivals(self, keys: Any, column: Column, valid: Any, times: Any, filters: Any) -> Arrivals | None:
        """The rows of an append for questions about recent values; None in a store that keeps none."""
        if self._settings.window is not None:
            arrivals = read_arrivals(keys, column, valid, times, filters, self._settings.filters)
            arrivals.check_ahead(self.table.settings.changed(self._changes).ahead)
            return arrivals
        if times is not None or filters is not None:
            raise InvalidArgumentError("this store keeps no recent values, so times and filters are of no use to it")
        return None

    def _settle_keys(self, keys: Any) -> None:
        """The first keys tell the types of the key columns."""
        if keys is None:
            return
        own = [field.type for field in keys.type] if len(self._settings.keys) > 1 else [keys.type]
        known = self.table.key_types()
        if known is None:
            self.table.add_keys(own)
        elif own != known:
            raise TypeMismatchError(f"another thread began with keys of {known} while these are {own}; repeat")

    def _settled(self, pieces: Iterable[Piece], nan: str) -> Iterator[Chunk]:
        for keys, column, _ in pieces:
            chunk = chunk_of(keys, column, self._kind, nan)
            self._settle_keys(keys)
            yield chunk
