"""Reader of a history: runs and open step of one version of a store, queried together."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.caching import ExpiringValue
from quantide.errors import CorruptBytesError, InvalidArgumentError, NoStoreError, StorageError
from quantide.history.file_rebuild import rebuild_index
from quantide.history.run import Run
from quantide.history.snapshot import Snapshot, SnapshotCatalog, SnapshotHolder, StepSpan
from quantide.history.span_view import HistoryAnswer, SpanComparison, SpanView
from quantide.history.span_view_cache import SpanViewCache
from quantide.history.verify import Name, VerifyResult, verify
from quantide.store.file_names import FileName
from quantide.store.index_file import IndexFile
from quantide.store.ingest_status import read_clock_problem
from quantide.store.location import open_storage
from quantide.store.log_repair import count_aside
from quantide.store.storage import Storage
from quantide.store.store_settings import StoreSettings
from quantide.store.stream_table import StreamTable
from quantide.summary.comparison import BINS, FLOOR, PHIS, Comparison, has_summary, summary_of
from quantide.summary.copying import NotCopied
from quantide.summary.interval_masses import masses_between
from quantide.summary.ranks import check_phis
from quantide.summary.summary import Summary
from quantide.summary.value_types import type_named
from quantide.typing import Floats

T = TypeVar("T")


class HistoryReader(NotCopied):
    """Store as of its opening or last refresh; read-only, needs no lease.

    >>> import tempfile
    >>> from quantide import History
    >>> h = History(tempfile.mkdtemp(), eps=0.01)
    >>> h.append(range(100))
    >>> reader = HistoryReader(h.path)
    >>> h.append(range(100, 200))
    >>> reader.n, reader.refresh(), reader.n, reader.refresh()
    (100, True, 200, False)
    >>> h.close()

    Several threads may query while another refreshes. If files of its version were vacuumed, the reader moves on to the
    newest version. A store may lie in an object store, for example "s3://bucket/stream", with `storage_options` as
    deltalake takes them: index files are fetched, and of data files the blocks that a query needs.
    A reader is not copied or pickled (CopyError): pass its path to the other process, and open it there.
    """

    REOPEN = "its files are open in this process; pass its path, and open HistoryReader(path) where it is needed"

    def __init__(
        self,
        store: str | os.PathLike[str] | StreamTable,
        memory: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.table = table = (
            store if isinstance(store, StreamTable) else _open_table(open_storage(store, storage_options))
        )
        self.path, self._settings = table.path, table.settings
        settings, storage = self._settings, table.storage
        self._kind = type_named(settings.value_type)
        self._catalog = SnapshotCatalog(storage, settings, partial(_recover_index, storage, settings))
        self._holder = SnapshotHolder(table, self._catalog)
        self._span_views = SpanViewCache(settings, storage, memory)
        self._clock_problem = ExpiringValue(partial(read_clock_problem, storage), storage.stale_seconds)
        self._set_aside = ExpiringValue(partial(_count_aside, storage), storage.stale_seconds)

    # Version

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot to query."""
        return self._holder.current()

    @property
    def version(self) -> int:
        """Version of the table to query."""
        return self.run_query(lambda: self.snapshot.version)

    def refresh(self, prepare: Callable[[Snapshot], None] | None = None) -> bool:
        """Move on to the newest version; return True if it is new. `prepare` may prepare span views of it before others
        see it.
        """
        previous = self._holder.version
        return self.run_query(lambda: self._holder.refresh(prepare)).version != previous

    def run_query(self, query: Callable[[], T]) -> T:
        """Run a query; if files were vacuumed under it, reload the table and run it again.

        Vacuumed files were compacted before, in a newer version of the table than the queried one.
        """
        while True:
            version = self._holder.version
            try:
                return query()
            except FileNotFoundError as error:
                self._span_views.clear()
                self._holder.reload()
                if self._holder.version == version:
                    raise CorruptBytesError(f"a file is missing: {error}; verify() names all that are") from error

    def close(self) -> None:
        """Close all files."""
        self._span_views.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Queries

    def answer(
        self, phi: float, mode: str = "accurate", last_steps: int | None = None, key: Any = None, widen: bool = False
    ) -> HistoryAnswer:
        """Return the phi-quantile of everything, or of the last steps with the open one, or of one key.

        mode="quick" reads no data and is within eps of all elements; "accurate" is within eps of the elements of
        the open step, reading at most one block of each run; "exact" is exact, reading one of each chunk as well. In an
        object store these are at most two, because blocks are read ahead. Over all keys of a store with many keys, both
        scan the blocks that may contain the answer, which can be all; quantiles() scans them once for many phis.
        With a tail, quick and accurate answers are also within tail times the number of elements on either side.
        """
        return self.run_query(lambda: self.span_view(last_steps, key, widen).answer(phi, mode))

    def quantile(self, phi: float, mode: str = "accurate", last_steps: int | None = None, key: Any = None) -> Any:
        """Return the value of answer(phi)."""
        return self.answer(phi, mode, last_steps, key).value

    def quantiles(
        self, phis: ArrayLike, mode: str = "accurate", last_steps: int | None = None, key: Any = None
    ) -> NDArray[Any]:
        """Return the values for many phis."""
        phi_array = check_phis(phis)

        def query() -> list[Any]:
            answers = self.span_view(last_steps, key).answers(phi_array.ravel().tolist(), mode)
            return [answer.value for answer in answers]

        return np.array(self.run_query(query), dtype=self._kind.dtype).reshape(phi_array.shape)

    def rank(
        self,
        value: Any,
        mode: str = "accurate",
        last_steps: int | None = None,
        key: Any = None,
        *,
        inclusive: bool = True,
    ) -> tuple[Any, Any]:
        """Return certified bounds (lo, hi) on the number of elements <= value; arrays for an array of values.

        With inclusive=False, on the number of elements < value.
        """
        return self.run_query(lambda: self.span_view(last_steps, key).rank(value, mode, inclusive))

    def cdf(
        self,
        values: Any,
        mode: str = "accurate",
        last_steps: int | None = None,
        key: Any = None,
        *,
        inclusive: bool = True,
    ) -> Any:
        """Return the fraction of the elements that are <= each value; < with inclusive=False."""

        def query() -> Any:
            view = self.span_view(last_steps, key)
            low, high = view.rank(values, mode, inclusive)
            return (low + high) / 2 / view.n

        return self.run_query(query)

    def pmf(
        self,
        splits: Any,
        mode: str = "accurate",
        last_steps: int | None = None,
        key: Any = None,
        *,
        inclusive: bool = True,
    ) -> Floats:
        """Return the fraction of the elements in each interval between splits; see Summary.pmf."""
        return masses_between(splits, lambda values: self.cdf(values, mode, last_steps, key, inclusive=inclusive))

    @property
    def min(self) -> Any:
        """Smallest element of everything, exact. It reads index files only."""
        return self.quantile(0, mode="quick")

    @property
    def max(self) -> Any:
        """Largest element of everything, exact. It reads index files only."""
        return self.quantile(1, mode="quick")

    def summary(self, last_steps: int | None = None, key: Any = None) -> Summary:
        """Return a summary of everything, or of the last steps with the open one, or of one key; it reads no data."""
        return self.run_query(lambda: self.span_view(last_steps, key).quick)

    def compare(
        self,
        other: Any = None,
        last_steps: int | None = None,
        against: int | tuple[int, int] | None = None,
        key: Any = None,
        mode: str = "accurate",
        *,
        phis: ArrayLike = PHIS,
        bins: Any = BINS,
        floor: float = FLOOR,
    ) -> Any:
        """Compare a span with anything that has a summary: KS, PSI and Wasserstein distance, and the shifts of phis.

        With phis in place of `other`, compare each phi of the span with the same phi of another: the last steps against
        more of them. `against` is a number of last steps, None for everything, or (first, last) for steps that ended,
        without the open one. Both spans must end where runs end, see spans().
        """
        if has_summary(other):
            return Comparison(self.summary(last_steps, key), summary_of(other), phis, bins, floor)
        return self._compare_spans(phis if other is None else other, last_steps, against, key, mode)

    def _compare_spans(
        self, phis: ArrayLike, last_steps: int | None, against: int | tuple[int, int] | None, key: Any, mode: str
    ) -> list[SpanComparison]:
        if isinstance(against, tuple) and len(against) != 2:
            raise InvalidArgumentError(f"against={against!r} is not a number of last steps, or (first, last)")

        def query() -> list[SpanComparison]:
            view = self.span_view(last_steps, key)
            if isinstance(against, tuple):
                other = self._span_views.of_steps(self.snapshot, *against, key)
            else:
                other = self.span_view(against, key)
            phi_list, comparisons = np.atleast_1d(check_phis(phis)).tolist(), []
            answers, references = view.answers(phi_list, mode), other.answers(phi_list, mode)
            for phi, answer, reference in zip(phi_list, answers, references, strict=True):
                low, high = other.rank(answer.value, mode)
                comparisons.append(SpanComparison(phi, answer, reference, (low / other.n, high / other.n)))
            return comparisons

        return self.run_query(query)

    def spans(self) -> list[StepSpan]:
        """Return the spans of last steps that can be queried; each includes the open step."""
        return self.run_query(lambda: self.snapshot).spans()

    def verify(self) -> VerifyResult:
        """Read all files again; CorruptBytesError names the damaged ones."""
        checked: set[Name] = set()
        return self.run_query(lambda: verify(self.table, self.snapshot, checked))

    def stats(self) -> dict[str, Any]:
        """Return counts of values, runs by level, steps, bytes on disk, blocks, memory, and requests to an object
        store.
        """
        snapshot = self.run_query(lambda: self.snapshot)
        levels: dict[int, int] = {}
        for run in snapshot.runs:
            levels[run.id.level] = levels.get(run.id.level, 0) + 1
        parts = snapshot.files
        return {
            "values": snapshot.history_rows + snapshot.stream_rows,
            "history_values": snapshot.history_rows,
            "stream_values": snapshot.stream_rows,
            "nulls": sum(part.index.info.nulls for part in parts),
            "nans": sum(part.index.info.nans for part in parts),
            "steps": snapshot.step - 1,
            "runs": len(snapshot.runs),
            "runs_by_level": dict(sorted(levels.items())),
            "chunks": len(snapshot.chunks),
            "files": len(parts),
            "blocks": sum(len(part.index.fences) for part in parts),
            "bytes": sum(part.index.info.data_size for part in parts),
            "memory": self._catalog.nbytes + self._span_views.nbytes,
            "memory_by_use": {"directories": self._catalog.nbytes, **self._span_views.nbytes_by_use},
            "memory_limit": self._settings.memory,
            "version": snapshot.version,
            "clock_problem": self._clock_problem.get(),
            "set_aside": self._set_aside.get(),
            **self._count_requests(),
        }

    def _count_requests(self) -> dict[str, int]:
        """Return counts of the requests to an object store since it was opened; all are 0 for a folder."""
        counts = self.table.storage.counts
        return {
            "requests": counts.requests,
            "retries": counts.retries,
            "bytes_fetched": counts.bytes_read,
            "bytes_stored": counts.bytes_written,
            "cache_hits": counts.cache_hits,
        }

    def runs(self) -> list[Run]:
        """Return the runs of ended steps, the oldest first."""
        return list(self.run_query(lambda: self.snapshot).runs)

    @property
    def index_nbytes(self) -> int:
        """Bytes that queries search: directories, first values of blocks, summaries of runs and of the open step."""
        view = self.run_query(self.span_view)
        return self._catalog.nbytes + view.runs_nbytes + self._span_views.open_step.nbytes

    @property
    def eps(self) -> float:
        """Promised error for the open step, and for quick answers over everything."""
        return self._settings.eps

    @property
    def tail(self) -> float | None:
        """Promised tail: no quick or accurate answer is further than tail times its distance from either end, and half
        a rank. None if eps alone limits the error.
        """
        return self._settings.tail

    @property
    def n(self) -> int:
        """Number of values."""
        snapshot = self.run_query(lambda: self.snapshot)
        return snapshot.history_rows + snapshot.stream_rows

    @property
    def settings(self) -> StoreSettings:
        return self.table.settings

    def __repr__(self) -> str:
        snapshot = self.run_query(lambda: self.snapshot)
        values = snapshot.history_rows + snapshot.stream_rows
        return f"{type(self).__name__}({self.path!r}, values={values}, steps={snapshot.step - 1})"

    def span_view(
        self,
        last_steps: int | None = None,
        key: Any = None,
        widen: bool = False,
        snapshot: Snapshot | None = None,
        cached: bool = True,
    ) -> SpanView:
        """Return an immutable view of a span. Query it within run_query(): its files may be vacuumed.

        `cached=False` is for callers with a cache of their own.
        """
        return self._span_views.of_last_steps(snapshot or self.snapshot, last_steps, key, widen, cached)


def _recover_index(storage: Storage, settings: StoreSettings, name: FileName) -> bytes:
    """Return an index file that could not be read: from the store if only a cached one is damaged, or else rebuilt."""
    try:
        data = storage.read(name.index)
        IndexFile(data, name.index).check()
    except StorageError:
        raise
    except (OSError, CorruptBytesError):  # it is missing, damaged, or no file
        return rebuild_index(storage, name, settings)
    return data


def _count_aside(storage: Storage) -> int:
    """Return the number of files of the log that were set aside; 0 while the store cannot be reached."""
    try:
        return count_aside(storage)
    except StorageError:
        return 0


def _open_table(storage: Storage) -> StreamTable:
    table = StreamTable.open(storage)
    if table is None:
        raise NoStoreError(
            f"there is no history in {storage.path}: nothing was written there yet, or the path is wrong. Write with "
            "History(path) or `quantide ingest`"
        )
    return table
