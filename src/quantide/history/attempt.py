"""Attempts: a commit that raised CommitUncertainError, and whether the next call repeats it.

A repeat is recognised by its content, file by file: both calls wrote their rows before they tried to commit them.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import numpy as np

from quantide.errors import CommitUncertainError
from quantide.store.commits import WritableTable
from quantide.store.manifest import Entry
from quantide.store.names import File
from quantide.store.recent import RecentFile
from quantide.store.rows import keys_to_bytes


@dataclass(frozen=True)
class Rows:
    """The files of an append: of data, and of recent rows, whose times came with them or are those of the call."""

    files: Sequence[File]
    recent: Sequence[Entry] = ()
    times_given: bool = False


@dataclass(frozen=True)
class Attempt:
    """A commit that may be in the table, under the id that the error had."""

    batch: Any
    rows: Rows | None  # None: of a commit that ended a step
    thread: int


class Attempts:
    """The last attempt of a writer."""

    def __init__(self, table: WritableTable) -> None:
        self._table = table
        self._last: Attempt | None = None

    def failed(self, error: CommitUncertainError, rows: Rows | None = None) -> None:
        """Remember a commit that may be in the table."""
        self._last = Attempt(error.batch_id, rows, get_ident())

    def batch_seen(self, batch: Any) -> bool:
        """Whether a batch is in the table; then it needs no repeat."""
        seen = self._table.batch_seen(batch)
        if seen and self._last is not None and self._last.batch == batch:
            self._last = None
        return seen

    def repeats(self, rows: Rows | None = None) -> bool:
        """Return True if a call repeats an attempt that is in the table. The attempt is settled by that, unless the
        call is of another thread, and of other rows."""
        last = self._last
        if last is None or (last.rows is None) != (rows is None):
            return False
        in_table = self._table.batch_seen(last.batch)
        same = in_table and (rows is None or last.rows is None or self._digest(rows) == self._digest(last.rows))
        if same or not in_table or last.thread == get_ident():
            self._last = None
        return same

    def settle(self) -> None:
        """Forget the attempt of this thread: another commit of it succeeded."""
        if self._last is not None and self._last.thread == get_ident():
            self._last = None

    def _digest(self, rows: Rows) -> list[bytes]:
        """Digests of the content of all files, in an order that does not depend on their names."""
        place = self._table.place
        out = [hashlib.sha256(place.mapped(name.data)).digest() for name, _, _ in rows.files]
        return sorted(out) + sorted(self._digest_recent(entry.name, rows.times_given) for entry in rows.recent)

    def _digest_recent(self, name: str, times_given: bool) -> bytes:
        rows = RecentFile(self._table.place.mapped(name), name).rows()
        parts = [rows.values, rows.bounds, rows.numbers, rows.flags, rows.times if times_given else None]
        found = hashlib.sha256(keys_to_bytes(rows.keys))
        for part in parts:
            found.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
        return found.digest()
