"""Transitions: every change of an alarm, numbered, written together with what follows from it."""

from collections.abc import Iterable
from typing import Any

import orjson

from quantide.server.outbox import Outbox
from quantide.server.registry import Registry

KEPT = 100_000  # the oldest go

Changed = tuple[int, str | None, bool, float, dict[str, Any]]
"""An alarm, where to send this (None: nowhere), whether it fires, since when, and what is told."""


class Transitions:
    """The rows of the registry; `last` is the number of the newest one, and never goes back."""

    def __init__(self, registry: Registry, outbox: Outbox) -> None:
        self._registry, self._outbox = registry, outbox
        counted = registry.rows("SELECT seq FROM sqlite_sequence WHERE name = 'transitions'")
        self.last = int(counted[0]["seq"]) if counted else 0

    def write(self, changed: Iterable[Changed], at: float) -> None:
        """Changes, the rows of their alarms and what is to be sent of them: all of it or, when it raises, nothing."""
        last = self.last
        with self._registry.change() as write:
            for alarm, url, firing, since, body in changed:
                text = orjson.dumps(body).decode()
                insert = "INSERT INTO transitions (alarm, at, body) VALUES (?, ?, ?)"
                last = write.execute(insert, (alarm, at, text)).lastrowid or last
                update = "UPDATE alarms SET state = ?, firing = ?, since = ? WHERE id = ?"
                write.execute(update, (body["state"], firing, since, alarm))
                if url is not None:
                    self._outbox.put(write, alarm, url, {"number": last} | body, at)
            write.execute("DELETE FROM transitions WHERE number <= ?", (last - KEPT,))
        self.last = last

    def after(self, number: int, ids: set[int] | None = None) -> list[dict[str, Any]]:
        """Those after one, of these alarms or of all, the oldest first."""
        if number >= self.last:
            return []
        asked = "SELECT number, alarm, body FROM transitions WHERE number > ? ORDER BY number"
        rows = self._registry.rows(asked, (number,))
        return [_told(row["number"], row["body"]) for row in rows if ids is None or row["alarm"] in ids]

    def of(self, alarm: int, before: int | None, most: int) -> list[dict[str, Any]]:
        """Those of one alarm before one, the newest first."""
        asked = "SELECT number, body FROM transitions WHERE alarm = ? AND number < ? ORDER BY number DESC LIMIT ?"
        rows = self._registry.rows(asked, (alarm, self.last + 1 if before is None else before, most))
        return [_told(row["number"], row["body"]) for row in rows]


def _told(number: int, body: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(body)
    return {"number": number} | found
