"""Alarm transitions: the numbered changes of alarms, each written in one transaction with its webhook delivery."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from quantide.server.alarms.webhook_delivery import WebhookOutbox
from quantide.server.server_registry import ServerRegistry

MAX_TRANSITIONS = 100_000  # the oldest are deleted


class Transition(NamedTuple):
    """Change of an alarm: the webhook to send it to, if any, the new state, and the JSON fields to publish."""

    alarm: int
    url: str | None
    firing: bool
    since: float
    body: dict[str, Any]


class AlarmTransitions:
    """Table of transitions in the registry; `last` is the number of the newest one, and never decreases."""

    def __init__(self, registry: ServerRegistry, outbox: WebhookOutbox) -> None:
        self._registry, self._outbox = registry, outbox
        rows = registry.rows("SELECT seq FROM sqlite_sequence WHERE name = 'transitions'")
        self.last = int(rows[0]["seq"]) if rows else 0

    def write(self, transitions: Iterable[Transition], now: float) -> None:
        """Write transitions, the rows of their alarms and their deliveries; nothing if it raises."""
        last = self.last
        with self._registry.transaction() as write:
            for alarm, url, firing, since, body in transitions:
                text = orjson.dumps(body).decode()
                insert = "INSERT INTO transitions (alarm, at, body) VALUES (?, ?, ?)"
                last = write.execute(insert, (alarm, now, text)).lastrowid or last
                update = "UPDATE alarms SET state = ?, firing = ?, since = ? WHERE id = ?"
                write.execute(update, (body["state"], firing, since, alarm))
                if url is not None:
                    self._outbox.put(write, alarm, url, {"number": last} | body, now)
            write.execute("DELETE FROM transitions WHERE number <= ?", (last - MAX_TRANSITIONS,))
        self.last = last

    def after(self, number: int, ids: set[int] | None = None) -> list[dict[str, Any]]:
        """Return the transitions after a number, of these alarms or of all, oldest first."""
        if number >= self.last:
            return []
        sql = "SELECT number, alarm, body FROM transitions WHERE number > ? ORDER BY number"
        rows = self._registry.rows(sql, (number,))
        return [_numbered(row["number"], row["body"]) for row in rows if ids is None or row["alarm"] in ids]

    def of_alarm(self, alarm: int, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return the transitions of one alarm before a number, newest first."""
        sql = "SELECT number, body FROM transitions WHERE alarm = ? AND number < ? ORDER BY number DESC LIMIT ?"
        rows = self._registry.rows(sql, (alarm, self.last + 1 if before is None else before, limit))
        return [_numbered(row["number"], row["body"]) for row in rows]


def _numbered(number: int, body: str) -> dict[str, Any]:
    fields: dict[str, Any] = orjson.loads(body)
    return {"number": number} | fields
