"""Updates watched from outside: how long loading, sorting, summaries, merges and commits take, and how many blocks."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from time import perf_counter
from typing import Any
from unittest.mock import patch

from benchmarks.timing import clock
from quantide.history import History
from quantide.history.sort import Chunk, chunk_of
from quantide.store.commits import WritableTable
from quantide.store.datafile import BLOCK, DataFiles, write_data
from quantide.store.sidefile import build_side

PARTS = ("load", "sort", "summary", "merge", "commit")


@dataclass(frozen=True)
class Cost:
    """Seconds of each part, which add up to all, and blocks read and written.

    load: the data files of a step are written; sort: its values are sorted; summary: its side files are made;
    merge: all that end_step does but commits; commit: those, and what is left.
    """

    load: float = 0.0
    sort: float = 0.0
    summary: float = 0.0
    merge: float = 0.0
    commit: float = 0.0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def blocks(self) -> int:
        return self.read + self.written

    @property
    def seconds(self) -> float:
        return self.load + self.sort + self.summary + self.merge + self.commit


class Watch:
    """Appends and ends steps, and knows what that cost."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[str, float] = defaultdict(float)

    def append(self, history: History, values: Any) -> Cost:
        """Values of one lot at most: then its parts run one after the other."""
        seconds, found = self._clock(lambda: history.append(values))
        load, sort, summary = (found[name] for name in ("load", "sort", "summary"))
        return Cost(load, sort, summary, commit=seconds - load - sort - summary, written=int(found["written"]))

    def end(self, history: History) -> Cost:
        seconds, found = self._clock(history.end_step)
        read, written = (int(found[name]) for name in ("read", "written"))
        return Cost(merge=seconds - found["commit"], commit=found["commit"], read=read, written=written)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, and its time is noted."""

        def run(*arguments: Any, **named: Any) -> Any:
            begun = perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.add(part, perf_counter() - begun)

        return run

    def add(self, what: str, amount: float) -> None:
        with self._lock:
            self._found[what] += amount

    def _clock(self, job: Callable[[], None]) -> tuple[float, dict[str, float]]:
        self._found = defaultdict(float)
        seconds, _ = clock(job)
        return seconds, self._found


@contextmanager
def watching() -> Iterator[Watch]:
    """Meanwhile every history of this process is watched."""
    watch, read_values = Watch(), DataFiles.values

    def sort(*arguments: Any) -> Chunk:
        chunk = chunk_of(*arguments)  # which leaves most of the work to those who write the lots
        return replace(chunk, lots=[watch.timed("sort", lot) for lot in chunk.lots])

    def write(path: str, rows: Any, *more: Any) -> Any:
        watch.add("written", -(-len(rows) // BLOCK))
        return write_data(path, rows, *more)

    def read(files: DataFiles, path: str, groups: list[int]) -> Any:
        watch.add("read", len(groups))
        return read_values(files, path, groups)

    with (
        patch("quantide.history.history.chunk_of", watch.timed("sort", sort)),
        patch("quantide.history.tasks.write_data", watch.timed("load", write)),
        patch("quantide.history.tasks.build_side", watch.timed("summary", build_side)),
        patch.object(WritableTable, "commit", watch.timed("commit", WritableTable.commit)),
        patch.object(DataFiles, "values", read),
    ):
        yield watch
