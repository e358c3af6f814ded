"""The outbox: what is to be sent, written with the change it tells of, so that a crash between the two loses nothing.

A row is due until it was sent or given up; the last one of each alarm stays, to be looked at.
"""

import math
import secrets
import sqlite3
from typing import Any

import orjson

from quantide.server.registry import Registry

FIRST, LONGEST = 1.0, 300.0  # seconds before the second attempt, and at most between two
ATTEMPTS = 300  # about a day
MOST = 100  # that wait for one alarm


def pause(attempts: int) -> float:
    """Seconds to wait after so many attempts have failed.

    >>> [pause(n) for n in (1, 2, 3, 9, 10, 299)]
    [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]
    """
    return min(FIRST * 2.0 ** min(attempts - 1, 30), LONGEST)


class Outbox:
    """Deliveries in the registry. `given_up` counts those that were, since the start."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.given_up = 0

    def put(self, write: sqlite3.Connection, alarm: int, url: str, body: dict[str, Any], now: float) -> None:
        """Within a transaction: something to send. Of too many that wait for one alarm the oldest goes."""
        write.execute("DELETE FROM deliveries WHERE alarm = ? AND due IS NULL", (alarm,))
        too_old = (
            "DELETE FROM deliveries WHERE alarm = ? AND rowid <= "
            "(SELECT rowid FROM deliveries WHERE alarm = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?)"
        )
        self.given_up += write.execute(too_old, (alarm, alarm, MOST - 1)).rowcount
        name = secrets.token_hex(16)
        row = name, alarm, url, orjson.dumps({"delivery": name} | body), now
        write.execute("INSERT INTO deliveries VALUES (?, ?, ?, ?, 0, ?, NULL)", row)

    def heads(self, now: float) -> list[sqlite3.Row]:
        """What is due: of each alarm the oldest that was not sent yet, so that they arrive in order.

        What is due later than it can be was written before the clock was set back.
        """
        first = "SELECT min(rowid), id, alarm, url, attempts, due FROM deliveries WHERE due IS NOT NULL GROUP BY alarm"
        asked = f"SELECT id, alarm, url, attempts FROM ({first}) WHERE due NOT BETWEEN ? AND ? ORDER BY due"
        return self._registry.rows(asked, (math.nextafter(now, math.inf), now + LONGEST))

    def body(self, id: str) -> bytes | None:
        """What to send; None if it was dropped meanwhile."""
        found = self._registry.rows("SELECT body FROM deliveries WHERE id = ? AND due IS NOT NULL", (id,))
        return bytes(found[0]["body"]) if found else None

    def sent(self, id: str) -> None:
        self._registry.write(
            "UPDATE deliveries SET attempts = attempts + 1, due = NULL, error = NULL WHERE id = ?", (id,)
        )

    def failed(self, id: str, attempts: int, error: str, now: float) -> bool:
        """Try again later, or give up after so many attempts; whether it was given up."""
        over = attempts >= ATTEMPTS
        due = None if over else now + pause(attempts)
        change = "UPDATE deliveries SET attempts = ?, due = ?, error = ? WHERE id = ?"
        over = self._registry.write(change, (attempts, due, error, id)) > 0 and over
        self.given_up += over
        return over

    def last(self) -> dict[int, sqlite3.Row]:
        """The newest delivery of each alarm."""
        newest = "SELECT max(rowid), id, alarm, attempts, due, error FROM deliveries GROUP BY alarm"
        return {row["alarm"]: row for row in self._registry.rows(newest)}

    def last_of(self, alarm: int) -> sqlite3.Row | None:
        """The newest delivery of an alarm."""
        newest = "SELECT id, alarm, attempts, due, error FROM deliveries WHERE alarm = ? ORDER BY rowid DESC LIMIT 1"
        return next(iter(self._registry.rows(newest, (alarm,))), None)

    def waiting(self) -> int:
        """How many are to be sent."""
        return int(self._registry.rows("SELECT count(*) AS n FROM deliveries WHERE due IS NOT NULL")[0]["n"])
