"""The pin: the one version of the table that questions are about, until it is moved."""

from collections.abc import Callable
from threading import RLock

from quantide.history.snapshot import Catalog, Snapshot
from quantide.store.table import StreamTable


class Pin:
    """Holds a snapshot. Safe to use from several threads: questions go on while another thread moves it."""

    def __init__(self, table: StreamTable, catalog: Catalog) -> None:
        self._table, self._catalog = table, catalog
        self._lock = RLock()
        self._snapshot: Snapshot | None = None

    @property
    def version(self) -> int:
        held = self._snapshot
        return self._table.version if held is None else held.version

    def held(self) -> Snapshot:
        """The snapshot as it is."""
        return self._snapshot or self.newest()

    def newest(self, ahead: Callable[[Snapshot], None] | None = None) -> Snapshot:
        """Moved to what the table's handle knows; `ahead` sees that before anyone is answered from it."""
        with self._lock:
            if self._snapshot is None or self._snapshot.version != self._table.version:
                found = self._catalog.snapshot(self._table)
                if ahead is not None:
                    ahead(found)
                self._snapshot = found
            return self._snapshot

    def refresh(self, ahead: Callable[[Snapshot], None] | None = None) -> Snapshot:
        """Moved to what is in the store now."""
        with self._lock:
            self._table.refresh()
            return self.newest(ahead)

    def reload(self) -> None:
        """Read the log again, whatever was known."""
        with self._lock:
            self._table.reload()
            self._snapshot = None
