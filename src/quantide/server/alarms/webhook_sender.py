"""Webhook sender: posts the deliveries of the outbox, signed, with retries until the receiver accepts them."""

import asyncio
import logging
import ssl
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread

import httpx

from quantide.config import server_config as config
from quantide.errors import InvalidArgumentError, StorageError
from quantide.server.alarms.webhook_outbox import WebhookOutbox
from quantide.server.webhooks import check_url, read_secret, signed

LOG = logging.getLogger("quantide.server")
TIMEOUT = 10.0  # seconds for a whole delivery, until the receiver's status
AT_ONCE = 4  # deliveries to one origin
POLL_INTERVAL = 0.2  # seconds between two searches for due deliveries
REGISTRY_RETRY = 1.0  # seconds before the registry is tried again


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
