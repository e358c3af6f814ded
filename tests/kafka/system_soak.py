"""Soak test of everything at once: a topic, pushed rows and files in S3, with stores in S3, and faults at random.

One configuration has three streams. Writers add numbered values to them all the time, while drivers, servers, the
broker and the S3 server are killed, disks are full, clocks are moved and the disk of the driver is lost. In the end
every value that was acknowledged must be in its store once, and answers must be within their bounds.

`make soak ARGS="--source all"`; SOAK="1 h" sets the duration. The seed decides the events; what they interrupt depends
on the machine. `python -m bench soak` runs it for an hour and writes docs/results/soak.md. Full disks need root, which
mounts them; without root only fault points raise the error of a full disk.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from quantide.config import read_config
from quantide.errors import QuantideError, StorageError
from quantide.history import HistoryReader
from quantide.spark.stream.kafka_offsets import parse_offsets
from quantide.store.ingest_log import IngestLog
from quantide.windows.wall_clock import VARIABLE
from tests.kafka.broker import Broker
from tests.kafka.numbered_writers import NumberedFiles, NumberedProducer, NumberedWriter
from tests.kafka.soak_driver import LIMIT, SoakDriver
from tests.kafka.store_checks import StreamCheck, check_stream
from tests.object_servers.limited_disk import LimitedDisk
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import VersityServer, s3_server_at
from tests.spark.push_clients import ROWS, NumberedClient, Servers
from tests.spark.streams import configure_store, credentials

TOPIC, PARTITIONS, MAX_PARTITIONS = "soak", 2, 6
STREAMS = ("topic", "pushed", "files")
CLIENTS = 2
MINUTE, DAY = 60, 86_400
AWAY = 12.0  # seconds for which something is away, at most
POINTS = [
    *("write.data", "write.side", "disk.write", "disk.named", "append.written", "commit.before", "commit.after"),
    *("ingest.recorded", "ingest.committed", "recent.written", "recent.manifest", "recent.compacted", "step.ended"),
    *("merge.planned", "merge.sorted", "merge.written", "push.keys", "push.folded", "push.stored"),
]
ADD_PARTITION = "add a partition to the topic"
EVENTS = {
    "kill the driver": 4,
    "arm a fault point of the driver": 4,
    "kill a server": 4,
    "kill the broker": 2,
    "kill the S3 server": 3,
    "fill the disk of the S3 server": 2,
    "fill the disk of the driver": 1,
    "lose the disk of the driver": 1,
    "move the clock of the driver": 2,
    "move the clock of the servers": 2,
    ADD_PARTITION: 1,
}
DRIVER_EVENTS = ("kill the driver", "arm a fault point of the driver", "lose the disk of the driver")
CONFIG = """[streams.topic]
source = {{ format = "kafka", servers = "{servers}", topic = "{topic}", max_rows = 2000, \
decode = {{ format = "json", schema = "value BIGINT" }}, options = {{ "kafka.default.api.timeout.ms" = "60000", \
"kafka.request.timeout.ms" = "15000" }} }}
time = "kafka_timestamp"
{stream}
[streams.pushed]
source = "push"
{stream}
[streams.files]
source = {{ format = "parquet", path = "{uri}/incoming" }}
{stream}
[server]
port = 0
"""
STREAM = 'value = "value"\nvalue_type = "int64"\nstep = "5 s"\nkappa = 2'


class SystemSoak:
    """Streams, their writers, and the processes and disks that fail."""

    def __init__(self, folder: Path, seed: int, seconds: float, stack: ExitStack) -> None:
        self.rng, self.begun, self.seconds = np.random.default_rng([seed, 11]), time.monotonic(), seconds
        self.events: Counter[str] = Counter()
        self.folder, self.stack = folder, stack
        self.object_disk, self.driver_disk = LimitedDisk(folder / "s3" / "objects"), LimitedDisk(folder / "driver")
        for disk in (self.object_disk, self.driver_disk):
            stack.callback(disk.close)
        self.objects = VersityServer(folder / "s3")
        stack.callback(self.objects.kill)
        self.location: ObjectLocation = s3_server_at(self.objects.port).new_location()
        stack.enter_context(patch.dict(os.environ, credentials(self.location)))
        (folder / "broker").mkdir()
        self.broker = Broker(folder / "broker")
        stack.callback(self.broker.kill)
        self.broker.start()
        self.broker.create(TOPIC, PARTITIONS)
        self.partitions = PARTITIONS
        self.config = folder / "quantide.toml"
        text = CONFIG.format(servers=self.broker.servers, topic=TOPIC, uri=self.location.uri, stream=STREAM)
        self.config.write_text(configure_store(self.location) + text)
        self.clocks = {name: folder / f"{name}.clock" for name in ("driver", "servers")}
        self.move_clocks(0)
        self.seen, self.committed_at = dict.fromkeys(STREAMS, 0), dict.fromkeys(STREAMS, time.monotonic())
        self.writers: dict[str, list[NumberedWriter | NumberedClient]] = {}
        self.driver = SoakDriver(self.config, self.env("driver", self.driver_disk.folder), self.record)
        stack.callback(self.driver.kill)

    def run(self) -> list[StreamCheck]:
        """Run and check everything; copy the stores from their disk if something is wrong, before it is unmounted."""
        try:
            self.run_events()
            self.ingest_rest()
            return self.check()
        except Exception:
            self.driver.kill()
            with suppress(OSError):  # of a file that vanishes
                shutil.copytree(self.object_disk.folder, self.folder / "stores")
            raise

    def run_events(self) -> None:
        """Let things happen to streams that grow until the time is over; then end their writers."""
        with ExitStack() as stack:
            servers = Servers(self.config, stack, self.env("servers", self.folder / "servers"))
            producer = NumberedProducer(self.broker.servers, TOPIC, 0.1)
            clients = [NumberedClient(servers, number, "pushed", 0.2) for number in range(CLIENTS)]
            files = NumberedFiles(self.location, "incoming", 0.5)
            self.writers = {"topic": [producer], "pushed": [*clients], "files": [files]}
            every = [writer for writers in self.writers.values() for writer in writers]
            for writer in every:
                writer.start()
            self.driver.start()
            self.begun = time.monotonic()
            while time.monotonic() < self.begun + self.seconds:
                self.wait_for_moment()
                self.let_happen(self.choose(), servers)
            for writer in every:
                writer.stopping.set()
            for writer in every:
                writer.join()
        assert not producer.failed, producer.failed

    # Events

    def choose(self) -> str:
        """Choose the next event. A driver is killed after all streams have grown, or by chance before that."""
        left_out = [] if self.has_committed or self.rng.random() < 0.2 else [*DRIVER_EVENTS]
        left_out += [ADD_PARTITION] * (self.partitions == MAX_PARTITIONS)
        possible = {name: weight for name, weight in EVENTS.items() if name not in left_out}
        if not self.object_disk.is_mounted:
            possible = {name: weight for name, weight in possible.items() if not name.startswith("fill")}
        weights = np.array(list(possible.values()), dtype=float)
        return str(self.rng.choice(list(possible), p=weights / weights.sum()))

    def let_happen(self, event: str, servers: Servers) -> None:
        counts = ", ".join(f"{rows:,} {name}" for name, rows in self.seen.items())
        self.record(event, f"stored: {counts}")
        self.handlers(servers)[event]()

    def handlers(self, servers: Servers) -> dict[str, Callable[[], None]]:
        """Return a function for each of EVENTS."""
        objects, driver = self.object_disk, self.driver_disk
        return {
            "kill the driver": self.kill_driver,
            "arm a fault point of the driver": self.arm_driver,
            "kill a server": lambda: servers.kill(int(self.rng.integers(2))),
            "kill the broker": lambda: self.fail_for_a_while(self.broker.kill, self.broker.start),
            "kill the S3 server": lambda: self.fail_for_a_while(self.objects.kill, self.objects.start),
            "fill the disk of the S3 server": lambda: self.fail_for_a_while(objects.fill, objects.free),
            "fill the disk of the driver": lambda: self.fail_for_a_while(driver.fill, driver.free),
            "lose the disk of the driver": self.lose_driver_disk,
            "move the clock of the driver": lambda: self.move_clocks(self.offset(), "driver"),
            "move the clock of the servers": lambda: self.move_clocks(self.offset(), "servers"),
            ADD_PARTITION: self.add_partition,
        }

    def kill_driver(self) -> None:
        self.driver.kill(self.rng.random() < 0.5)
        self.driver.start()

    def arm_driver(self) -> None:
        kind = "full" if self.rng.random() < 0.3 else "kill"
        self.driver.kill()
        self.driver.start(f"{self.rng.choice(POINTS)}@{self.rng.integers(1, 10)}:{kind}")

    def add_partition(self) -> None:
        self.partitions += 1
        self.broker.expand(TOPIC, self.partitions)

    def lose_driver_disk(self) -> None:
        self.driver.kill()
        for path in self.driver_disk.folder.iterdir():
            shutil.rmtree(path, ignore_errors=True)
        self.driver.start()

    def fail_for_a_while(self, fail: Callable[[], None], repair: Callable[[], None]) -> None:
        """Let something fail; the driver may die while it is away, and start before or after it is back."""
        self.driver.excuse()
        fail()
        if dies := self.rng.random() < 0.3:
            self.record("kill the driver, too")
            self.driver.kill()
            if self.rng.random() < 0.5:
                self.driver.start()
                self.driver.excuse()  # it starts while something that it needs is away
        self.wait_for(float(self.rng.uniform(0, AWAY)))
        repair()
        if dies and not self.driver.is_running:
            self.driver.start()
        self.driver.excuse()

    def offset(self) -> int:
        """Choose the seconds by which a clock is off: none, some minutes or many days, ahead or behind."""
        minutes, days = self.rng.integers(1, 20), self.rng.integers(2, 60)
        size = int(self.rng.choice(np.array([0, 0, minutes * MINUTE, days * DAY])))
        return size if self.rng.random() < 0.7 else -size

    def move_clocks(self, seconds: int, *names: str) -> None:
        for path in [self.clocks[name] for name in names or self.clocks]:
            spare = path.with_suffix(".tmp")
            spare.write_text(str(seconds))
            spare.rename(path)

    # The end

    def ingest_rest(self) -> None:
        """Ingest everything without faults; then rows that were quarantined while a clock was wrong.

        Pushed rows have the time of the server. If its clock was ahead, they are ahead of a right clock for as long,
        so `max_ahead` must be off when they are retried.
        """
        self.move_clocks(0)
        self.driver.kill()
        self.record("ingest the rest")
        self.driver.run("ingest", "--once")
        text = self.config.read_text(encoding="utf-8")
        self.config.write_text(text.replace('source = "push"', 'source = "push"\nmax_ahead = "off"'), encoding="utf-8")
        self.driver.run("quarantine", "retry")

    def check(self) -> list[StreamCheck]:
        """Check every stream; the topic's offsets must be at its end, and none may be lost."""
        streams = read_config(self.config).streams
        checks = []
        for name, writers in self.writers.items():
            acknowledged = [value for writer in writers for value in writer.acknowledged]
            checks.append(check_stream(name, streams[name], acknowledged))
            self.record("check", checks[-1].describe())
        log = IngestLog(streams["topic"].open_storage(), lambda _: True)
        assert parse_offsets(log.offsets) == {TOPIC: self.broker.ends(TOPIC)}
        assert (log.lost, log.bad) == (0, 0)
        return checks

    # Waiting

    def wait_for_moment(self) -> None:
        """Wait a random time, most often after a commit; a driver that starts needs longer than that."""
        before, patience = dict(self.seen), float(self.rng.choice([0.0, 20.0], p=[0.25, 0.75]))
        last = time.monotonic() + patience
        while self.read_counts() == before and time.monotonic() < last:
            self.wait_for(0.3)
        self.wait_for(float(self.rng.uniform(0, 4)))
        silent = time.monotonic() - max(self.committed_at.values())
        assert silent < LIMIT, f"nothing was stored for {silent:.0f} s: {self.driver.tail()}"

    @property
    def has_committed(self) -> bool:
        """True if all streams have grown since the driver was started."""
        return min(self.committed_at.values()) > self.driver.started_at

    def wait_for(self, seconds: float) -> None:
        """Wait; start a driver that ended for a fault again."""
        last = time.monotonic() + seconds
        while True:
            self.driver.tend()
            if (left := last - time.monotonic()) <= 0:
                return
            time.sleep(min(left, 0.2))

    def read_counts(self) -> dict[str, int]:
        """Return the rows of every stream; there are never fewer than before, nor more than were written."""
        options = self.location.options
        for name, before in self.seen.items():
            with suppress(StorageError):
                rows = HistoryReader(f"{self.location.uri}/data/{name}", storage_options=options).n
                most = sum(count_written(writer) for writer in self.writers[name])
                assert before <= rows <= most, f"{name}: {before:,} rows were stored, then {rows:,} of {most:,}"
                if rows > before:
                    self.seen[name], self.committed_at[name] = rows, time.monotonic()
        return dict(self.seen)

    # Records

    def env(self, clock: str, disk: Path) -> dict[str, str]:
        """Return the environment of processes with a clock and a disk of their own."""
        folders = {"QUANTIDE_STATE": str(disk / "state"), "QUANTIDE_CACHE": str(disk / "cache")}
        return folders | {VARIABLE: str(self.clocks[clock])}

    def record(self, event: str, more: str = "") -> None:
        self.events[event] += 1
        seconds = time.monotonic() - self.begun
        print(f"{seconds:7.1f} s  {event}{': ' + more if more else ''}", flush=True)

    def report(self) -> str:
        return "\n".join(f"{count:>6,}  {name}" for name, count in sorted(self.events.items()))


def count_written(writer: NumberedWriter | NumberedClient) -> int:
    """Return the most rows that a writer can have added."""
    return writer.written if isinstance(writer, NumberedWriter) else ROWS * (writer.requests + 1)


def soak_system(folder: Path, seed: int, seconds: float) -> int:
    """Run the test; return the exit code."""
    with ExitStack() as stack:
        soak = SystemSoak(folder, seed, seconds, stack)
        try:
            soak.run()
        except (AssertionError, QuantideError) as error:
            print(f"\n{soak.report()}\n\nWRONG: {error}\nlogs and stores are left in {folder}", flush=True)
            return 1
        print(f"\n{soak.report()}\n\nAll right: every value is there once (seed {seed}).", flush=True)
    shutil.rmtree(folder)
    return 0


def measure_soak(folder: Path, seed: int, seconds: float) -> dict[str, list[dict[str, Any]]]:
    """Run the test; return its figures. Raise AssertionError if a value is lost or doubled, or an answer is wrong."""
    with ExitStack() as stack:
        soak = SystemSoak(folder, seed, seconds, stack)
        checks = soak.run()
    events = [{"event": name, "count": soak.events[name]} for name in sorted(soak.events) if name != "check"]
    return {"sources": [check._asdict() for check in checks], "events": events}
