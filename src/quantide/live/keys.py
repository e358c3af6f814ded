"""The keys of a store: those of every file's directory, put together."""

from threading import Lock
from typing import Any

import pyarrow as pa

from quantide.history.run import Run, key_at
from quantide.history.snapshot import Snapshot
from quantide.store.names import RunId
from quantide.summary.keys import encode_keys


class KnownKeys:
    """Those of ended steps are put together once for as long as the runs are the same, those of chunks as they come."""

    def __init__(self) -> None:
        self._runs: tuple[RunId, ...] = ()
        self._ended: list[pa.Array] = []
        self._lock = Lock()

    def of(self, snapshot: Snapshot) -> list[Any]:
        """The keys of all files of a snapshot, in order; tuples where they have several columns."""
        with self._lock:
            runs = tuple(run.id for run in snapshot.runs)
            if runs != self._runs:
                self._runs, self._ended = runs, _distinct(_directories(snapshot.runs))
            found = _distinct([*self._ended, *_directories(snapshot.chunks)])
        keys = [key_at(found[0], i) for i in range(len(found[0]))] if found else []
        return [key[0] if len(key) == 1 else key for key in keys]


def _directories(runs: tuple[Run, ...]) -> list[pa.Array]:
    return [part.side.keys for run in runs for part in run.parts if part.side.keyed]


def _distinct(arrays: list[pa.Array]) -> list[pa.Array]:
    """All keys of some directories as one; none when there are no directories."""
    return [encode_keys(pa.concat_arrays(arrays))[1]] if arrays else []
