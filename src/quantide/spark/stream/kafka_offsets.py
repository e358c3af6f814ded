"""Kafka offsets: where a stream continues, by the offsets of its store and those that the brokers have.

The record of a batch has the offsets at its end, and the ids of the topics. A stream continues after them, with or
without Spark's checkpoint. Records that the brokers deleted before they were ingested are lost: retention removed them,
or the topic was deleted and made again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from quantide.config import StreamConfig
from quantide.config.kafka_source import PATTERN, SERVERS, SUBSCRIBE
from quantide.errors import ConnectorError, DataLossError, StreamError
from quantide.spark.stream.stream_source import first_line, hide_secrets

Offsets = Mapping[str, Mapping[int, int]]  # by topic and partition
TIMEOUTS = {"default.api.timeout.ms": "15000", "request.timeout.ms": "10000"}
EARLIEST, LATEST = -2, -1  # offsets that stand for the first and the next one


@dataclass(frozen=True)
class BrokerTopic:
    """Topic of a broker: its id, and for each partition the first offset and the next one."""

    id: str
    partitions: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class StartPlan:
    """Offsets at which a stream continues; and what was lost before them: the number of offsets, and the reasons."""

    offsets: Offsets
    lost: int = 0
    reasons: tuple[str, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)
    """Ids of the topics."""

    def check(self, stream: StreamConfig) -> None:
        """Raise DataLossError if something was lost and the stream is configured to fail."""
        if not self.reasons or stream.source.on_data_loss == "continue":
            return
        raise DataLossError(
            f"{stream.key}: {self.lost:,} offsets are lost, which were not ingested: {'; '.join(self.reasons)}. Set "
            f'{stream.key}.source.on_data_loss = "continue" to go on with the records that are there, or produce the '
            "lost ones again"
        )


def parse_offsets(text: str) -> dict[str, dict[int, int]]:
    """Parse offsets as Spark writes them.

    >>> parse_offsets('{"latency":{"0":17}}')
    {'latency': {0: 17}}
    """
    topics = json.loads(text) if text else {}
    return {topic: {int(p): int(offset) for p, offset in offsets.items()} for topic, offsets in topics.items()}


def format_offsets(offsets: Offsets) -> str:
    return json.dumps({topic: {str(p): o for p, o in parts.items()} for topic, parts in offsets.items()})


def count_between(start: Offsets, end: Offsets) -> int:
    """Count the offsets from `start` to `end`; partitions that are not in `start` begin at 0."""
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )


def plan_start(start: str, stored: Offsets, ids: Mapping[str, str], topics: Mapping[str, BrokerTopic]) -> StartPlan:
    """Plan where to continue after the `stored` offsets of topics with these ids; without any, as `start` says."""
    offsets: dict[str, dict[int, int]] = {}
    lost, reasons = 0, list[str]()
    given = {} if start in ("earliest", "latest") else parse_offsets(start)
    for name, topic in topics.items():
        before = stored.get(name)
        if before is None:
            offsets[name] = {p: _first_offset(start, given.get(name, {}).get(p), ends) for p, ends in _sorted(topic)}
            continue
        is_other = name in ids and topic.id != ids[name]
        offsets[name] = {}
        for partition, (first, last) in _sorted(topic):
            offset = before.get(partition, first)
            offsets[name][partition] = first if is_other or not first <= offset <= last else offset
            if not is_other and offset < first:
                lost += first - offset
                reasons.append(f"{name}-{partition} begins at offset {first:,}, and the store continues at {offset:,}")
            elif not is_other and offset > last:
                is_other = True
        if is_other or before.keys() - topic.partitions.keys():
            reasons.append(f"the topic {name} was deleted and made again; the rest of the former one is gone")
            offsets[name] = {p: first for p, (first, _) in _sorted(topic)}
    return StartPlan(offsets, lost, tuple(reasons), {name: topic.id for name, topic in topics.items()})


def _sorted(topic: BrokerTopic) -> list[tuple[int, tuple[int, int]]]:
    return sorted(topic.partitions.items())


def _first_offset(start: str, given: int | None, ends: tuple[int, int]) -> int:
    """Return the offset at which a partition begins that the store does not have yet."""
    if start == "latest" or given == LATEST:
        return ends[1]
    return ends[0] if given is None or given == EARLIEST else given


def read_topics(session: SparkSession, stream: StreamConfig) -> dict[str, BrokerTopic]:
    """Read the topics of a stream, with the offsets of their partitions, from the brokers."""
    options, jvm = stream.source.options, session.sparkContext._jvm
    assert jvm is not None
    clients = jvm.org.apache.kafka.clients.admin
    properties = jvm.java.util.Properties()
    settings = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
    for name, value in {**TIMEOUTS, **settings}.items():
        properties.setProperty(name, value)
    try:
        admin = clients.AdminClient.create(properties)
    except TypeError as error:  # py4j found a package of that name instead of a class
        raise ConnectorError(
            f"{stream.key}: this Spark session has no Kafka connector. Start it with spark.jars.packages = "
            '"org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION", or let `quantide ingest` start it'
        ) from error
    except Py4JJavaError as error:
        raise unreachable(stream, error) from error
    try:
        topics = _describe_topics(jvm, admin, _topic_names(jvm, admin, options))
        return _keep_assigned(topics, json.loads(options["assign"])) if "assign" in options else topics
    except Py4JJavaError as error:
        raise unreachable(stream, error) from error
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(1))


def unreachable(stream: StreamConfig, error: Py4JJavaError) -> StreamError:
    """Return the error for brokers that do not answer, refuse access, or do not have the topic."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    reason = hide_secrets(first_line(RuntimeError(str(cause.toString()))), stream.source)
    servers = stream.source.options.get(SERVERS, "")
    if "UnknownTopicOrPartition" in reason:
        return StreamError(
            f"{stream.key}.source.topic: the brokers {servers} do not have the topic "
            f"{stream.source.options.get(SUBSCRIBE, '')!r}; create it, or correct its name"
        )
    return StreamError(
        f"{stream.key}: the Kafka brokers {servers} do not answer: {reason}. Check {stream.key}.source.servers, the "
        "network, and the security settings in source.options"
    )


def _topic_names(jvm: Any, admin: Any, options: Mapping[str, str]) -> list[str]:
    if SUBSCRIBE in options:
        return [name.strip() for name in options[SUBSCRIBE].split(",")]
    if PATTERN in options:
        names = admin.listTopics().names().get()
        return sorted(name for name in names if jvm.java.util.regex.Pattern.matches(options[PATTERN], name))
    return sorted(json.loads(options.get("assign", "{}")))


def _keep_assigned(topics: Mapping[str, BrokerTopic], assigned: Mapping[str, list[int]]) -> dict[str, BrokerTopic]:
    """Return topics with the partitions that are assigned to the stream."""
    return {
        name: BrokerTopic(topic.id, {p: ends for p, ends in topic.partitions.items() if p in assigned[name]})
        for name, topic in topics.items()
    }


def _describe_topics(jvm: Any, admin: Any, names: list[str]) -> dict[str, BrokerTopic]:
    listed = jvm.java.util.ArrayList()
    for name in names:
        listed.add(name)
    described = admin.describeTopics(listed).allTopicNames().get()
    first, last = jvm.java.util.HashMap(), jvm.java.util.HashMap()
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    earliest, latest = spec.earliest(), spec.latest()
    partitions = []
    for name in names:
        for info in described[name].partitions():
            partition = jvm.org.apache.kafka.common.TopicPartition(name, info.partition())
            first[partition], last[partition] = earliest, latest
            partitions.append((name, int(info.partition()), partition))
    begins, ends = admin.listOffsets(first).all().get(), admin.listOffsets(last).all().get()
    offsets: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in names}
    for name, number, partition in partitions:
        offsets[name][number] = (int(begins[partition].offset()), int(ends[partition].offset()))
    return {name: BrokerTopic(str(described[name].topicId().toString()), offsets[name]) for name in names}
