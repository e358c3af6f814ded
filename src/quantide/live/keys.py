"""The keys of a store: those of every file's directory, put together."""

from functools import reduce
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
        return [key for array in self._arrays(snapshot) for key in _listed(array)]

    def find(self, snapshot: Snapshot, contains: str, most: int) -> tuple[int, list[Any]]:
        """How many keys have a text in one of their columns, and the first of them."""
        for array in self._arrays(snapshot):
            found = array.filter(_having(array, contains)) if contains else array
            return len(found), _listed(found[:most])
        return 0, []

    def _arrays(self, snapshot: Snapshot) -> list[pa.Array]:
        """One array of all keys; none while there are no keys."""
        with self._lock:
            runs = tuple(run.id for run in snapshot.runs)
            if runs != self._runs:
                self._runs, self._ended = runs, _distinct(_directories(snapshot.runs))
            return _distinct([*self._ended, *_directories(snapshot.chunks)])


def _listed(keys: pa.Array) -> list[Any]:
    found = (key_at(keys, i) for i in range(len(keys)))
    return [key[0] if len(key) == 1 else key for key in found]


def _having(keys: pa.Array, text: str) -> pa.Array:
    columns = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
    texts = [column if pa.types.is_binary(column.type) else column.cast(pa.string()) for column in columns]
    each = [pc.match_substring(column, text, ignore_case=True) for column in texts]
    return reduce(pc.or_, each).fill_null(False)


def _directories(runs: tuple[Run, ...]) -> list[pa.Array]:
    return [part.side.keys for run in runs for part in run.parts if part.side.keyed]


def _distinct(arrays: list[pa.Array]) -> list[pa.Array]:
    """All keys of some directories as one; none when there are no directories."""
    return [encode_keys(pa.concat_arrays(arrays))[1]] if arrays else []
