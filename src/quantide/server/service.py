"""Everything a server holds while it runs; routes are given this and nothing else."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from quantide.config import Config
from quantide.errors import LimitError
from quantide.server.alarms import Alarms
from quantide.server.hub import Hub
from quantide.server.label_index import LabelIndex
from quantide.server.metrics import Metrics
from quantide.server.outbox import Outbox
from quantide.server.registry import Registry
from quantide.server.standing import Standing
from quantide.server.stream_health import HealthLog
from quantide.server.streams import Streams
from quantide.server.webhooks import Webhooks

T = TypeVar("T")

THREADS = 4  # that answer; questions compute, and there is one interpreter


class Service:
    """The streams, the registry, and threads that answer, so that one question does not hold up the others."""

    def __init__(self, config: Config) -> None:
        self.config, self.limits = config, config.server.limits
        self.registry = Registry(config.server.state)
        self.reads = Registry(config.server.state)  # of the event loop: it never waits for a thread that writes
        self.streams = Streams(config)
        self.hub = Hub(self.limits.events)
        self.standing = Standing(self.registry, self.streams, self.limits.queries, self.hub.wake)
        self.labels = LabelIndex(self.registry, lambda: self.standing.columns)
        self.run = 0
        self.metrics = Metrics(self.streams)
        self.outbox = Outbox(self.registry)
        self.webhooks = Webhooks(self.outbox, config.server.webhooks)
        self.alarms = Alarms(self.registry, self.streams, self.outbox, self.limits.alarms)
        self.alarms.listen(self.webhooks.wake)
        self.alarms.listen(self.hub.wake)
        self.health_log = HealthLog(self.streams)
        self._measure()
        self._threads = ThreadPoolExecutor(THREADS, "quantide-answers")
        self.waiting = 0

    def _measure(self) -> None:
        gauge = self.metrics.gauge
        gauge("queries", "Standing queries", lambda: len(self.standing))
        gauge("event_streams", "Open event streams", lambda: len(self.hub))
        gauge("alarms", "Alarms", lambda: len(self.alarms.all()))
        gauge("alarms_firing", "Alarms that fire", lambda: self.alarms.firing)
        gauge("webhooks_waiting", "Messages to webhooks that wait to be sent", self.outbox.waiting)
        gauge("webhooks_delivered", "Messages that arrived, since the start", lambda: self.webhooks.delivered)
        gauge("webhooks_failed", "Attempts that failed, since the start", lambda: self.webhooks.failed)
        gauge("webhooks_given_up", "Messages that were given up, since the start", lambda: self.outbox.given_up)

    async def ask(self, question: Callable[[], T]) -> T:
        """What a question gives, computed in a thread."""
        if self.waiting >= self.limits.waiting:
            raise LimitError(f"{self.waiting} questions wait already; ask again in a second")
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question)
        finally:
            self.waiting -= 1

    def start(self) -> None:
        with self.registry.change() as write:
            self.run = write.execute("INSERT INTO runs (began) VALUES (?)", (time.time(),)).lastrowid or 0
        self.standing.start()
        self.streams.follow(self.standing.moved)
        self.alarms.start()
        self.webhooks.start()
        self.streams.start()
        self.health_log.start()

    def close(self) -> None:
        self.health_log.close()
        self.hub.close()
        self.alarms.close()  # before streams: one that was closed is no news
        self.streams.close()
        self.standing.close()
        self.webhooks.close()
        self._threads.shutdown()
        self.labels.close()
        self.registry.close()
        self.reads.close()
