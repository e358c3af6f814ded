"""Kafka offsets: where a stream continues, by the offsets of its store and those that the brokers have.

The record of a batch has the offsets at its end, and the ids of the topics. A stream continues after them, with or
without Spark's checkpoint. Records that the brokers deleted before they were ingested are lost: retention removed them,
or the topic was deleted and made again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from quantide.config import StreamConfig
from quantide.config.kafka_source import PATTERN, SERVERS, SUBSCRIBE
from quantide.errors import ConfigError, ConnectorError, DataLossError, StreamError
from quantide.spark.stream.stream_source import first_line, hide_secrets

Offsets = Mapping[str, Mapping[int, int]]  # by topic and partition
TIMEOUTS = {"default.api.timeout.ms": "15000", "request.timeout.ms": "10000"}
EARLIEST, LATEST = -2, -1  # offsets that stand for the first and the next one
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of a topic of brokers before Kafka 2.8


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
    replaced: frozenset[str] = frozenset()
    """Topics whose stored offsets do not apply any more: they were deleted, and some of them made again."""
    backlog: int = 0
    """Number of offsets after the planned ones."""

    def with_deleted(self, topics: Iterable[str], reasons: Iterable[str]) -> "StartPlan":
        """Return the plan with topics that do not exist any more, and the reasons why that is a loss."""
        return replace(self, reasons=(*self.reasons, *reasons), replaced=self.replaced.union(topics))

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
    """Plan where to continue after the `stored` offsets of topics with these ids; without any, as `start` says.

    A topic that is new in a stream that has offsets is read from its beginning, unless `start` has offsets for it.
    """
    offsets: dict[str, dict[int, int]] = {}
    lost, reasons, made_again = 0, list[str](), set[str]()
    given = {} if start in ("earliest", "latest") else parse_offsets(start)
    for name, topic in topics.items():
        before = stored.get(name)
        if before is None:
            default = "earliest" if stored else start
            before = {p: _first_offset(default, given.get(name, {}).get(p), ends) for p, ends in _sorted(topic)}
        elif _is_other(name, topic, before, ids):
            made_again.add(name)
            reasons.append(f"the topic {name} was deleted and made again; the rest of the former one is gone")
            before = {}
        offsets[name] = {}
        for partition, (first, last) in _sorted(topic):
            offset = before.get(partition, first)
            offsets[name][partition] = min(max(first, offset), last)
            if offset < first:
                lost += first - offset
                reasons.append(f"{name}-{partition} begins at offset {first:,}, and the store continues at {offset:,}")
            elif offset > last:
                reasons.append(f"{name}-{partition} ends at offset {last:,}, and the store continues at {offset:,}")
    ids_now = {name: topic.id for name, topic in topics.items()}
    ends = {name: {p: last for p, (_, last) in topic.partitions.items()} for name, topic in topics.items()}
    return StartPlan(
        offsets, lost, tuple(reasons), ids_now, frozenset(made_again), backlog=count_between(offsets, ends)
    )


def _is_other(name: str, topic: BrokerTopic, before: Mapping[int, int], ids: Mapping[str, str]) -> bool:
    """Return True if a topic is not the one whose offsets are stored: by its id or, without one, by its offsets."""
    if ids.get(name, NO_ID) != NO_ID:
        return topic.id != ids[name]
    is_shorter = any(p in before and before[p] > last for p, (_, last) in topic.partitions.items())
    return is_shorter or bool(before.keys() - topic.partitions.keys())


def check_start(stream: StreamConfig, topics: Mapping[str, BrokerTopic]) -> None:
    """Raise ConfigError if the offsets at which a new stream begins are not those of its topics."""
    start = stream.source.start
    if start in ("earliest", "latest"):
        return
    for name, offsets in parse_offsets(start).items():
        for partition, offset in offsets.items():
            ends = topics[name].partitions.get(partition) if name in topics else None
            if ends is None:
                known = ", ".join(f"{topic}-{p}" for topic, found in topics.items() for p, _ in _sorted(found))
                raise ConfigError(
                    f"{stream.key}.source.start has offsets of {name}-{partition}, which the stream does not read; "
                    f"there are {known}"
                )
            if offset > ends[1]:
                raise ConfigError(
                    f"{stream.key}.source.start is offset {offset:,} of {name}-{partition}, which ends at {ends[1]:,}; "
                    'correct it, or write "latest"'
                )


def merge_offsets(stored: Offsets, end: Offsets) -> dict[str, dict[int, int]]:
    """Return the stored offsets, moved to the end of a batch.

    Topics and partitions that are not read any more keep theirs, in case they are read again.
    """
    return {topic: {**stored.get(topic, {}), **end.get(topic, {})} for topic in {**stored, **end}}


def can_continue(checkpoint: Offsets, planned: Offsets) -> bool:
    """Return True if a query with these offsets in its checkpoint reads the planned ones.

    Spark reads partitions that are not in its checkpoint from offset 0, and fails if others are gone.
    """
    partitions = {(topic, p) for topic, offsets in checkpoint.items() for p in offsets}
    wanted = {(topic, p): offset for topic, offsets in planned.items() for p, offset in offsets.items()}
    added = [offset for partition, offset in wanted.items() if partition not in partitions]
    return not partitions or (partitions <= wanted.keys() and not any(added))


def _sorted(topic: BrokerTopic) -> list[tuple[int, tuple[int, int]]]:
    return sorted(topic.partitions.items())


def _first_offset(start: str, given: int | None, ends: tuple[int, int]) -> int:
    """Return the offset at which a partition begins that the store does not have yet."""
    if start == "latest" or given == LATEST:
        return ends[1]
    return ends[0] if given is None or given == EARLIEST else given


class BrokerClient:
    """Reads topics of a stream from the brokers, with Kafka's client in Spark's JVM."""

    def __init__(self, session: SparkSession, stream: StreamConfig) -> None:
        self._stream, self._options, self._admin = stream, stream.source.options, None
        jvm = session.sparkContext._jvm
        assert jvm is not None
        self._jvm: Any = jvm

    def read_topics(self) -> dict[str, BrokerTopic]:
        """Return the topics with the offsets of their partitions."""
        with self._open() as admin:
            names = _topic_names(self._jvm, admin, self._options)
            topics = _describe_topics(self._jvm, admin, names)
        return _keep_assigned(topics, json.loads(self._options["assign"])) if "assign" in self._options else topics

    def read_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics; a topic that does not exist has none."""
        with self._open() as admin:
            futures = admin.describeTopics(_to_java(self._jvm, names)).topicNameValues()
            return {str(name): found for name in futures if (found := _read_id(futures[name])) is not None}

    def selects(self, topic: str) -> bool:
        """Return True if the configuration selects topics by a pattern that a name matches."""
        pattern = self._options.get(PATTERN)
        return pattern is not None and bool(self._jvm.java.util.regex.Pattern.matches(pattern, topic))

    def close(self) -> None:
        if self._admin is not None:
            with suppress(Py4JError):  # the JVM may have ended
                self._admin.close(self._jvm.java.time.Duration.ofSeconds(1))
            self._admin = None

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Connect, once; raise StreamError if the brokers do not answer."""
        try:
            if self._admin is None:
                self._admin = self._connect()
            yield self._admin
        except Py4JJavaError as error:
            self.close()
            raise unreachable(self._stream, error) from error

    def _connect(self) -> Any:
        properties = self._jvm.java.util.Properties()
        settings = {n.removeprefix("kafka."): value for n, value in self._options.items() if n.startswith("kafka.")}
        for name, value in {**TIMEOUTS, **settings}.items():
            properties.setProperty(name, value)
        try:
            return self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        except TypeError as error:  # py4j found a package of that name instead of a class
            raise ConnectorError(
                f"{self._stream.key}: this Spark session has no Kafka connector. Start it with spark.jars.packages = "
                '"org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION", or let `quantide ingest` start it'
            ) from error


def _read_id(future: Any) -> str | None:
    try:
        return str(future.get().topicId().toString())
    except Py4JJavaError as error:
        if "UnknownTopicOrPartition" in str(error.java_exception.toString()):
            return None
        raise


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


def _to_java(jvm: Any, names: Iterable[str]) -> Any:
    listed = jvm.java.util.ArrayList()
    for name in names:
        listed.add(name)
    return listed


def _describe_topics(jvm: Any, admin: Any, names: list[str]) -> dict[str, BrokerTopic]:
    described = admin.describeTopics(_to_java(jvm, names)).allTopicNames().get()
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
