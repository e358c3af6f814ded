"""A Kafka broker on loopback, in KRaft mode, with one node; it can be killed and started again.

`scripts/setup.sh kafka` installs it. It ends with this process, however that ends.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from tests.object_servers.server_process import LAUNCH, reserve_port

api: Any = kafka_admin  # its types do not export what its documentation does
TOOLS = Path(__file__).parents[2] / "build" / "tools" / "kafka"
BROKER, CONNECTOR = TOOLS / "broker", TOOLS / "connector"
LIMIT = 120.0  # seconds for anything the broker does
CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=500
log.segment.delete.delay.ms=0
log.initial.task.delay.ms=100
auto.create.topics.enable=false
"""


def missing() -> str | None:
    """Return the reason why tests of Kafka cannot run; None if they can."""
    if all(any(folder.glob("*.jar")) for folder in (BROKER, CONNECTOR)):
        return None
    return "Kafka is not installed; run: scripts/setup.sh kafka build/tools/.done-kafka (needs Maven)"


class Broker:
    """A broker with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, controller = reserve_port(), reserve_port()
        self.servers = f"127.0.0.1:{self.port}"
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self._properties = folder / "server.properties"
        text = PROPERTIES.format(port=self.port, controller=controller, folder=folder)
        self._properties.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._properties)),
            check=True,
            capture_output=True,
            timeout=LIMIT,
        )

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCH, *self._java("kafka.Kafka", str(self._properties))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_for_port()
        wait_for(lambda: bool(self.admin.list_topics(timeout=5).brokers), "the broker answers")

    def kill(self) -> None:
        """Kill the broker with SIGKILL; its data stays."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic; settings have underscores for dots."""
        config = {name.replace("_", "."): value for name, value in settings.items()}
        new = api.NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        _wait_all(self.admin.create_topics([new]))
        wait_for(lambda: len(self.partitions(topic)) == partitions, f"{topic} is created")

    def delete(self, topic: str) -> None:
        _wait_all(self.admin.delete_topics([topic]))
        wait_for(lambda: not self.partitions(topic), f"{topic} is deleted")

    def expand(self, topic: str, partitions: int) -> None:
        _wait_all(self.admin.create_partitions([api.NewPartitions(topic, partitions)]))
        wait_for(lambda: len(self.partitions(topic)) == partitions, f"{topic} has more partitions")

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before an offset, as retention does."""
        _wait_all(self.admin.delete_records([TopicPartition(topic, partition, offset)]))

    def partitions(self, topic: str) -> list[int]:
        found = self.admin.list_topics(timeout=LIMIT).topics.get(topic)
        return [] if found is None or found.error is not None else sorted(found.partitions)

    def ends(self, topic: str) -> dict[int, int]:
        """Return the next offset of each partition."""
        wanted = {TopicPartition(topic, number): api.OffsetSpec.latest() for number in self.partitions(topic)}
        return {at.partition: future.result().offset for at, future in self.admin.list_offsets(wanted).items()}

    def produce(
        self,
        topic: str,
        values: Iterable[Any],
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        partition: int | None = None,
    ) -> None:
        """Produce records and wait for their acknowledgement: bytes and None as they are, others as JSON."""
        # Without limit: a record that is produced while the broker is away arrives once it is back.
        settings = {"bootstrap.servers": self.servers, "log_level": 0, "enable.idempotence": True, "linger.ms": 5}
        producer = Producer(settings)
        more: dict[str, Any] = {} if partition is None else {"partition": partition}
        for value in values:
            data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            while True:
                try:
                    producer.produce(topic, data, key, headers=dict(headers or {}), **more)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(LIMIT)
        assert not left, f"{left} records were not acknowledged"

    def _java(self, *arguments: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else "java"
        options = ["-Xmx512m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [java, *options, "-cp", f"{BROKER}/*", *arguments]

    def _wait_for_port(self) -> None:
        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, (self.folder / "broker.log").read_text(errors="replace")[-3000:]
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            return False

        wait_for(answers, "the broker listens")


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """Run a broker with its data in a folder."""
    broker = Broker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def wait_for(condition: Any, what: str, limit: float = LIMIT) -> None:
    """Wait until a condition holds; a broker that does not answer counts as not yet."""
    last = time.monotonic() + limit
    while True:
        with suppress(KafkaException):
            if condition():
                return
        assert time.monotonic() < last, f"not within {limit} s: {what}"
        time.sleep(0.05)


def _wait_all(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(timeout=LIMIT)
