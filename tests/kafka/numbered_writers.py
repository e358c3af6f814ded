"""Writers of consecutive numbers to a topic and to a bucket; each value is repeated until it is acknowledged."""

import io
import json
import threading
from contextlib import suppress
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from obstore.exceptions import BaseError

from tests.object_servers.object_location import ObjectLocation

RECORDS = (b'{"value": %d}', b'{"value": %d, "nested": {}}')  # decoded by the reader, and by Spark
SPARK_SHARE = 50  # one of so many records is decoded by Spark
GROUP = 10  # records that are produced at once
FILE_ROWS = 50
LIMIT = 600.0  # seconds for the last records


class NumberedWriter(threading.Thread):
    """Writes until it is stopped; `acknowledged` are the values that are surely there, `written` counts attempts."""

    def __init__(self, pause: float) -> None:
        super().__init__(daemon=True)
        self._pause, self.stopping = pause, threading.Event()
        self.acknowledged: list[int] = []
        self.written = 0


class NumberedProducer(NumberedWriter):
    """Produces records; one is repeated until the broker acknowledges it, however long that takes."""

    def __init__(self, servers: str, topic: str, pause: float) -> None:
        super().__init__(pause)
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "log_level": 0,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 5000,
            }
        )
        self.failed: list[str] = []

    def run(self) -> None:
        while not self.stopping.is_set():
            with suppress(BufferError):
                for _ in range(GROUP):
                    record = RECORDS[self.written % SPARK_SHARE == 0] % self.written
                    self._producer.produce(self._topic, record, on_delivery=self._delivered)
                    self.written += 1
            self._producer.poll(0)
            self.stopping.wait(self._pause)
        self._producer.flush(LIMIT)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(json.loads(message.value())["value"])
        else:
            self.failed.append(str(error))


class NumberedFiles(NumberedWriter):
    """Puts Parquet files into a folder of a bucket; a file is put again, under its name, until that succeeds."""

    def __init__(self, location: ObjectLocation, folder: str, pause: float) -> None:
        super().__init__(pause)
        self._store, self._folder = location.open(timeout="10s"), folder

    def run(self) -> None:
        while not self.stopping.is_set():
            values = list(range(self.written, self.written + FILE_ROWS))
            self.written += FILE_ROWS
            data = io.BytesIO()
            pq.write_table(pa.table({"value": pa.array(values, pa.int64())}), data)
            while not self._put(f"{self._folder}/{values[0]:09}.parquet", data.getvalue()):
                self.stopping.wait(0.2)
            self.acknowledged += values
            self.stopping.wait(self._pause)

    def _put(self, name: str, data: bytes) -> bool:
        try:
            obstore.put(self._store, name, data, use_multipart=False)
        except (BaseError, OSError):
            return False
        return True
