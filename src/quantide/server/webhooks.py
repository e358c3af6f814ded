"""Webhooks: sends what lies in the outbox, signed, again and again until the receiver has taken it."""

import asyncio
import hmac
import logging
import ssl
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread

import httpx

from quantide.config import server as config
from quantide.errors import InvalidArgumentError, StorageError
from quantide.server.origins import check_url, read_secret
from quantide.server.outbox import Outbox

LOG = logging.getLogger("quantide.server")
TIMEOUT = 10.0  # seconds for a whole delivery, until the receiver's status
AT_ONCE = 4  # deliveries to one origin
LOOK = 0.2  # seconds between two looks for what is due
AGAIN = 1.0  # seconds before the registry is tried again


class Webhooks:
    """One thread that sends. A receiver that hangs holds up nobody but itself.

    Of each alarm one delivery is under way at a time, the oldest; at most AT_ONCE go to one origin. Nothing of a
    response is read but its status.
    """

    def __init__(self, outbox: Outbox, settings: config.Webhooks, clock: Callable[[], float] = time.time) -> None:
        self._outbox, self._allow, self._clock = outbox, settings.allow, clock
        self._secret = read_secret(settings)
        self._busy: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._ended = asyncio.Event(), False
        self._thread = Thread(target=self._run, name="quantide-webhooks", daemon=True)
        self.delivered = self.failed = 0

    def check(self, url: str) -> str:
        """The origin of a URL, if it is one that the configuration allows."""
        return check_url(url, self._allow)

    def start(self) -> None:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log whole URLs, which may be secrets
        self._thread.start()

    def wake(self) -> None:
        """Something was put into the outbox."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._news.set)

    def close(self) -> None:
        """Stop sending. What was under way is sent again after the next start."""
        self._ended = True
        if self._thread.ident is not None:
            self.wake()
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        self._loop, trusted = asyncio.get_running_loop(), ssl.create_default_context()
        any_number = httpx.Limits(max_connections=None)  # turns are taken by origin
        async with httpx.AsyncClient(
            timeout=TIMEOUT, follow_redirects=False, trust_env=False, verify=trusted, limits=any_number
        ) as client:
            while not self._ended:
                self._news.clear()
                try:
                    self._begin(client)
                except StorageError:
                    LOG.exception("what is to be sent cannot be looked up")
                    await asyncio.sleep(AGAIN)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), LOOK)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, client: httpx.AsyncClient) -> None:
        for row in self._outbox.heads(self._clock()):
            if row["alarm"] not in self._busy:
                self._busy.add(row["alarm"])
                task = asyncio.create_task(self._deliver(client, row["id"], row["url"], row["attempts"] + 1))
                self._tasks.add(task)
                task.add_done_callback(partial(self._finish, row["alarm"]))

    def _finish(self, alarm: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if task.exception() is None:
            self._busy.discard(alarm)
            self._news.set()
        else:  # the disk: it is sent again
            LOG.error("a message to a webhook could not be noted", exc_info=task.exception())
            asyncio.get_running_loop().call_later(AGAIN, self._busy.discard, alarm)

    async def _deliver(self, client: httpx.AsyncClient, id: str, url: str, attempt: int) -> None:
        try:
            origin = self.check(url)  # the configuration may be another than when it was set
        except InvalidArgumentError:
            self._note(id, attempt, "the configuration does not allow this URL any more")
            return
        async with self._turns[origin]:
            body = self._outbox.body(id)
            if body is None:
                return
            error = await self._post(client, id, url, body)
        self._note(id, attempt, error)

    def _note(self, id: str, attempt: int, error: str | None) -> None:
        if error is None:
            self._outbox.sent(id)
            self.delivered += 1
            return
        self.failed += 1
        if self._outbox.failed(id, attempt, error, self._clock()):
            LOG.warning("the webhook %s was given up after %s attempts: %s", id, attempt, error)

    async def _post(self, client: httpx.AsyncClient, id: str, url: str, body: bytes) -> str | None:
        """Send once; what went wrong, in words that tell nothing of what the receiver said but its status."""
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
            LOG.info("the webhook %s finds no receiver: %s", id, error)
            return "no connection"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            LOG.info("the webhook %s failed: %s", id, type(error).__name__)
            return "the connection broke, or the answer was not HTTP"
        finally:
            client.cookies.clear()
        if 200 <= status < 300:
            return None
        return f"answered {status}" + (", a redirect; those are not followed" if 300 <= status < 400 else "")


def signed(secret: bytes, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver knows who sent a body, and when."""
    code = hmac.new(secret, f"{timestamp}.".encode() + body, "sha256").hexdigest()
    return {"Quantide-Timestamp": str(timestamp), "Quantide-Signature": f"sha256={code}"}
