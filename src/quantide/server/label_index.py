"""Label index: ids of the standing queries that have a label, looked up once for all clients that listen to it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from quantide.server.columns import Columns, QuerySet
from quantide.server.registry import Registry


class LabelIndex:
    """Cache of label lookups, valid as long as no query comes or goes.

    Lookups run one at a time in a thread of their own: many clients that connect at once never delay a question, and
    clients of one label share one set of queries.
    """

    def __init__(self, registry: Registry, columns: Callable[[], Columns]) -> None:
        self._registry, self._columns = registry, columns
        self._cached: tuple[Columns | None, dict[str, QuerySet]] = (None, {})
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "quantide-labels")

    async def queries(self, label: str) -> QuerySet:
        """Queries in the order of their ids; empty when none has the label."""
        async with self._turn:  # a concurrent lookup of the same label is awaited, not repeated
            columns = self._columns()
            if self._cached[0] is not columns:
                self._cached = (columns, {})
            known = self._cached[1]
            if label not in known:
                found = await asyncio.get_running_loop().run_in_executor(self._thread, self._find, label)
                if not len(found.ids):
                    return found
                known[label] = found
            return known[label]

    def close(self) -> None:
        self._thread.shutdown()

    def _find(self, label: str) -> QuerySet:
        rows = self._registry.rows("SELECT id FROM queries WHERE label = ? ORDER BY id", (label,))
        ids = np.array([row[0] for row in rows], dtype=np.int64)
        ids.flags.writeable = False
        return QuerySet(ids)
