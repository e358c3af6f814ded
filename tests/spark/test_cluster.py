"""On a standalone cluster: the answers of local mode, to the byte, and right ones when a worker dies."""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.processes import family
from tests.spark.answer_checks import check
from tests.spark.cluster import WORKERS, cluster
from tests.spark.process_groups import Address, end, environment, finish, listening, running, wait_until
from tests.spark.query_driver import EPS, QUESTIONS, rows_of, write_lake

pytestmark = pytest.mark.slow

QUERY_NAMES = ["summary", "quantiles", "quantiles by key", "exact by key"]
DRIVER = [sys.executable, "-m", "tests.spark.query_driver"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    write_lake(folder, files=3, rows=800_000)
    return folder


@pytest.fixture(scope="module")
def run(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Address]]:
    """Answers that a driver got from a cluster, and the addresses on which their processes listened."""
    folder, started = tmp_path_factory.mktemp("answers"), tmp_path_factory.mktemp("cluster")
    log, sign = folder / "driver.log", folder / "running"
    with cluster(started) as two:
        command = [*DRIVER, two.url, str(lake), str(folder), *QUERY_NAMES, "frame by key"]
        with running(command, log, environment()) as driver:
            wait_until(sign.exists, [driver, two.master, *two.workers], log)
            addresses = listening(set().union(*map(family, (driver.pid, *two.pids))))
            finish(driver, log)
    return folder, addresses


@pytest.mark.parametrize("name", QUERY_NAMES)
def test_answers_are_those_of_local_mode(
    spark: SparkSession, lake: Path, run: tuple[Path, list[Address]], name: str
) -> None:
    answer, expected = pq.read_table(run[0] / f"{name}.parquet"), QUESTIONS[name](spark, str(lake)).toArrow()
    assert answer.schema == expected.schema
    assert rows_of(answer) == rows_of(expected)


@pytest.mark.parametrize(("name", "eps"), [("quantiles", EPS), ("exact by key", 0.0), ("frame by key", EPS)])
def test_answers_are_right(lake: Path, run: tuple[Path, list[Address]], name: str, eps: float) -> None:
    check(pq.read_table(run[0] / f"{name}.parquet"), pq.read_table(lake), eps)


def test_all_ports_are_on_loopback(run: tuple[Path, list[Address]]) -> None:
    _, addresses = run
    assert len(addresses) > 2 * (1 + WORKERS), (
        "the master and the workers listen at two ports each, executors and driver too"
    )
    assert [address for address in addresses if not address.is_loopback] == []


def test_a_worker_dies_and_the_job_finishes_with_the_right_answer(tmp_path: Path) -> None:
    """Kill a worker with SIGKILL: the other one repeats its finished and its running tasks."""
    lake, log, sign = tmp_path / "lake", tmp_path / "driver.log", tmp_path / "running"
    lake.mkdir()
    (tmp_path / "cluster").mkdir()
    rows = write_lake(lake, files=12, rows=800_000, text=True)
    with ExitStack() as stack:
        two = stack.enter_context(cluster(tmp_path / "cluster"))
        command = [*DRIVER, two.url, str(lake), str(tmp_path), "slow"]
        driver = stack.enter_context(running(command, log, environment()))
        wait_until(sign.exists, [driver, two.master, *two.workers], log)
        end(two.workers[0], signal.SIGKILL)
        assert driver.poll() is None
        assert not (tmp_path / "slow.parquet").exists()
        output = finish(driver, log)
    assert "Lost executor" in output
    even = rows.filter(pc.ends_with(pc.field("t"), "even"))
    check(pq.read_table(tmp_path / "slow.parquet"), even, EPS)
