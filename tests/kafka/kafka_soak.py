"""Soak test of Kafka: drivers and the broker are killed at random while records arrive; in the end each is stored once.

`python -m tests.spark.soak --source kafka`; SOAK="2 min" sets the duration.
"""

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

from bench.processes import spawn
from quantide import History
from tests.kafka.broker import Broker, running_broker
from tests.kafka.kafka_stage import JSON, KafkaStage
from tests.spark.processes import end

TOPIC = "soak"
GROUP = 200  # records that are produced at once
POINTS = ["write.data", "append.written", "commit.before", "commit.after", "ingest.recorded", "ingest.committed"]
STEPS = {"kill the driver": 4, "let it die at a point": 4, "kill the broker": 2, "lose the checkpoint": 1, "expand": 1}
LIMIT = 600.0  # seconds for anything
MAX_PARTITIONS = 6


class KafkaSoak:
    """Produces records, starts and kills drivers and the broker; counts these events."""

    def __init__(self, folder: Path, seed: int, seconds: float, broker: Broker) -> None:
        self.stage, self.broker = KafkaStage(broker, folder, TOPIC), broker
        self.rng, self.seconds = np.random.default_rng([seed, 9]), seconds
        self.events: Counter[str] = Counter()
        self.partitions, self.reset = 2, False
        self.driver: subprocess.Popen[bytes] | None = None
        self.stage.configure(f"{JSON}, max_rows = 500", 'value = "ms"\nstep = "5 s"\nkappa = 2\neps = 0.01')
        broker.create(TOPIC, self.partitions)

    def run(self) -> None:
        """Run rounds until the time is over; then all records must be in the store."""
        begun = time.monotonic()
        try:
            while time.monotonic() < begun + self.seconds:
                names = list(STEPS)
                weights = np.array([STEPS[name] for name in names])
                self.round(str(self.rng.choice(names, p=weights / weights.sum())))
            self.start()
            self.wait_for_rows(len(self.stage.rows))
            self.stop()
            self.stage.check()
        finally:
            self.stop()

    def round(self, step: str) -> None:
        """Start a driver, produce, then let one thing happen."""
        self.events[step] += 1
        print(f"{len(self.stage.rows):>8,} records  {step}", flush=True)
        fault = f"{self.rng.choice(POINTS)}@{self.rng.integers(1, 4)}:kill" if step == "let it die at a point" else ""
        self.start(fault)
        self.stage.produce(GROUP)
        if fault:
            self.produce_until(lambda: self.driver is None or self.driver.poll() is not None)
        elif step == "kill the broker":
            self.broker.kill()
            time.sleep(float(self.rng.uniform(0, 3)))
            self.broker.start()
            self.stage.produce(GROUP)
            self.wait_for_rows(len(self.stage.rows))
        elif step == "expand" and self.partitions < MAX_PARTITIONS:
            self.partitions += 1
            self.broker.expand(TOPIC, self.partitions)
            self.stage.produce(GROUP)
        else:
            time.sleep(float(self.rng.uniform(0, 20)))
        self.stop()
        if step == "lose the checkpoint" and self.stage.stored:
            shutil.rmtree(self.stage.store / "_quantide" / "checkpoints", ignore_errors=True)
            self.reset = True

    def start(self, fault: str = "") -> None:
        log = self.stage.next_log()
        env = self.stage.env(**({"QUANTIDE_FAULT": fault} if fault else {}))
        arguments = ["--reset"] if self.reset else []
        command = self.stage.command("ingest", str(self.stage.config), "--master", "local[2]", *arguments)
        self.driver = spawn(command, log, env)
        # A driver that dies before its checkpoint begins leaves none: then the next one needs --reset, too.
        self.reset = False

    def stop(self) -> None:
        """Kill the driver and all that it started."""
        if self.driver is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
            end(self.driver, signal.SIGKILL)
            self.driver = None
        folder = self.stage.store / "_quantide" / "checkpoints"
        self.reset = self.stage.stored > 0 and not any(folder.glob("c*"))

    def produce_until(self, condition: object) -> None:
        last = time.monotonic() + LIMIT
        assert callable(condition)
        while not condition():
            self.stage.produce(GROUP)
            assert time.monotonic() < last, "the driver does not reach its fault point"
            time.sleep(0.5)

    def wait_for_rows(self, rows: int) -> None:
        last = time.monotonic() + LIMIT
        while self.stage.stored < rows:
            assert self.driver is not None
            assert self.driver.poll() is None, f"the driver ended with {self.driver.returncode}"
            assert time.monotonic() < last, f"{self.stage.stored:,} of {rows:,} records are stored"
            time.sleep(0.2)

    def report(self) -> str:
        counts = "\n".join(f"{count:>6,}  {name}" for name, count in sorted(self.events.items()))
        return f"{len(self.stage.rows):,} records, {History(self.stage.store).n:,} stored\n{counts}"


def soak_kafka(folder: Path, seed: int, seconds: float) -> int:
    """Run the test; return the exit code."""
    (folder / "broker").mkdir()
    with running_broker(folder / "broker") as broker:
        soak = KafkaSoak(folder, seed, seconds, broker)
        try:
            soak.run()
        except AssertionError as error:
            print(f"\n{soak.report()}\n\nWRONG: {error}\nthe data is left in {folder}", flush=True)
            return 1
        print(f"\n{soak.report()}\n\nAll right: every record is there once (seed {seed}).", flush=True)
    shutil.rmtree(folder)
    return 0
