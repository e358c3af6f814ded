"""Servers and ingestion are killed in turn while clients push: every acknowledged row is in the store exactly once."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.config import read_config
from quantide.spark.ingest import ingest
from tests.spark.process_groups import environment, running, tail, wait_until
from tests.spark.push_clients import NumberedClient, Servers, stored_values

CONFIG = """store = "data"
[streams.s]
source = "push"
value_type = "int64"
[server]
port = 0
"""
ROUNDS, REQUESTS = 4, 20  # kills; acknowledged requests between two kills


@contextmanager
def ingesting(config: Path, number: int) -> Iterator[tuple[Popen[bytes], Path]]:
    log = config.parent / f"ingest-{number}.log"
    command = [sys.executable, "-m", "quantide", "ingest", str(config), "--master", "local[2]"]
    with running(command, log, environment()) as process:
        yield process, log


@pytest.mark.slow
def test_every_acknowledged_row_is_stored_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "quantide.toml"
    config.write_text(CONFIG)
    store = tmp_path / "data" / "s"
    with ExitStack() as stack:
        servers = Servers(config, stack)
        clients = [NumberedClient(servers, number) for number in range(3)]
        for client in clients:
            client.start()
        for number in range(ROUNDS):
            with ingesting(config, number) as (driver, log):
                before = History(store).n if (store / "_delta_log").exists() else 0
                done = sum(client.requests for client in clients)
                wait_until(lambda: sum(c.requests for c in clients) >= done + REQUESTS, [driver], log)  # noqa: B023
                servers.kill(number % 2)
                wait_until(
                    lambda: (store / "_delta_log").exists() and History(store).n > before,  # noqa: B023
                    [driver],
                    log,
                )
                driver.send_signal(signal.SIGKILL)
                driver.wait()
                assert driver.returncode == -signal.SIGKILL, tail(log)
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join()
    with (tmp_path / "out").open("w") as out:
        ingest(read_config(config), out, once=True)
    expected = sorted(value for client in clients for value in client.acknowledged)
    history = History(store)
    assert history.n == len(expected)
    table = sorted(int(value) for value in stored_values(store))
    assert table == expected
    assert list((store / "_quantide" / "landing").glob("*.parquet")) == []
