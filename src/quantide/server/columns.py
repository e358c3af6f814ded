"""Columns: what is known of every standing query, as flat arrays in the order of their ids."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NEW = -1  # the id with its monitor of a query that none has yet
NEVER, VALUE, EMPTY, WAITING, FAILED = range(
    5
)  # what was told of a query last: nothing yet, a value, or why there is none


@dataclass(frozen=True, eq=False)
class Columns:
    """One row a query. Queries that come or go make new columns; a new value is written into these.

    `window`: the number of what it is about; `member`: its id with the monitor of that; `eps`: the precision in force.
    `change`: the number of its last change; `state`, `bits` and `text`: what was told then, as a number and as JSON.
    """

    id: Ints
    window: Ints
    phi: Floats
    eps: Floats
    member: Ints
    change: Ints
    state: NDArray[np.int8]
    bits: Ints
    text: NDArray[np.object_]

    @classmethod
    def of(cls, id: Any = (), window: Any = (), phi: Any = (), eps: Any = ()) -> Self:
        """Queries that nothing was told of yet."""
        count = len(id)
        return cls(
            np.asarray(id, dtype=np.int64),
            np.asarray(window, dtype=np.int64),
            np.asarray(phi, dtype=np.float64),
            np.asarray(eps, dtype=np.float64),
            np.full(count, NEW, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.full(count, NEVER, dtype=np.int8),
            np.zeros(count, dtype=np.int64),
            np.full(count, b"", dtype=object),
        )

    def __len__(self) -> int:
        return len(self.id)

    def with_more(self, more: Self) -> Self:
        """These and others, whose ids are higher."""
        return self._each(lambda name: np.concatenate((getattr(self, name), getattr(more, name))))

    def without(self, places: Ints) -> Self:
        return self._each(lambda name: np.delete(getattr(self, name), places))

    def find(self, ids: Ints) -> tuple[Ints, Flags]:
        """Where queries are, and which of the ids there are: places of those only."""
        at = np.searchsorted(self.id, ids)
        known = at < len(self.id)
        known[known] = self.id[at[known]] == ids[known]
        return at[known], known

    def about(self, window: int) -> Ints:
        """The places of all queries about one window."""
        order, windows = self._by_window
        start, stop = np.searchsorted(windows, [window, window + 1])
        return order[start:stop]

    @cached_property
    def _by_window(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.window, kind="stable")
        return order, self.window[order]

    def _each(self, made: Any) -> Self:
        return type(self)(*(made(field.name) for field in fields(self)))


class QuerySet:
    """Queries by their ids, with where they are in the newest columns; clients that chose the same share one."""

    def __init__(self, ids: Ints) -> None:
        self.ids = ids
        self._found: tuple[Columns, Ints, Flags, list[int]] | None = None

    def places(self, columns: Columns) -> tuple[Ints, Flags]:
        """Return where the queries are, and which of the ids there are."""
        _, places, known, _ = self._find(columns)
        return places, known

    def windows(self, columns: Columns) -> list[int]:
        """Return the numbers of the windows that the queries are about."""
        return self._find(columns)[3]

    def _find(self, columns: Columns) -> tuple[Columns, Ints, Flags, list[int]]:
        found = self._found
        if found is None or found[0] is not columns:
            places, known = columns.find(self.ids)
            found = self._found = (columns, places, known, np.unique(columns.window[places]).tolist())
        return found
