"""Kill test of Kafka and push together: drivers, the broker and servers are killed in turn while records arrive.

One configuration has a stream of a topic and a pushed stream. A producer and pushing clients write numbered values all
the time; each kill is a SIGKILL at a random moment. In the end every value that the broker or a server acknowledged
must be in its store once.

`python -m tests.kafka.kill_soak --kills 50 --seed 1`. The seed decides the pauses; what a kill interrupts depends on
the machine.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from bench.processes import spawn
from quantide.errors import StorageError
from quantide.history import HistoryReader
from quantide.spark.stream.kafka_offsets import parse_offsets
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import IngestLog
from tests.kafka.broker import Broker, running_broker
from tests.kafka.kafka_stage import QUICK, KafkaStage
from tests.spark.processes import end, finish, tail
from tests.spark.push_clients import NumberedClient, Servers, stored_values

TOPIC, PARTITIONS = "kills", 3
KINDS = ("driver", "broker", "server")
CLIENTS = 2
RECORDS = (b'{"value": %d}', b'{"value": %d, "nested": {}}')  # decoded by the reader, and by Spark
SPARK_SHARE = 50  # one of so many records is decoded by Spark
LIMIT = 600.0  # seconds for anything
CONFIG = """store = "data"
[streams.topic]
source = {{ format = "kafka", servers = "{servers}", topic = "{topic}", max_rows = 2000, \
decode = {{ format = "json", schema = "value BIGINT" }}, options = {{ {options} }} }}
value = "value"
value_type = "int64"
step = "5 s"
kappa = 2
[streams.pushed]
source = "push"
value_type = "int64"
step = "5 s"
kappa = 2
[server]
port = 0
"""


class NumberedProducer(threading.Thread):
    """Produces consecutive numbers; a record is repeated until the broker acknowledges it, however long that takes."""

    def __init__(self, servers: str, pause: float) -> None:
        super().__init__(daemon=True)
        self._pause, self.stopping = pause, threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "log_level": 0,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self.produced = 0
        self.acknowledged: list[int] = []
        self.failed: list[str] = []

    def run(self) -> None:
        while not self.stopping.is_set():
            with suppress(BufferError):
                number = self.produced
                record = RECORDS[number % SPARK_SHARE == 0] % number
                self._producer.produce(TOPIC, record, partition=number % PARTITIONS, on_delivery=self._delivered)
                self.produced += 1
            self._producer.poll(0)
            self.stopping.wait(self._pause)
        self._producer.flush(LIMIT)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(json.loads(message.value())["value"])
        else:
            self.failed.append(str(error))


class KillSoak:
    """Two streams, their writers, and the processes that are killed in turn."""

    def __init__(self, folder: Path, seed: int, broker: Broker) -> None:
        self.stage, self.broker, self.folder = KafkaStage(broker, folder, TOPIC), broker, folder
        self.rng, self.begun = np.random.default_rng([seed, 11]), time.monotonic()
        self.events: Counter[str] = Counter()
        text = CONFIG.format(servers=broker.servers, topic=TOPIC, options=QUICK)
        self.stage.config.write_text(text)
        self.topic_store, self.push_store = folder / "data" / "topic", folder / "data" / "pushed"
        self.driver: subprocess.Popen[bytes] | None = None
        self.remains: list[subprocess.Popen[bytes]] = []
        self.log = folder / "none"
        broker.create(TOPIC, PARTITIONS)

    def run(self, kills: int) -> None:
        """Kill in turn, then let one driver ingest what is left, and check."""
        with ExitStack() as stack:
            stack.callback(self.stop_driver)
            servers = Servers(self.stage.config, stack)
            producer = NumberedProducer(self.broker.servers, 0.01)
            clients = [NumberedClient(servers, number, "pushed", 0.2) for number in range(CLIENTS)]
            writers: list[NumberedProducer | NumberedClient] = [producer, *clients]
            for writer in writers:
                writer.start()
            self.start_driver()
            for number in range(kills):
                self.wait_for_moment()
                self.kill(KINDS[number % len(KINDS)], servers, number)
            for writer in writers:
                writer.stopping.set()
            for writer in writers:
                writer.join()
        assert not producer.failed, producer.failed
        self.record("ingest the rest")
        log = self.stage.next_log()
        with self.stage.driver("--once", log=log) as driver:
            finish(driver, log)
        acknowledged = [value for client in clients for value in client.acknowledged]
        self.check("topic", self.topic_store, producer.acknowledged)
        self.check("pushed", self.push_store, acknowledged)
        assert len(producer.acknowledged) == producer.produced
        self.check_offsets()

    def wait_for_moment(self) -> None:
        """Wait a random time, most often after a commit of either stream; else a kill may hit the start of a driver."""
        stores = [self.topic_store, self.push_store]
        if self.rng.random() < 0.75:
            before = [count_rows(store) for store in stores]
            self.wait(lambda: [count_rows(store) for store in stores] != before, f"more rows than {before} are stored")
        time.sleep(float(self.rng.uniform(0, 3)))

    def kill(self, kind: str, servers: Servers, number: int) -> None:
        counts = f"{count_rows(self.topic_store):,} of the topic and {count_rows(self.push_store):,} pushed"
        self.record(f"kill the {kind}", f"{counts} are stored")
        if kind == "server":
            servers.kill(number // len(KINDS) % 2)
        elif kind == "broker":
            self.broker.kill()
            time.sleep(float(self.rng.uniform(0, 4)))
            self.broker.start()
        else:
            assert self.driver is not None
            if self.rng.random() < 0.5:
                os.killpg(self.driver.pid, signal.SIGKILL)
            else:
                self.driver.send_signal(signal.SIGKILL)  # its JVM lives a little longer
            self.driver.wait()
            self.remains.append(self.driver)
            self.start_driver()

    def start_driver(self) -> None:
        self.log = self.stage.next_log()
        command = self.stage.command("ingest", str(self.stage.config), "--master", "local[2]")
        self.driver = spawn(command, self.log, self.stage.env())

    def stop_driver(self) -> None:
        """Kill the driver, and whatever former ones left."""
        for process in [*self.remains, *([] if self.driver is None else [self.driver])]:
            end(process, signal.SIGKILL)
        self.driver, self.remains = None, []

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        last = time.monotonic() + LIMIT
        while not condition():
            assert self.driver is not None
            assert self.driver.poll() is None, f"the driver ended with {self.driver.returncode}: {tail(self.log)}"
            assert time.monotonic() < last, f"not within {LIMIT} s: {what}: {tail(self.log)}"
            time.sleep(0.1)

    def check(self, name: str, store: Path, acknowledged: Sequence[int]) -> None:
        """Every acknowledged value is in the store once, and nothing else is."""
        stored, expected = Counter(stored_values(store)), set(acknowledged)
        lost, doubled = expected - stored.keys(), [value for value, count in stored.items() if count > 1]
        others = stored.keys() - expected
        self.record(
            "check",
            f"{name}: {len(expected):,} acknowledged, {stored.total():,} stored, {len(lost):,} lost, "
            f"{len(doubled):,} doubled",
        )
        assert not lost, f"{name}: lost {sorted(lost)[:20]}"
        assert not doubled, f"{name}: doubled {sorted(doubled)[:20]}"
        assert not others, f"{name}: never acknowledged {sorted(others)[:20]}"

    def check_offsets(self) -> None:
        """The store has the offsets at the end of the topic, and lost none."""
        log = IngestLog(FolderStorage(str(self.topic_store)), lambda _: True)
        assert parse_offsets(log.offsets) == {TOPIC: self.broker.ends(TOPIC)}
        assert (log.lost, log.bad) == (0, 0)

    def record(self, event: str, more: str = "") -> None:
        self.events[event] += 1
        seconds = time.monotonic() - self.begun
        print(f"{seconds:7.1f} s  {event}{': ' + more if more else ''}", flush=True)

    def report(self) -> str:
        return "\n".join(f"{count:>6,}  {name}" for name, count in sorted(self.events.items()))


def count_rows(store: Path) -> int:
    try:
        return HistoryReader(store).n
    except StorageError:
        return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.kill_soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="another seed, other pauses (%(default)s)")
    parser.add_argument("--kills", type=int, default=50, help="kills in all (%(default)s)")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="quantide-kills-"))
    (folder / "broker").mkdir()
    with running_broker(folder / "broker") as broker:
        soak = KillSoak(folder, options.seed, broker)
        try:
            soak.run(options.kills)
        except AssertionError as error:
            print(f"\n{soak.report()}\n\nWRONG: {error}\nthe data is left in {folder}", flush=True)
            return 1
        print(f"\n{soak.report()}\n\nAll right: every value is there once (seed {options.seed}).", flush=True)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes are ended
    sys.exit(main())
