"""Every row is stored once: a driver is killed at every step of a batch, and another one continues."""

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quantide import History
from tests.spark.cluster import cluster
from tests.spark.process_groups import end, environment, finish, kill_at, running, wait_until
from tests.spark.streams import Feed

COMMAND = [sys.executable, "-m", "quantide", "ingest"]
FEW = ["ingest.recorded@2"]
POINTS = [
    "write.data@2",
    "write.side@2",
    "disk.named@3",
    "append.written@2",
    "commit.before@4",
    "commit.after@4",
    "ingest.committed@1",
    "ingest.committed@3",
    "step.ended@1",
    "merge.written@1",
]


def killed_at(fault: str, feed: Feed) -> None:
    """Let a driver die at a point; then ingest everything with this one."""
    kill_at(fault, feed)
    before = History(feed.store).n
    assert before < sum(map(len, feed.values)) or fault.startswith(("ingest.committed@3", "step", "merge"))
    feed.ingest()
    feed.check()
    feed.write("late.parquet")
    feed.ingest()
    feed.check()


def three_batches(folder: Path) -> Feed:
    feed = Feed(folder, 'keys = ["k"]\nstep = { rows = 1500 }\nkappa = 1', 'format = "parquet", max_files = 1')
    for number in range(3):
        feed.write(f"{number}.parquet")
    return feed


def rows_of(feed: Feed) -> int:
    return History(feed.store).n if (feed.store / "_delta_log").exists() else 0


@pytest.mark.parametrize("fault", FEW)
def test_killed(fault: str, spark: SparkSession, tmp_path: Path) -> None:
    killed_at(fault, three_batches(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("fault", POINTS)
def test_killed_anywhere(fault: str, spark: SparkSession, tmp_path: Path) -> None:
    killed_at(fault, three_batches(tmp_path))


@pytest.mark.slow
def test_a_driver_runs_until_it_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    """Files appear while it runs, one of them slowly; SIGTERM ends it, and what it committed is whole."""
    feed = Feed(tmp_path, 'step = "1 s"')
    feed.write("0.parquet")
    log = tmp_path / "driver.log"
    with running([*COMMAND, str(feed.config), "--master", "local[2]"], log, environment()) as driver:
        wait_until(lambda: rows_of(feed) == 1000, [driver], log)
        slow = feed.write("1.parquet")
        whole = slow.read_bytes()
        slow.unlink()
        with (feed.incoming / "2.parquet").open("wb") as file:
            for start in range(0, len(whole), 1 + len(whole) // 8):
                file.write(whole[start : start + 1 + len(whole) // 8])
                file.flush()
                time.sleep(0.1)
        wait_until(lambda: rows_of(feed) == 2000, [driver], log)
        feed.write("3.parquet")
        wait_until(lambda: rows_of(feed) == 3000, [driver], log)
        os.kill(driver.pid, signal.SIGTERM)
        output = finish(driver, log)
    assert "3,000 rows" in output
    assert History(feed.store).stats()["steps"] >= 1
    feed.check()
    assert pq.read_table(feed.incoming / "2.parquet").num_rows == 1000
    feed.ingest()
    feed.check()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["disk.write@5", "disk.named@4", "commit.before@5"])
def test_a_disk_that_is_full_for_a_while(fault: str, spark: SparkSession, tmp_path: Path) -> None:
    """A driver that runs on tries again, and everything is there once."""
    feed = three_batches(tmp_path)
    log = tmp_path / "driver.log"
    env = environment() | {"QUANTIDE_FAULT": f"{fault}:full"}
    with running([*COMMAND, str(feed.config), "--master", "local[2]"], log, env) as driver:
        wait_until(lambda: rows_of(feed) == 3000, [driver], log)
        os.kill(driver.pid, signal.SIGTERM)
        finish(driver, log)
    feed.check()


@pytest.mark.slow
def test_a_worker_dies_and_the_stream_goes_on(tmp_path: Path) -> None:
    """Kill one of two workers between or within batches: the stream goes on."""
    feed = Feed(tmp_path, 'keys = ["k"]\nstep = { rows = 2_000_000 }', 'format = "parquet", max_files = 1')
    for number in range(6):
        feed.write(f"{number}.parquet", rows=700_000)
    (tmp_path / "cluster").mkdir()
    log = tmp_path / "driver.log"
    with ExitStack() as stack:
        two = stack.enter_context(cluster(tmp_path / "cluster"))
        command = [*COMMAND, str(feed.config), "--once", "--master", two.url]
        driver = stack.enter_context(running(command, log, environment()))
        wait_until(lambda: rows_of(feed) > 0, [driver, two.master, *two.workers], log)
        end(two.workers[0], signal.SIGKILL)
        assert driver.poll() is None
        finish(driver, log)
    feed.check()
