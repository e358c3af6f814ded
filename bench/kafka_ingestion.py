"""Kafka into history: rows a second beside plain Spark on the same topic, and the time from a record to an answer."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np
from confluent_kafka import Producer

from bench.collection import Subject
from bench.ingestion import events, file_values, store_holds
from bench.inputs import Floats
from bench.live_reader import NumberedTimes, first_at, newest
from bench.processes import PATIENCE, Child
from bench.report import Report, Row, show, sized
from bench.timing import scratch, spread
from quantide.live import LiveStream
from quantide.spark.kafka_connector import JARS_VARIABLE
from tests.kafka.broker import CONNECTOR, Broker, running_broker

OURS, PEER = "quantide ingest", "Spark, from_json and Parquet"
TOPIC = "latency"
BEGIN = datetime(2025, 6, 15, tzinfo=UTC).timestamp()
CONFIG = """store = "data"
[streams.s]
source.format = "kafka"
source.servers = "{servers}"
source.topic = "latency"
source.max_rows = {max_rows}
source.decode = {{ format = "json", schema = "v DOUBLE, t TIMESTAMP" }}
value = "v"
time = "{time}"
eps = 0.001
"""


@dataclass(frozen=True)
class Settings:
    """`records` of a topic, `max_rows` in a batch; and `lag_seconds` at `lag_rate` records a second."""

    cores: int = 2
    partitions: int = 2
    records: int = sized(4_000_000, 1_000_000, 3_000)
    max_rows: int = sized(1_000_000, 250_000, 1_000)
    lag_rate: int = sized(10_000, quick=200)
    lag_seconds: float = sized(60.0, 30.0, 3.0)


@contextmanager
def kafka() -> Iterator[tuple[Broker, Path]]:
    """Yield a broker and a folder; Spark takes the connector from the jars of the tests."""
    with scratch() as folder, patch.dict(os.environ, {JARS_VARIABLE: str(CONNECTOR)}):
        (folder / "broker").mkdir()
        with running_broker(folder / "broker") as broker:
            yield broker, folder


def configure(folder: Path, servers: str, max_rows: int, time_column: str = "t") -> Path:
    folder.mkdir()
    text = CONFIG.format(servers=servers, max_rows=max_rows, time=time_column)
    (folder / "quantide.toml").write_text(text, encoding="utf-8")
    return folder / "data" / "s"


def rate(s: Settings) -> list[Row]:
    """Measure each method in turn, each in a new process, on the same topic."""
    with kafka() as (broker, folder):
        show(f"kafka: produce {s.records:,} records")
        broker.create(TOPIC, s.partitions)
        values = np.round(file_values(0, s.records), 6)
        stamp = datetime.fromtimestamp(BEGIN, UTC).isoformat()
        broker.produce(TOPIC, (json.dumps({"v": value, "t": stamp}).encode() for value in values.tolist()))
        return [_rate(folder / name.split(",")[0], broker, name, values, s) for name in (OURS, PEER)]


def _rate(folder: Path, broker: Broker, name: str, values: Floats, s: Settings) -> Row:
    show(f"kafka: {len(values):,} records, {name}")
    store = configure(folder, broker.servers, s.max_rows)
    method, more = ("quantide", ["--once"]) if name == OURS else ("spark", [broker.servers, TOPIC, str(s.max_rows)])
    with Child(folder / "log.out", "bench.kafka_child", method, str(folder), str(s.cores), *more) as child:
        child.finish()
    batches = events(folder)
    seconds = batches[-1]["ended"] - batches[0]["begun"]
    later = [one["ended"] - one["begun"] for one in batches[1:]] or [seconds]
    holds = store_holds(store, values, 0.001) if name == OURS else None
    row = {"method": name, "rows": len(values), "seconds": seconds, "rate": len(values) / seconds, "holds": holds}
    return row | {"batches": len(batches), "batch": float(np.median(later))}


def latency(s: Settings) -> list[Row]:
    """Measure the time from a record to the first answer of a live reader with it."""
    show(f"kafka: {s.lag_rate:,} records a second for {s.lag_seconds:g} s")
    with kafka() as (broker, folder):
        broker.create(TOPIC, s.partitions)
        store = configure(folder / "lag", broker.servers, s.max_rows, "kafka_timestamp")
        broker.produce(TOPIC, [{"v": 0.0}])
        with Child(folder / "log.out", "bench.kafka_child", "quantide", str(folder / "lag"), str(s.cores)) as child:
            child.wait_for(lambda: events(folder / "lag"))
            produced, received = _follow(broker, store, child, s)
            child.finish(stop=True)
        batches = events(folder / "lag")
    lags = [first_at(received, number) - at for number, at in produced]
    return [{"records": produced[-1][0], "batches": len(batches), **spread(lags[len(lags) // 10 :])}]


def _follow(broker: Broker, store: Path, child: Child, s: Settings) -> tuple[NumberedTimes, NumberedTimes]:
    """Produce records whose values count up, ten groups a second; return when groups were produced, and received."""
    produced, received, version = NumberedTimes(), NumberedTimes(), -1
    last = int(s.lag_rate * s.lag_seconds)
    thread = threading.Thread(target=_produce, args=(broker, produced, last, s.lag_rate), daemon=True)
    with LiveStream(store) as live:
        thread.start()
        limit = time.monotonic() + s.lag_seconds + PATIENCE
        while not received or received[-1][0] < last:
            if live.version != version:
                version = live.version
                received.append((newest(live), time.monotonic()))
            else:
                child.check()
                time.sleep(0.001)
            if time.monotonic() > limit:
                raise TimeoutError(f"the reader did not see record {last:,}")
        thread.join()
    return produced, received


def _produce(broker: Broker, produced: NumberedTimes, last: int, a_second: int) -> None:
    """Produce the records 1 to `last` to one partition, in their order; log the last one of each group."""
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 1, "log_level": 0})
    group, begun = max(1, a_second // 10), time.monotonic()
    for first in range(1, last + 1, group):
        time.sleep(max(0.0, begun + first / a_second - time.monotonic()))
        end = min(first + group - 1, last)
        at = time.monotonic()
        for number in range(first, end + 1):
            producer.produce(TOPIC, json.dumps({"v": float(number)}), partition=0)
        producer.poll(0)
        produced.append((end, at))
    producer.flush(PATIENCE)


def context(report: Report) -> Row:
    """Return the speed beside plain Spark."""
    ours, peer = report.rows["rate"]
    return {"ratio": ours["rate"] / peer["rate"]}


PARTS = {"rate": rate, "latency": latency}
SUBJECT = Subject("Kafka into history, through Spark: speed and lag", Settings, PARTS, context)
