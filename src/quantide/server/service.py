"""Service: the components of a running server, which all routes share."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from quantide.config import Config
from quantide.errors import LimitError
from quantide.server.alarms.alarm_engine import AlarmEngine
from quantide.server.alarms.webhook_delivery import WebhookOutbox, WebhookSender
from quantide.server.events.event_hub import EventHub
from quantide.server.metrics import ServerMetrics
from quantide.server.push.stream_pusher import StreamPusher
from quantide.server.served_streams import ServedStreams
from quantide.server.server_registry import ServerRegistry
from quantide.server.stream_health import HealthLog
from quantide.server.subscriptions.continuous_queries import ContinuousQueries
from quantide.server.subscriptions.query_table import LabelIndex

T = TypeVar("T")

THREADS = 4  # answers are computed, and there is one interpreter


class Service:
    """Streams, registry, continuous queries, alarms, and the thread pool that computes answers."""

    def __init__(self, config: Config) -> None:
        self.config, self.limits = config, config.server.limits
        self.registry = ServerRegistry(config.server.state)
        self.loop_registry = ServerRegistry(config.server.state)  # of the event loop: it never waits for a writer
        self.streams = ServedStreams(config)
        self.hub = EventHub(self.limits.events)
        self.queries = ContinuousQueries(self.registry, self.streams, self.limits.queries, self.hub.notify)
        self.labels = LabelIndex(self.registry, lambda: self.queries.table)
        self.start_number = 0
        self.metrics = ServerMetrics(self.streams)
        self.outbox = WebhookOutbox(self.registry)
        self.webhooks = WebhookSender(self.outbox, config.server.webhooks)
        self.alarms = AlarmEngine(self.registry, self.streams, self.outbox, self.limits.alarms)
        self.alarms.subscribe(self.webhooks.notify)
        self.alarms.subscribe(self.hub.notify)
        self.health_log = HealthLog(self.streams)
        self.pushers = {
            name: StreamPusher(stream, self.streams.live, self.limits.body)
            for name, stream in config.streams.items()
            if stream.source.push is not None
        }
        self._add_gauges()
        self._threads = ThreadPoolExecutor(THREADS, "quantide-answers")
        self._queued = 0

    def _add_gauges(self) -> None:
        gauge = self.metrics.add_gauge
        gauge("queries", "Continuous queries", lambda: len(self.queries))
        gauge("event_streams", "Open event streams", lambda: len(self.hub))
        gauge("alarms", "Alarms", lambda: len(self.alarms.list_alarms()))
        gauge("alarms_firing", "Alarms that fire", lambda: self.alarms.firing)
        gauge("webhooks_waiting", "Webhook deliveries in the outbox", self.outbox.count_pending)
        gauge("webhooks_delivered", "Webhook deliveries done, since the start", lambda: self.webhooks.delivered)
        gauge("webhooks_failed", "Webhook attempts that failed, since the start", lambda: self.webhooks.failed)
        gauge(
            "pushed_rows", "Rows that were pushed, since the start", lambda: sum(p.rows for p in self.pushers.values())
        )
        gauge("webhooks_given_up", "Webhook deliveries given up, since the start", lambda: self.outbox.given_up)

    async def compute(self, function: Callable[[], T]) -> T:
        """Return the result of a function, computed in the thread pool."""
        if self._queued >= self.limits.waiting:
            raise LimitError(f"{self._queued} requests are being computed already; repeat this one in a second")
        self._queued += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function)
        finally:
            self._queued -= 1

    def start(self) -> None:
        with self.registry.transaction() as write:
            self.start_number = write.execute("INSERT INTO runs (began) VALUES (?)", (time.time(),)).lastrowid or 0
        self.queries.start()
        self.streams.subscribe(self.queries.on_commit)
        self.alarms.start()
        self.webhooks.start()
        self.streams.start()
        self.health_log.start()

    def close(self) -> None:
        for pusher in self.pushers.values():
            pusher.close()
        self.health_log.close()
        self.hub.close()
        self.alarms.close()  # before the streams, whose end must not change an alarm
        self.streams.close()
        self.queries.close()
        self.webhooks.close()
        self._threads.shutdown()
        self.labels.close()
        self.registry.close()
        self.loop_registry.close()
