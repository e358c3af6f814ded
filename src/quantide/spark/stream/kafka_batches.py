"""Batches of Kafka records: where a query begins, and the offsets, the lost ones included, of each batch."""

import logging

from pyspark.sql import SparkSession

from quantide.config import StreamConfig
from quantide.spark.stream.kafka_offsets import (
    StartPlan,
    count_between,
    format_offsets,
    parse_offsets,
    plan_start,
    read_topics,
)
from quantide.spark.stream.micro_batch import MicroBatch
from quantide.spark.stream.spark_checkpoint import checkpoint_folder, last_offsets, next_checkpoint, read_offsets
from quantide.store.ingest_log import IngestLog
from quantide.store.storage import Storage

LOG = logging.getLogger(__name__)


class KafkaBatches:
    """Progress of one stream in its topics: the ingest log has the offsets of the last commit."""

    def __init__(self, stream: StreamConfig, storage: Storage, ingest_log: IngestLog) -> None:
        self._stream, self._storage, self._log = stream, storage, ingest_log
        self._start = StartPlan({})

    def start(self, session: SparkSession, source: str) -> tuple[str, str]:
        """Return the checkpoint and the offsets to continue with; raise DataLossError if records are gone."""
        topics = read_topics(session, self._stream)
        start = self._stream.source.start
        plan = plan_start(start, parse_offsets(self._log.offsets), self._log.topics, topics)
        plan.check(self._stream)
        if plan.reasons:
            LOG.warning("%s: %s offsets are lost: %s", self._stream.key, plan.lost, "; ".join(plan.reasons))
        checkpoint = parse_offsets(last_offsets(checkpoint_folder(self._storage, source)))
        if plan.reasons or checkpoint.keys() - topics.keys():  # it would continue at offsets that are gone
            source = next_checkpoint(source)
        self._start = plan
        return source, format_offsets(plan.offsets) if plan.offsets else ""

    def plan(self, source: str, number: int) -> MicroBatch:
        """Return a batch with the offsets at its end and the number of its records."""
        folder, start = checkpoint_folder(self._storage, source), self._start
        end = parse_offsets(read_offsets(folder, number))
        before = parse_offsets(read_offsets(folder, number - 1)) or start.offsets
        lost = 0 if source in self._log.last else start.lost
        # Topics that are not read any more keep their offsets, in case they are read again.
        offsets = format_offsets(parse_offsets(self._log.offsets) | end)
        rows = count_between(before, end)
        return MicroBatch(source, number, offsets=offsets, rows=rows, lost=lost, topics=start.topics)
