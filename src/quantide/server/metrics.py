"""What the server measures of itself, for Prometheus."""

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, exposition
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quantide.server.stream_health import StreamHealth, stream_health
from quantide.server.streams import Streams
from quantide.windows.wall_clock import wall_clock

SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
EVENTS = b"text/event-stream"  # they last as long as someone listens
OF_STREAMS = {
    "values": ("values", "Values of a stream"),
    "version": ("version", "The commit as of which a stream is answered"),
    "polled": ("looked_seconds", "Seconds since commits were looked for"),
    "memory": ("memory_bytes", "Bytes that a reader holds to answer again"),
    "recent_files": ("recent_files", "Files of recent rows"),
    "runs": ("runs", "Runs of ended steps"),
    "monitors": ("monitors", "Windows with standing queries"),
}
OF_HEALTH = {
    "lag_seconds": "Seconds from the newest time to now; negative when that time is ahead of the clock",
    "newest_time_seconds": "The newest time, in seconds since 1970",
    "problems": "Problems that a person should act on",
    "clock_problem": "1 when times or clocks are implausible, else 0",
    "bad_rows": "Rows that ingestion put into quarantine",
    "held_files": "Files that ingestion holds in quarantine",
    "waiting_files": "Files that ingestion tries again",
    "ingest_age_seconds": "Seconds since ingestion published its status",
}


class Metrics:
    """Counts requests; what else there is to tell is looked up when it is asked for."""

    def __init__(self, streams: Streams) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("quantide_requests", "Requests", ["route", "status"], registry=self._registry)
        self.seconds = Histogram(
            "quantide_request_seconds", "Time of a request", ["route"], registry=self._registry, buckets=SECONDS
        )
        self._gauges = Gauges(streams)
        self._registry.register(self._gauges)
        ProcessCollector(registry=self._registry)

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """A number that is read when metrics are asked for."""
        self._gauges.numbers[f"quantide_{name}"] = (about, read)

    def text(self) -> tuple[bytes, str]:
        """All of it, and the media type."""
        return exposition.generate_latest(self._registry), exposition.CONTENT_TYPE_LATEST


class Gauges(Collector):
    """Numbers of each stream, and those that other parts of the server have."""

    def __init__(self, streams: Streams) -> None:
        self.numbers: dict[str, tuple[str, Callable[[], float]]] = {}
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        waiting = self._streams.waiting
        ready = GaugeMetricFamily("quantide_stream_ready", "Whether a stream can be asked", labels=["stream"])
        each = {
            name: GaugeMetricFamily(f"quantide_stream_{short}", about, labels=["stream"])
            for name, (short, about) in OF_STREAMS.items()
        }
        of_health = {
            name: GaugeMetricFamily(f"quantide_stream_{name}", about, labels=["stream"])
            for name, about in OF_HEALTH.items()
        }
        for stream in self._streams.names:
            ready.add_metric([stream], 0 if self._streams.wrong(stream) else 1)
            if stream not in waiting:
                stats = self._streams.live(stream).stats()
                for name, family in each.items():
                    family.add_metric([stream], stats[name])
            for name, value in _health_values(stream_health(self._streams, stream)).items():
                of_health[name].add_metric([stream], value)
        yield from (ready, *each.values(), *of_health.values())
        for name, (about, read) in self.numbers.items():
            yield GaugeMetricFamily(name, about, value=read())


def _health_values(health: StreamHealth) -> dict[str, float]:
    """Values of OF_HEALTH; those that are unknown are missing."""
    ingest, now = health.ingest, wall_clock()
    clock = health.blocking is not None or bool(ingest and ingest.clock_problem)
    out: dict[str, float] = {"problems": len(health.problems), "clock_problem": clock}
    if health.lag is not None:
        out |= {"lag_seconds": health.lag, "newest_time_seconds": now - health.lag}
    if ingest is not None:
        out |= {name: getattr(ingest, name) for name in ("bad_rows", "held_files", "waiting_files")}
        out["ingest_age_seconds"] = now - ingest.time
    return out


class Measured:
    """Counts and times every request by the route that it took, never by its address: there are few routes."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, timed = time.perf_counter(), "none", True

        async def told(message: Message) -> None:
            nonlocal status, timed
            if message["type"] == "http.response.start":
                status = str(message["status"])
                timed = not any(value.startswith(EVENTS) for _, value in message.get("headers", ()))
            await send(message)

        try:
            await self._app(scope, receive, told)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(route, status).inc()
            if timed:
                self._metrics.seconds.labels(route).observe(time.perf_counter() - began)
