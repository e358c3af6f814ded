"""Batches of Kafka records: where a query begins, and the offsets, the lost ones included, of each batch."""

import logging

from pyspark.sql import SparkSession

from quantide.config import StreamConfig
from quantide.errors import StreamError
from quantide.spark.stream.kafka_offsets import (
    BrokerClient,
    Offsets,
    StartPlan,
    can_continue,
    check_start,
    count_between,
    format_offsets,
    merge_offsets,
    parse_offsets,
    plan_start,
)
from quantide.spark.stream.micro_batch import MicroBatch
from quantide.spark.stream.spark_checkpoint import checkpoint_folder, last_offsets, next_checkpoint, read_offsets
from quantide.store.ingest_log import IngestLog
from quantide.store.storage import Storage

LOG = logging.getLogger(__name__)


class KafkaBatches:
    """Progress of one stream in its topics: the ingest log has the offsets of the last commit."""

    def __init__(self, session: SparkSession, stream: StreamConfig, storage: Storage, ingest_log: IngestLog) -> None:
        self._stream, self._storage, self._log = stream, storage, ingest_log
        self._brokers = BrokerClient(session, stream)
        self._start = StartPlan({})
        self._end: Offsets = {}  # of the batch that is being ingested

    def start(self, source: str) -> tuple[str, str]:
        """Return the checkpoint and the offsets to continue with; raise DataLossError if records are gone."""
        plan = self._plan_start()
        plan.check(self._stream)
        if plan.reasons:
            LOG.warning("%s: %s offsets are lost: %s", self._stream.key, plan.lost, "; ".join(plan.reasons))
        if plan.reasons or not self._can_continue(source, plan.offsets):
            source = next_checkpoint(source)
        self._start = plan
        return source, format_offsets(plan.offsets) if plan.offsets else ""

    @property
    def backlog(self) -> int:
        """Number of offsets that the topics had beyond the start of the query."""
        return self._start.backlog

    def _can_continue(self, source: str, planned: Offsets) -> bool:
        try:
            checkpoint = parse_offsets(last_offsets(checkpoint_folder(self._storage, source)))
        except ValueError:  # Spark could not note where the query begins
            return False
        return can_continue(checkpoint, planned)

    def _plan_start(self) -> StartPlan:
        topics, stored = self._brokers.read_topics(), parse_offsets(self._log.offsets)
        if not stored:
            check_start(self._stream, topics)
        plan = plan_start(self._stream.source.start, stored, self._log.topics, topics)
        deleted = [name for name in stored if name not in topics and self._brokers.selects(name)]
        reasons = [f"the topic {name} was deleted; what was not ingested of it is gone" for name in deleted]
        return plan.with_deleted(deleted, reasons)

    def plan(self, source: str, number: int) -> MicroBatch:
        """Return a batch with the offsets at its end and the number of its records."""
        folder, start = checkpoint_folder(self._storage, source), self._start
        self._end = end = parse_offsets(read_offsets(folder, number))
        before = parse_offsets(read_offsets(folder, number - 1)) or start.offsets
        lost = 0 if source in self._log.last else start.lost
        stored = {name: parts for name, parts in parse_offsets(self._log.offsets).items() if name not in start.replaced}
        offsets, rows = format_offsets(merge_offsets(stored, end)), count_between(before, end)
        return MicroBatch(source, number, offsets=offsets, rows=rows, lost=lost, topics=start.topics)

    def check_topics(self) -> dict[str, str]:
        """Return the ids of the topics of a batch after it was read; raise if one is not the topic of the start.

        Ids are never used again: the records that were read are those of the topic whose offsets are stored.
        """
        ids = self._brokers.read_ids(self._end)
        for name in self._end:
            if ids.get(name) != self._start.topics.get(name, ids.get(name)) or name not in ids:
                raise StreamError(
                    f"{self._stream.key}: the topic {name} was deleted or made again while it was read; the batch is "
                    "not ingested, and the stream starts again"
                )
        return ids

    def close(self) -> None:
        self._brokers.close()
