"""Prometheus metrics of the server."""

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, exposition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quantide.server.quantile_metrics import QuantileCollector
from quantide.server.served_streams import ServedStreams
from quantide.server.stream_health import StreamHealth, stream_health
from quantide.windows.wall_clock import wall_clock

LATENCY_BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)  # seconds
EVENT_STREAM = b"text/event-stream"  # not timed: it lasts as long as its client stays
STREAM_GAUGES = {  # entry of LiveStream.stats(): name and help text
    "values": ("values", "Values of a stream"),
    "version": ("version", "The commit that answers about a stream are computed from"),
    "polled": ("looked_seconds", "Seconds since the last poll for commits"),
    "memory": ("memory_bytes", "Bytes of a reader's caches"),
    "recent_files": ("recent_files", "Files of recent rows"),
    "runs": ("runs", "Runs of ended steps"),
    "monitors": ("monitors", "Windows with continuous queries"),
}
STREAM_COUNTERS = {  # entry of LiveStream.stats(): name and help text
    "requests": ("storage_requests", "Requests to an object store"),
    "retries": ("storage_retries", "Requests to an object store that were repeated after a failure"),
    "bytes_fetched": ("storage_fetched_bytes", "Bytes read from an object store"),
    "bytes_stored": ("storage_stored_bytes", "Bytes written to an object store"),
    "cache_hits": ("storage_cache_hits", "Reads that the cache on local disk answered"),
}
HEALTH_GAUGES = {
    "lag_seconds": "Seconds from the newest time to now; negative when that time is ahead of the clock",
    "newest_time_seconds": "The newest time, in seconds since 1970",
    "problems": "Problems that a person should act on",
    "clock_problem": "1 when times or clocks are implausible, else 0",
    "bad_rows": "Rows that ingestion put into quarantine",
    "held_files": "Files that ingestion put into quarantine",
    "waiting_files": "Files that ingestion will retry",
    "ingest_age_seconds": "Seconds since ingestion published its status",
}


class ServerMetrics:
    """Counters and histograms of requests, and gauges that are read when metrics are requested."""

    def __init__(self, streams: ServedStreams) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter("quantide_requests", "Requests", ["route", "status"], registry=self._registry)
        self.seconds = Histogram(
            "quantide_request_seconds", "Time of a request", ["route"], registry=self._registry, buckets=LATENCY_BUCKETS
        )
        self._streams = streams
        self._gauges = GaugeCollector(streams)
        self._registry.register(self._gauges)
        self._registry.register(QuantileCollector(streams))
        ProcessCollector(registry=self._registry)

    def add_gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """Add a gauge; `read` returns its value."""
        self._gauges.gauges[f"quantide_{name}"] = (help, read)

    def exposition(self, streams: frozenset[str] | None = None) -> tuple[bytes, str]:
        """Return the text of all metrics, or of the gauges of some streams, and its media type."""
        registry = self._registry
        if streams is not None:
            registry = CollectorRegistry()
            registry.register(GaugeCollector(self._streams, streams))
            registry.register(QuantileCollector(self._streams, streams))
        return exposition.generate_latest(registry), exposition.CONTENT_TYPE_LATEST


class GaugeCollector(Collector):
    """Gauges and counters of each stream, and gauges that other components add."""

    def __init__(self, streams: ServedStreams, names: frozenset[str] | None = None) -> None:
        self._names = names
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        unopened = self._streams.open_errors
        ready = GaugeMetricFamily("quantide_stream_ready", "1 when a stream can be queried, else 0", labels=["stream"])
        of_stats: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
            name: GaugeMetricFamily(f"quantide_stream_{short}", help, labels=["stream"])
            for name, (short, help) in STREAM_GAUGES.items()
        }
        for name, (short, help) in STREAM_COUNTERS.items():
            of_stats[name] = CounterMetricFamily(f"quantide_stream_{short}", help, labels=["stream"])
        of_health = {
            name: GaugeMetricFamily(f"quantide_stream_{name}", help, labels=["stream"])
            for name, help in HEALTH_GAUGES.items()
        }
        for stream in self._streams.names:
            if self._names is not None and stream not in self._names:
                continue
            ready.add_metric([stream], 0 if self._streams.failure_reason(stream) else 1)
            if stream not in unopened:
                stats = self._streams.live(stream).stats()
                for name, family in of_stats.items():
                    family.add_metric([stream], stats[name])
            for name, value in _health_values(stream_health(self._streams, stream)).items():
                of_health[name].add_metric([stream], value)
        yield from (ready, *of_stats.values(), *of_health.values())
        for name, (help, read) in self.gauges.items():
            yield GaugeMetricFamily(name, help, value=read())


def _health_values(health: StreamHealth) -> dict[str, float]:
    """Return the values of HEALTH_GAUGES, without the unknown ones."""
    ingest, now = health.ingest, wall_clock()
    clock = health.blocking is not None or bool(ingest and ingest.clock_problem)
    values: dict[str, float] = {"problems": len(health.problems), "clock_problem": clock}
    if health.lag is not None:
        values |= {"lag_seconds": health.lag, "newest_time_seconds": now - health.lag}
    if ingest is not None:
        values |= {name: getattr(ingest, name) for name in ("bad_rows", "held_files", "waiting_files")}
        values["ingest_age_seconds"] = now - ingest.time
    return values


class MetricsMiddleware:
    """Counts and times requests by route, never by path: there are few routes, and any number of paths."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, timed = time.perf_counter(), "none", True

        async def observe(message: Message) -> None:
            nonlocal status, timed
            if message["type"] == "http.response.start":
                status = str(message["status"])
                timed = not any(value.startswith(EVENT_STREAM) for _, value in message.get("headers", ()))
            await send(message)

        try:
            await self._app(scope, receive, observe)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(route, status).inc()
            if timed:
                self._metrics.seconds.labels(route).observe(time.perf_counter() - start)
