"""Serials: names for new runs that nobody else uses, and which of them are about to be committed."""

from collections.abc import Iterable
from threading import Lock

from quantide.store.commits import WritableTable
from quantide.store.names import RunId


class Serials:
    """Counts the runs of one writer. `pending` ones are not committed yet, and no garbage."""

    def __init__(self, table: WritableTable) -> None:
        self._table, self._last, self._lock = table, 0, Lock()
        self.pending: set[RunId] = set()

    def new_run(self, first: int, last: int, level: int) -> RunId:
        """A run of these steps that is to be written; it is pending until done()."""
        with self._lock:
            self._last += 1
            run = RunId(first, last, level, self._table.epoch, self._last)
            self.pending.add(run)
            return run

    def reserve(self, count: int) -> int:
        """The first of so many numbers, which nobody else will get."""
        with self._lock:
            first, self._last = self._last + 1, self._last + count
            return first

    def done(self, runs: Iterable[RunId]) -> None:
        """These are committed, or given up."""
        self.pending.difference_update(runs)
