"""A topic and a stream that ingests it, by drivers of their own: `quantide ingest` in child processes."""

import io
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quantide import History
from quantide.config import read_config
from quantide.spark.kafka_connector import JARS_VARIABLE
from quantide.spark.stream.quarantine import show
from tests.kafka.broker import CONNECTOR, Broker
from tests.spark.process_groups import environment, finish, running, tail, wait_until

JSON = 'decode = { format = "json", schema = "ms DOUBLE, ts TIMESTAMP, path STRING" }'
QUICK = '"kafka.default.api.timeout.ms" = "8000", "kafka.request.timeout.ms" = "4000"'  # a broker that is away


class KafkaStage:
    """A topic of a broker, the configuration of a stream, and its store."""

    def __init__(self, broker: Broker, folder: Path, topic: str) -> None:
        self.broker, self.folder, self.topic = broker, folder, topic
        self.config, self.store = folder / "quantide.toml", folder / "data" / "s"
        self.rows: list[float] = []
        self.selected = f'topic = "{topic}"'
        self.runs = 0

    def configure(self, source: str = JSON, settings: str = 'value = "ms"', options: str = QUICK) -> None:
        self.config.write_text(
            'store = "data"\n[streams.s]\n'
            f'source = {{ format = "kafka", servers = "{self.broker.servers}", {self.selected}, {source}, '
            f"options = {{ {options} }} }}\n{settings}\n"
        )

    def produce(self, count: int, partition: int | None = None, topic: str | None = None) -> None:
        """Produce rows whose values were never produced before."""
        first = len(self.rows)
        values = [float(first + i) for i in range(count)]
        records = [{"ms": value, "path": "/a"} for value in values]
        self.broker.produce(topic or self.topic, records, partition=partition)
        self.rows += values

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "quantide", *arguments]

    def env(self, **more: str) -> dict[str, str]:
        return environment() | {JARS_VARIABLE: str(CONNECTOR)} | more

    def ingest(self, *arguments: str, **env: str) -> str:
        """Ingest what is there, and return the output; fail if the driver does."""
        log = self.next_log()
        with self.driver("--once", *arguments, log=log, **env) as process:
            return finish(process, log)

    def ingest_error(self, *arguments: str, **env: str) -> str:
        """Return the output of a driver that must fail."""
        log = self.next_log()
        with self.driver("--once", *arguments, log=log, **env) as process:
            wait_until(lambda: process.poll() is not None, [], log)
        assert process.returncode == 2, tail(log)
        return log.read_text(errors="replace")

    def ingest_until_killed(self, fault: str) -> None:
        """Let a driver die at a fault point."""
        log = self.next_log()
        with self.driver("--once", log=log, QUANTIDE_FAULT=f"{fault}:kill") as process:
            wait_until(lambda: process.poll() is not None, [], log)
            assert process.returncode == -signal.SIGKILL, tail(log)

    def driver(self, *arguments: str, log: Path, **env: str) -> Any:
        command = self.command("ingest", str(self.config), "--master", "local[2]", *arguments)
        return running(command, log, self.env(**env))

    def next_log(self) -> Path:
        self.runs += 1
        return self.folder / f"driver{self.runs}.log"

    def quarantine(self) -> list[dict[str, Any]]:
        """Return the bad rows, as `quantide quarantine list --json` shows them."""
        out = io.StringIO()
        show(read_config(self.config), None, out, json=True)
        rows: list[dict[str, Any]] = json.loads(out.getvalue())["streams"][0]["rows"]
        return rows

    def quarantine_text(self) -> str:
        """Return the bad rows, as `quantide quarantine list` shows them."""
        out = io.StringIO()
        show(read_config(self.config), None, out)
        return out.getvalue()

    def retry(self) -> str:
        """Ingest the quarantine again, and return what `quantide quarantine retry` says."""
        log = self.next_log()
        command = self.command("quarantine", "retry", str(self.config), "--master", "local[2]")
        with running(command, log, self.env()) as process:
            return next(line for line in finish(process, log).splitlines(True) if line.startswith("s: "))

    @property
    def stored(self) -> int:
        return History(self.store).n if (self.store / "_delta_log").exists() else 0

    def check(self, expected: Sequence[float] | None = None) -> None:
        """Every row is in the store exactly once."""
        wanted = np.sort(np.array(self.rows if expected is None else expected))
        stream = read_config(self.config).streams["s"]
        history = History(stream.folder, storage_options=stream.storage_options or None)
        assert history.n == len(wanted)
        phis = (np.arange(len(wanted)) + 1) / len(wanted)
        step = max(1, len(wanted) // 50)
        for index in range(0, len(wanted), step):
            assert history.quantile(float(phis[index]), mode="exact") == wanted[index]
