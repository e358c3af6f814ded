"""Key directory: the keys of a store, merged from the directory of every file."""

from functools import reduce
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quantide.history.run import Run, key_at
from quantide.history.snapshot import Snapshot
from quantide.summary.key_encoding import encode_keys


class KeyDirectory:
    """Keys of snapshots. The keys of ended steps are cached as long as the runs are the same."""

    def __init__(self) -> None:
        self._runs: tuple[Any, ...] = ()  # identities
        self._run_keys: list[pa.Array] = []
        self._lock = Lock()

    def list_keys(self, snapshot: Snapshot) -> list[Any]:
        """Return the keys of all files of a snapshot, in order; tuples where they have several columns."""
        return [key for array in self._merge(snapshot) for key in _to_list(array)]

    def list_columns(self, snapshot: Snapshot) -> list[pa.Array]:
        """Return the keys of all files of a snapshot, in order, as an array for each column."""
        return [column for array in self._merge(snapshot) for column in _columns(array)]

    def find(self, snapshot: Snapshot, contains: str, limit: int) -> tuple[int, list[Any]]:
        """Return how many keys have a text in one of their columns, and the first of them."""
        for array in self._merge(snapshot):
            matching = array.filter(_matches(array, contains)) if contains else array
            return len(matching), _to_list(matching[:limit])
        return 0, []

    def _merge(self, snapshot: Snapshot) -> list[pa.Array]:
        """Return one array of all keys; none if there are no keys."""
        with self._lock:
            runs = tuple(run.identity for run in snapshot.runs)
            if runs != self._runs:
                self._runs, self._run_keys = runs, _distinct(_directories(snapshot.runs))
            return _distinct([*self._run_keys, *_directories(snapshot.chunks)])


def _to_list(keys: pa.Array) -> list[Any]:
    tuples = (key_at(keys, i) for i in range(len(keys)))
    return [key[0] if len(key) == 1 else key for key in tuples]


def _columns(keys: pa.Array) -> list[pa.Array]:
    columns: list[pa.Array] = keys.flatten() if pa.types.is_struct(keys.type) else [keys]
    return columns


def _matches(keys: pa.Array, text: str) -> pa.Array:
    texts = [column if pa.types.is_binary(column.type) else column.cast(pa.string()) for column in _columns(keys)]
    each = [pc.match_substring(column, text, ignore_case=True) for column in texts]
    return reduce(pc.or_, each).fill_null(False)


def _directories(runs: tuple[Run, ...]) -> list[pa.Array]:
    return [part.index.keys for run in runs for part in run.parts if part.index.keyed]


def _distinct(arrays: list[pa.Array]) -> list[pa.Array]:
    """Return the distinct keys of some directories as one array; none if there are no directories."""
    return [encode_keys(pa.concat_arrays(arrays))[1]] if arrays else []
