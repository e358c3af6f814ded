"""History: everything that ever arrived, on disk, and the open step, asked as one."""

import os
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from quantide.errors import CorruptBytesError, InvalidArgumentError, TypeMismatchError
from quantide.history.answer import Comparison, HistoryAnswer
from quantide.history.blocks import Blocks
from quantide.history.keys import read_key, read_keys
from quantide.history.load import Loaded, Slot
from quantide.history.rebuild import check_part, missing, rebuild_side, replace_side
from quantide.history.run import Key, Run
from quantide.history.snapshot import Catalog, Snapshot, Span
from quantide.history.sort import Chunk, chunk_of
from quantide.history.source import Piece, check_paths, read_files
from quantide.history.stream import OpenStep
from quantide.history.tasks import Executor
from quantide.history.vacuum import Vacuumed, check_hours, vacuum
from quantide.history.view import KnownFences, View
from quantide.history.writer import Writer
from quantide.store.names import FileName
from quantide.store.settings import Settings
from quantide.store.table import StreamTable
from quantide.summary.column import check_nan_policy, plain_values, read_column, read_rows
from quantide.summary.ranks import check_phis, check_size
from quantide.summary.types import type_named

T = TypeVar("T")

VIEWS = 64  # spans and keys that are kept as they were last asked about


@dataclass(frozen=True)
class Verified:
    """What verify() looked at and found in order."""

    files: int
    values: int


class History:
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
    ) -> None:
        given: dict[str, Any] = {"eps": eps, "kappa": kappa, "memory": memory, "keys": keys, "value_type": value_type}
        asked = {name: value for name, value in (given | {"retention": retention}).items() if value is not None}
        if eps is not None and memory is not None:
            raise InvalidArgumentError("eps and memory both say how accurate answers are; give one of them")
        self._path, self._durable = _folder(path), durable
        table = StreamTable.open(self._path)
        if table is None:
            table = StreamTable.create(self._path, Settings.of(**asked))
        if asked:
            table.settings.check_same(asked)
        self._table, self._settings = table, table.settings
        self._kind = type_named(self._settings.value_type)
        settings, folder = self._settings, self._path
        self._catalog = Catalog(folder, lambda name: rebuild_side(folder, name, settings))
        self._lock, self._writing = RLock(), RLock()  # questions do not wait for chunks to be written
        self._state = _State(table, self._catalog, self._lock)
        self._writer = Writer(table, self._state.newest, durable, executor)
        weakref.finalize(self, self._writer.let_go).atexit = False  # the next writer need not wait for its merges
        self._blocks = Blocks(self._kind)
        self._open_step = OpenStep(self._settings.eps, self._settings.value_type)
        self._fences = KnownFences()
        self._views: OrderedDict[Any, View] = OrderedDict()

    # Writing

    def append(self, values: Any, key: Any = None, batch_id: Any = None, nan: str = "refuse") -> None:
        """Add values to the open step; they are on disk, and visible to everyone, when this returns.

        `key` is one key for all, or one for each value; tuples where keys have several columns. A batch_id that was
        used before changes nothing: a number or text, or (source, number) for a source that counts upwards, of
        which only the last number is kept.
        """
        plain = plain_values(values)
        policy = check_nan_policy(nan)
        column = read_column(plain, self._kind)
        keys = None
        if self._settings.keys and len(plain):
            with self._writing:
                self._begin()  # what types keys have is sure only for the writer
                keys = read_keys(key, self._settings.keys, len(plain), self._table.key_types())
            valid = read_rows(plain).valid if column.nulls else None
            chunk = chunk_of(keys if valid is None else keys.filter(pa.array(valid)), column, self._kind, policy)
        else:
            if key is not None and not self._settings.keys:
                read_key(key, (), None)
            chunk = chunk_of(None, column, self._kind, policy)
        with self._writing:
            self._begin()
            if batch_id is not None and self._table.batch_seen(batch_id):
                return
            self._settle_keys(keys)
            self._writer.append([chunk], batch_id)

    def append_files(
        self, paths: str | Sequence[str], column: str | None = None, batch_id: Any = None, nan: str = "refuse"
    ) -> int:
        """Add a column of Parquet files (with key columns of this store's names) in one commit; how many values.

        Files are read piece by piece: memory does not grow with their size.
        """
        policy = check_nan_policy(nan)
        names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        pieces = read_files(check_paths(names), column, self._settings, self._table.key_types)
        with self._writing:
            self._begin()
            if batch_id is not None and self._table.batch_seen(batch_id):
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
        with self._writing:
            self._begin()
            if batch_id is not None and self._table.batch_seen(batch_id):
                return 0
            if key_types and self._table.key_types() is None:
                self._table.add_keys(list(key_types))
            return self._writer.load(tasks, write, batch_id)

    def batch_seen(self, batch_id: Any) -> bool:
        """Whether a batch with that id was appended; of a source that counts upwards, that one or a later one."""
        if not self._writer.active:
            self._table.refresh()
        return self._table.batch_seen(batch_id)

    def open(self) -> None:
        """Become the store's one writer now, and not with the first append; WriterConflictError names another one."""
        with self._writing:
            self._begin()

    def end_step(self, wait: bool = True) -> None:
        """End the open step: its chunks become a run, and full levels are merged.

        With wait=False merges go on in the background, and so do appends and questions; an error of theirs is
        raised by the next end_step() or by close().
        """
        with self._writing:
            self._begin()
            self._writer.end_step()
        self._writer.merge_levels(wait)

    @property
    def merging(self) -> bool:
        """Whether merges go on in the background; the end of another step would wait for them."""
        return self._writer.merging

    @property
    def key_types(self) -> list[pa.DataType] | None:
        """The types of the key columns; None while no batch has told them."""
        return self._table.key_types()

    @property
    def step(self) -> int:
        """The number of the open step; steps count from 1."""
        return self._table.step

    def vacuum(self, older_than_hours: float = 1) -> Vacuumed:
        """Remove files that were merged away that long ago, and what writers that died have left."""
        hours = check_hours(older_than_hours)
        with self._writing:
            self._begin()
            return vacuum(self._table, self._writer.pending, hours)

    def close(self) -> None:
        """Wait for merges and give the lease back. A handle that is dropped instead loses nothing."""
        self._writer.close()
        self._blocks.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Asking

    def answer(
        self, phi: float, mode: str = "accurate", last_steps: int | None = None, key: Any = None, widen: bool = False
    ) -> HistoryAnswer:
        """The phi-quantile of everything, or of the last steps with the open one, or of one key.

        mode="quick" reads no data and is within eps of all elements; "accurate" is within eps of the elements of
        the open step, reading at most one block of each run; "exact" is exact, reading one of each chunk as well.
        """
        return self._asking(lambda: self._view(last_steps, key, widen).answer(phi, mode))

    def quantile(self, phi: float, mode: str = "accurate", last_steps: int | None = None, key: Any = None) -> Any:
        """The value of answer(phi)."""
        return self.answer(phi, mode, last_steps, key).value

    def quantiles(
        self, phis: ArrayLike, mode: str = "accurate", last_steps: int | None = None, key: Any = None
    ) -> NDArray[Any]:
        """The values for many phis."""
        array = check_phis(phis)
        found = [self.answer(float(phi), mode, last_steps, key).value for phi in array.ravel()]
        return np.array(found, dtype=self._kind.dtype).reshape(array.shape)

    def rank(
        self, value: Any, mode: str = "accurate", last_steps: int | None = None, key: Any = None
    ) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many elements are <= value; arrays for an array of values."""
        return self._asking(lambda: self._view(last_steps, key, False).rank(value, mode))

    def cdf(self, values: Any, mode: str = "accurate", last_steps: int | None = None, key: Any = None) -> Any:
        """The fraction of the elements that are <= each value."""

        def ask() -> Any:
            view = self._view(last_steps, key, False)
            low, high = view.rank(values, mode)
            return (low + high) / 2 / view.n

        return self._asking(ask)

    def compare(
        self,
        phis: ArrayLike,
        last_steps: int | None = None,
        against: int | tuple[int, int] | None = None,
        key: Any = None,
        mode: str = "accurate",
    ) -> list[Comparison]:
        """Each phi of one span beside the same phi of another: the last steps against more of them.

        `against` is a number of last steps, None for everything, or (first, last) for steps that ended, without the
        open one. Both spans must end where runs end, see spans().
        """
        if isinstance(against, tuple) and len(against) != 2:
            raise InvalidArgumentError(f"against={against!r} is not a number of last steps, or (first, last)")

        def ask() -> list[Comparison]:
            now = self._view(last_steps, key, False)
            then = self._between(*against, key) if isinstance(against, tuple) else self._view(against, key, False)
            out = []
            for phi in np.atleast_1d(check_phis(phis)).tolist():
                mine, theirs = now.answer(phi, mode), then.answer(phi, mode)
                low, high = then.rank(mine.value, mode)
                out.append(Comparison(phi, mine, theirs, (low / then.n, high / then.n)))
            return out

        return self._asking(ask)

    def spans(self) -> list[Span]:
        """The spans of last steps that can be asked about; each includes the open step."""
        return self._asking(self._current).spans()

    def verify(self) -> Verified:
        """Read everything again; CorruptBytesError names the files that are damaged."""
        good: set[FileName] = set()

        def check() -> Verified:
            snapshot = self._current()
            damaged: list[Exception] = []
            for part in snapshot.files:
                try:
                    if part.name not in good:
                        check_part(self._path, part, self._settings)
                        good.add(part.name)
                except FileNotFoundError:
                    self._table.refresh()
                    if part.name not in self._table.files():
                        raise  # it was merged away meanwhile: go on with the files there are now
                    damaged.append(missing(self._path, part.name))
                except (InvalidArgumentError, ValueError) as error:
                    damaged.append(error)
            if damaged:
                raise type(damaged[0])("; ".join(str(error) for error in damaged)) from damaged[0]
            return Verified(len(snapshot.files), snapshot.history_rows + snapshot.stream_rows)

        return self._asking(check)

    def stats(self) -> dict[str, Any]:
        """What there is: values, runs by level, steps, bytes on disk, blocks, memory."""
        snapshot = self._asking(self._current)
        levels: dict[int, int] = {}
        for run in snapshot.runs:
            levels[run.id.level] = levels.get(run.id.level, 0) + 1
        parts = snapshot.files
        held = self._catalog.nbytes + self._blocks.nbytes + self._open_step.nbytes
        return {
            "values": snapshot.history_rows + snapshot.stream_rows,
            "history_values": snapshot.history_rows,
            "stream_values": snapshot.stream_rows,
            "nulls": sum(part.side.about.nulls for part in parts),
            "nans": sum(part.side.about.nans for part in parts),
            "steps": snapshot.step - 1,
            "runs": len(snapshot.runs),
            "runs_by_level": dict(sorted(levels.items())),
            "chunks": len(snapshot.chunks),
            "files": len(parts),
            "blocks": sum(len(part.side.fences) for part in parts),
            "bytes": sum(part.side.about.data_size for part in parts),
            "memory": held,
            "version": snapshot.version,
        }

    def runs(self) -> list[Run]:
        """The runs of ended steps, the oldest first."""
        return list(self._asking(self._current).runs)

    @property
    def index_nbytes(self) -> int:
        """Bytes that questions look at: directories, first values of blocks, summaries of runs and the open step."""
        runs = self._current().runs
        summaries = sum(run.thinned(self._settings.run_eps).nbytes for run in runs)
        return self._catalog.nbytes + summaries + self._open_step.nbytes

    @property
    def eps(self) -> float:
        """The error promised for the open step, and for quick answers over everything."""
        return self._settings.eps

    @property
    def n(self) -> int:
        """How many values there are."""
        return int(self.stats()["values"])

    @property
    def settings(self) -> Settings:
        return self._settings

    def __repr__(self) -> str:
        return f"History({self._path!r}, values={self.n}, steps={self._table.step - 1})"

    # Inside

    def _begin(self) -> None:
        """Become the writer, and leave no file without a side file that is in order."""
        if not self._writer.active:
            self._writer.begin()
            try:
                self._asking(self._state.newest)
            except BaseException:
                self._writer.close()
                raise
        lost = self._catalog.rebuilt
        while lost:
            name = lost[0]
            if name in self._table.files():
                replace_side(self._path, name, self._settings, self._durable)
            lost.remove(name)

    def _current(self) -> Snapshot:
        return self._state.current(self._writer.active)

    def _settle_keys(self, keys: Any) -> None:
        """The first keys tell the types of the key columns."""
        if keys is None:
            return
        own = [field.type for field in keys.type] if len(self._settings.keys) > 1 else [keys.type]
        known = self._table.key_types()
        if known is None:
            self._table.add_keys(own)
        elif own != known:
            raise TypeMismatchError(f"another thread began with keys of {known} while these are {own}; repeat")

    def _settled(self, pieces: Iterable[Piece], nan: str) -> Iterator[Chunk]:
        for keys, column in pieces:
            chunk = chunk_of(keys, column, self._kind, nan)
            self._settle_keys(keys)
            yield chunk

    def _view(self, last_steps: int | None, key: Any, widen: bool) -> View:
        steps = None if last_steps is None else check_size("last_steps", last_steps, 0)
        snapshot = self._current()
        wanted = None if key is None else read_key(key, self._settings.keys, self._table.key_types())
        runs, covered = snapshot.last(steps, widen)
        if self._settings.retention is not None and runs:  # of what was dropped nothing is said
            covered = min(covered, snapshot.step - runs[0].id.first)
        widened = steps is not None and covered > steps
        return self._kept((snapshot.version, covered, widened, wanted), runs, snapshot.chunks, wanted, covered, widened)

    def _between(self, first: int, last: int, key: Any) -> View:
        first, last = check_size("the first step", first, 1), check_size("the last step", last, 1)
        snapshot = self._current()
        wanted = None if key is None else read_key(key, self._settings.keys, self._table.key_types())
        runs = snapshot.between(first, last)
        return self._kept((snapshot.version, first, last, wanted), runs, (), wanted, last - first + 1, False)

    def _kept(
        self, name: Any, runs: tuple[Run, ...], chunks: tuple[Run, ...], key: Key | None, covered: int, widened: bool
    ) -> View:
        with self._lock:
            view = self._views.get(name)
            if view is None:
                stream = self._open_step.summary(chunks, key) if chunks else self._open_step.nothing()
                keyed = bool(self._settings.keys)
                known = (self._blocks, self._fences, self._settings.run_eps)
                view = View(self._kind, *known, runs, chunks, stream, keyed, key, covered, widened)
                self._views[name] = view
                while len(self._views) > VIEWS:
                    self._views.popitem(last=False)
            self._views.move_to_end(name)
            return view

    def _asking(self, ask: Callable[[], T]) -> T:
        """Ask; when files were vacuumed away under our hands, look at the table again and ask again.

        What is vacuumed was merged before, in a version of the table that is newer than the one that was asked.
        """
        while True:
            version = self._table.version
            try:
                return ask()
            except FileNotFoundError as error:
                with self._lock:
                    self._blocks.forget()
                    self._views.clear()
                    self._state.reload()
                if self._table.version == version:
                    raise CorruptBytesError(f"a file is missing: {error}; verify() names all that are") from error


def _folder(path: Any) -> str:
    """A folder by its whole name: it stays the same where the process, or a Spark worker, is in another one."""
    given: Any = os.fspath(path)
    if not isinstance(given, str) or not given or "://" in given:
        raise InvalidArgumentError(f"{given!r}: a history lies in a folder that this machine can write to")
    whole = os.path.abspath(given)
    if re.search(r"%[0-9A-Fa-f]{2}|\\", whole):
        raise InvalidArgumentError(f"{whole}: Delta tables cannot be found again under names with \\ or such as %20")
    return whole


class _State:
    """The newest snapshot. A writer's own commits are all there are; a reader looks for those of others."""

    def __init__(self, table: StreamTable, catalog: Catalog, lock: RLock) -> None:
        self._table, self._catalog, self._lock = table, catalog, lock
        self._snapshot: Snapshot | None = None

    def current(self, writing: bool) -> Snapshot:
        with self._lock:
            if not writing:
                self._table.refresh()
            return self.newest()

    def newest(self) -> Snapshot:
        """What the table's handle knows now."""
        with self._lock:
            if self._snapshot is None or self._snapshot.version != self._table.version:
                self._snapshot = self._catalog.snapshot(self._table)
            return self._snapshot

    def reload(self) -> None:
        with self._lock:
            self._table.reload()
            self._snapshot = None
