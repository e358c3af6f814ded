"""Webhook delivery: the outbox, and the sender that posts its messages, signed, until the receiver accepts them.

A delivery is due until it succeeded or was given up; the last one of each alarm stays, to be shown.
"""

import asyncio
import logging
import math
import secrets
import sqlite3
import ssl
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

import httpx
import orjson

from quantide.config import server_config as config
from quantide.errors import InvalidArgumentError, StorageError
from quantide.server.server_registry import ServerRegistry
from quantide.server.webhooks import check_url, read_secret, signed

MIN_PAUSE, MAX_PAUSE = 1.0, 300.0  # seconds before the second attempt, and at most between two
MAX_ATTEMPTS = 300  # about a day
MAX_PENDING = 100  # deliveries of one alarm
LOG = logging.getLogger("quantide.server")
TIMEOUT = 10.0  # seconds for a whole delivery, until the receiver's status
AT_ONCE = 4  # deliveries to one origin
POLL_INTERVAL = 0.2  # seconds between two searches for due deliveries
REGISTRY_RETRY = 1.0  # seconds before the registry is tried again


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


class WebhookSender:
    """Thread that sends deliveries. A receiver that does not respond delays its own deliveries only.

    One delivery of each alarm is in flight at a time, the oldest; at most AT_ONCE are in flight to one origin. Only the
    status of a response is read.
    """

    def __init__(
        self, outbox: WebhookOutbox, settings: config.Webhooks, clock: Callable[[], float] = time.time
    ) -> None:
        self._outbox, self._allow, self._clock = outbox, settings.allow, clock
        self._secret = read_secret(settings)
        self._in_flight: set[int] = set()  # alarms
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakeup, self._closing = asyncio.Event(), False
        self._thread = Thread(target=self._run, name="quantide-webhooks", daemon=True)
        self.delivered = self.failed = 0

    def check_url(self, url: str) -> str:
        """Return the origin of a URL; raise if the configuration does not allow it."""
        return check_url(url, self._allow)

    def start(self) -> None:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log whole URLs, which may be secrets
        self._thread.start()

    def notify(self) -> None:
        """Send new deliveries of the outbox now."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wakeup.set)

    def close(self) -> None:
        """Stop. Deliveries in flight are sent again after the next start."""
        self._closing = True
        if self._thread.ident is not None:
            self.notify()
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        self._loop, tls = asyncio.get_running_loop(), ssl.create_default_context()
        unlimited = httpx.Limits(max_connections=None)  # `_slots` limits them by origin
        async with httpx.AsyncClient(
            timeout=TIMEOUT, follow_redirects=False, trust_env=False, verify=tls, limits=unlimited
        ) as client:
            while not self._closing:
                self._wakeup.clear()
                try:
                    self._send_due(client)
                except StorageError:
                    LOG.exception("webhook deliveries cannot be read")
                    await asyncio.sleep(REGISTRY_RETRY)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wakeup.wait(), POLL_INTERVAL)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _send_due(self, client: httpx.AsyncClient) -> None:
        for row in self._outbox.due(self._clock()):
            if row["alarm"] not in self._in_flight:
                self._in_flight.add(row["alarm"])
                task = asyncio.create_task(self._deliver(client, row["id"], row["url"], row["attempts"] + 1))
                self._tasks.add(task)
                task.add_done_callback(partial(self._finish, row["alarm"]))

    def _finish(self, alarm: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if task.exception() is None:
            self._in_flight.discard(alarm)
            self._wakeup.set()
        else:  # the disk failed: the delivery is sent again
            LOG.error("the result of a webhook delivery could not be recorded", exc_info=task.exception())
            asyncio.get_running_loop().call_later(REGISTRY_RETRY, self._in_flight.discard, alarm)

    async def _deliver(self, client: httpx.AsyncClient, id: str, url: str, attempt: int) -> None:
        try:
            origin = self.check_url(url)  # the configuration may have changed since the alarm was set
        except InvalidArgumentError:
            self._record(id, attempt, "the configuration does not allow this URL any more")
            return
        async with self._slots[origin]:
            body = self._outbox.body(id)
            if body is None:
                return
            error = await self._post(client, id, url, body)
        self._record(id, attempt, error)

    def _record(self, id: str, attempt: int, error: str | None) -> None:
        if error is None:
            self._outbox.record_success(id)
            self.delivered += 1
            return
        self.failed += 1
        if self._outbox.record_failure(id, attempt, error, self._clock()):
            LOG.warning("the webhook %s was given up after %s attempts: %s", id, attempt, error)

    async def _post(self, client: httpx.AsyncClient, id: str, url: str, body: bytes) -> str | None:
        """Send once; return the reason of a failure, which reveals nothing of the response but its status."""
        headers = signed(self._secret, int(self._clock()), body) | {
            "Content-Type": "application/json",
            "User-Agent": "Quantide",
            "Quantide-Delivery": id,
        }
        try:
            async with (
                asyncio.timeout(TIMEOUT),
                client.stream("POST", url, content=body, headers=headers) as response,
            ):
                status = response.status_code
        except (TimeoutError, httpx.TimeoutException):
            return f"no answer within {TIMEOUT:.0f} s"
        except httpx.ConnectError as error:
            LOG.info("the webhook %s cannot connect: %s", id, error)
            return "no connection"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            LOG.info("the webhook %s failed: %s", id, type(error).__name__)
            return "the connection broke, or the answer was not HTTP"
        finally:
            client.cookies.clear()
        if 200 <= status < 300:
            return None
        return f"answered {status}" + (", a redirect; those are not followed" if 300 <= status < 400 else "")
