"""Webhook outbox: deliveries, written in the transaction of the transition they announce, so that a crash loses none.

A delivery is due until it succeeded or was given up; the last one of each alarm stays, to be shown.
"""

import math
import secrets
import sqlite3
from typing import Any

import orjson

from quantide.server.server_registry import ServerRegistry

MIN_PAUSE, MAX_PAUSE = 1.0, 300.0  # seconds before the second attempt, and at most between two
MAX_ATTEMPTS = 300  # about a day
MAX_PENDING = 100  # deliveries of one alarm


def retry_pause(attempts: int) -> float:
    """Return the seconds to wait after so many failed attempts.

    >>> [retry_pause(n) for n in (1, 2, 3, 9, 10, 299)]
    [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]
    """
    return min(MIN_PAUSE * 2.0 ** min(attempts - 1, 30), MAX_PAUSE)


class WebhookOutbox:
    """Deliveries in the registry. `given_up` counts those given up since the start."""

    def __init__(self, registry: ServerRegistry) -> None:
        self._registry = registry
        self.given_up = 0

    def put(self, write: sqlite3.Connection, alarm: int, url: str, body: dict[str, Any], now: float) -> None:
        """Add a delivery within a transaction; drop the oldest ones of an alarm that has too many pending."""
        write.execute("DELETE FROM deliveries WHERE alarm = ? AND due IS NULL", (alarm,))
        too_old = (
            "DELETE FROM deliveries WHERE alarm = ? AND rowid <= "
            "(SELECT rowid FROM deliveries WHERE alarm = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?)"
        )
        self.given_up += write.execute(too_old, (alarm, alarm, MAX_PENDING - 1)).rowcount
        id = secrets.token_hex(16)
        row = id, alarm, url, orjson.dumps({"delivery": id} | body), now
        write.execute("INSERT INTO deliveries VALUES (?, ?, ?, ?, 0, ?, NULL)", row)

    def due(self, now: float) -> list[sqlite3.Row]:
        """Return the due deliveries, of each alarm the oldest pending one, so that they arrive in order.

        A due time later than any pause allows was written before the clock was set back: it counts as due.
        """
        first = "SELECT min(rowid), id, alarm, url, attempts, due FROM deliveries WHERE due IS NOT NULL GROUP BY alarm"
        sql = f"SELECT id, alarm, url, attempts FROM ({first}) WHERE due NOT BETWEEN ? AND ? ORDER BY due"
        return self._registry.rows(sql, (math.nextafter(now, math.inf), now + MAX_PAUSE))

    def body(self, id: str) -> bytes | None:
        """Return the body of a delivery; None if it is not pending any more."""
        rows = self._registry.rows("SELECT body FROM deliveries WHERE id = ? AND due IS NOT NULL", (id,))
        return bytes(rows[0]["body"]) if rows else None

    def record_success(self, id: str) -> None:
        self._registry.write(
            "UPDATE deliveries SET attempts = attempts + 1, due = NULL, error = NULL WHERE id = ?", (id,)
        )

    def record_failure(self, id: str, attempts: int, error: str, now: float) -> bool:
        """Schedule a retry, or give up after the last attempt; return True if it was given up."""
        over = attempts >= MAX_ATTEMPTS
        due = None if over else now + retry_pause(attempts)
        update = "UPDATE deliveries SET attempts = ?, due = ?, error = ? WHERE id = ?"
        over = self._registry.write(update, (attempts, due, error, id)) > 0 and over
        self.given_up += over
        return over

    def last(self) -> dict[int, sqlite3.Row]:
        """Return the newest delivery of each alarm."""
        newest = "SELECT max(rowid), id, alarm, attempts, due, error FROM deliveries GROUP BY alarm"
        return {row["alarm"]: row for row in self._registry.rows(newest)}

    def last_of(self, alarm: int) -> sqlite3.Row | None:
        """Return the newest delivery of an alarm."""
        newest = "SELECT id, alarm, attempts, due, error FROM deliveries WHERE alarm = ? ORDER BY rowid DESC LIMIT 1"
        return next(iter(self._registry.rows(newest, (alarm,))), None)

    def count_pending(self) -> int:
        return int(self._registry.rows("SELECT count(*) AS n FROM deliveries WHERE due IS NOT NULL")[0]["n"])
