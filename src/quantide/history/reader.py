"""A reader of a history: the runs and the open step of one version of a store, asked as one."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import CorruptBytesError, InvalidArgumentError, StorageError
from quantide.history.answer import Comparison, HistoryAnswer
from quantide.history.pin import Pin
from quantide.history.rebuild import rebuild_side
from quantide.history.run import Run
from quantide.history.snapshot import Catalog, Snapshot, Span
from quantide.history.verify import Name, Verified, verify
from quantide.history.view import View
from quantide.history.views import Views
from quantide.store.aside import count_aside
from quantide.store.clock_state import read_clock_problem
from quantide.store.place import Place, place_of
from quantide.store.settings import Settings
from quantide.store.table import StreamTable
from quantide.summary.copying import NotCopied
from quantide.summary.ranks import check_phis
from quantide.summary.types import type_named

T = TypeVar("T")


class HistoryReader(NotCopied):
    """A store as it was when it was opened, or last refreshed; it writes nothing and needs no lease.

    >>> import tempfile
    >>> from quantide import History
    >>> h = History(tempfile.mkdtemp(), eps=0.01)
    >>> h.append(range(100))
    >>> reader = HistoryReader(h.path)
    >>> h.append(range(100, 200))
    >>> reader.n, reader.refresh(), reader.n, reader.refresh()
    (100, True, 200, False)
    >>> h.close()

    Questions may come from several threads, while another refreshes. Where files of the version it answers from were
    vacuumed away, it goes on with the newest. A store that was copied to "s3://bucket/stream" is read there, with
    `storage_options` as deltalake takes them: what is looked at often is fetched, blocks of data are read one by one.
    A reader is not copied or pickled (CopyError): give its path to the other process, and open it there.
    """

    REOPEN = "its files are open in this process; pass its path, and open HistoryReader(path) where it is needed"

    def __init__(
        self,
        store: str | os.PathLike[str] | StreamTable,
        memory: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.table = table = store if isinstance(store, StreamTable) else _opened(place_of(store, storage_options))
        self.path, self._settings = table.path, table.settings
        settings, place = self._settings, table.place
        self._kind = type_named(settings.value_type)
        self._catalog = Catalog(place, settings, lambda name: rebuild_side(place, name, settings))
        self._pin = Pin(table, self._catalog)
        self._views = Views(settings, place, memory)

    # The version

    @property
    def snapshot(self) -> Snapshot:
        """What questions are about."""
        return self._pin.held()

    @property
    def version(self) -> int:
        """The version of the table that questions are about."""
        return self.asking(lambda: self.snapshot.version)

    def refresh(self, ahead: Callable[[Snapshot], None] | None = None) -> bool:
        """Go on with the newest version; whether there was something new. `ahead` may prepare views of it before."""
        before = self._pin.version
        return self.asking(lambda: self._pin.refresh(ahead)).version != before

    def asking(self, ask: Callable[[], T]) -> T:
        """Ask; when files were vacuumed away under our hands, look at the table again and ask again.

        What is vacuumed was merged before, in a version of the table that is newer than the one that was asked.
        """
        while True:
            version = self._pin.version
            try:
                return ask()
            except FileNotFoundError as error:
                self._views.forget()
                self._pin.reload()
                if self._pin.version == version:
                    raise CorruptBytesError(f"a file is missing: {error}; verify() names all that are") from error

    def close(self) -> None:
        """Let go of files."""
        self._views.forget()

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
        return self.asking(lambda: self.view(last_steps, key, widen).answer(phi, mode))

    def quantile(self, phi: float, mode: str = "accurate", last_steps: int | None = None, key: Any = None) -> Any:
        """The value of answer(phi)."""
        return self.answer(phi, mode, last_steps, key).value

    def quantiles(
        self, phis: ArrayLike, mode: str = "accurate", last_steps: int | None = None, key: Any = None
    ) -> NDArray[Any]:
        """The values for many phis."""
        array = check_phis(phis)

        def ask() -> list[Any]:
            view = self.view(last_steps, key)
            return [view.answer(phi, mode).value for phi in array.ravel().tolist()]

        return np.array(self.asking(ask), dtype=self._kind.dtype).reshape(array.shape)

    def rank(
        self, value: Any, mode: str = "accurate", last_steps: int | None = None, key: Any = None
    ) -> tuple[Any, Any]:
        """Proved bounds (lo, hi) on how many elements are <= value; arrays for an array of values."""
        return self.asking(lambda: self.view(last_steps, key).rank(value, mode))

    def cdf(self, values: Any, mode: str = "accurate", last_steps: int | None = None, key: Any = None) -> Any:
        """The fraction of the elements that are <= each value."""

        def ask() -> Any:
            view = self.view(last_steps, key)
            low, high = view.rank(values, mode)
            return (low + high) / 2 / view.n

        return self.asking(ask)

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
            now = self.view(last_steps, key)
            if isinstance(against, tuple):
                then = self._views.between(self.snapshot, *against, key)
            else:
                then = self.view(against, key)
            out = []
            for phi in np.atleast_1d(check_phis(phis)).tolist():
                mine, theirs = now.answer(phi, mode), then.answer(phi, mode)
                low, high = then.rank(mine.value, mode)
                out.append(Comparison(phi, mine, theirs, (low / then.n, high / then.n)))
            return out

        return self.asking(ask)

    def spans(self) -> list[Span]:
        """The spans of last steps that can be asked about; each includes the open step."""
        return self.asking(lambda: self.snapshot).spans()

    def verify(self) -> Verified:
        """Read everything again; CorruptBytesError names the files that are damaged."""
        good: set[Name] = set()
        return self.asking(lambda: verify(self.table, self.snapshot, good))

    def stats(self) -> dict[str, Any]:
        """What there is: values, runs by level, steps, bytes on disk, blocks, memory."""
        snapshot = self.asking(lambda: self.snapshot)
        levels: dict[int, int] = {}
        for run in snapshot.runs:
            levels[run.id.level] = levels.get(run.id.level, 0) + 1
        parts = snapshot.files
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
            "memory": self._catalog.nbytes + self._views.nbytes,
            "version": snapshot.version,
            "clock_problem": read_clock_problem(self.table.place),
            "set_aside": 0 if self.table.place.far else count_aside(self.path),
        }

    def runs(self) -> list[Run]:
        """The runs of ended steps, the oldest first."""
        return list(self.asking(lambda: self.snapshot).runs)

    @property
    def index_nbytes(self) -> int:
        """Bytes that questions look at: directories, first values of blocks, summaries of runs and the open step."""
        runs = self.asking(lambda: self.snapshot).runs
        summaries = sum(run.thinned(self._settings.run_eps).nbytes for run in runs)
        return self._catalog.nbytes + summaries + self._views.open_step.nbytes

    @property
    def eps(self) -> float:
        """The error promised for the open step, and for quick answers over everything."""
        return self._settings.eps

    @property
    def n(self) -> int:
        """How many values there are."""
        snapshot = self.asking(lambda: self.snapshot)
        return snapshot.history_rows + snapshot.stream_rows

    @property
    def settings(self) -> Settings:
        return self.table.settings

    def __repr__(self) -> str:
        snapshot = self.asking(lambda: self.snapshot)
        values = snapshot.history_rows + snapshot.stream_rows
        return f"{type(self).__name__}({self.path!r}, values={values}, steps={snapshot.step - 1})"

    def view(
        self, last_steps: int | None = None, key: Any = None, widen: bool = False, snapshot: Snapshot | None = None
    ) -> View:
        """What a question looks at; it stays as it is. Ask it within asking(), for its files may go."""
        return self._views.last(snapshot or self.snapshot, last_steps, key, widen)


def _opened(place: Place) -> StreamTable:
    table = StreamTable.open(place)
    if table is None:
        raise StorageError(
            f"there is no history in {place.path}; nothing was written there yet: History(path), or `quantide ingest`, "
            "does that"
        )
    return table
