"""A store in S3 and a cluster whose machines share no folder but that of the source: every row is ingested once.

The driver runs on a machine of its own; it and a worker are killed, and it starts again on another machine.
"""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from quantide import History
from tests.object_servers.object_location import ObjectLocation
from tests.spark.cluster import Cluster, cluster, own_folders
from tests.spark.process_groups import end, environment, finish, running, tail, wait_until
from tests.spark.streams import configure_store, credentials

COMMAND = [sys.executable, "-m", "quantide", "ingest"]
ROWS = {"parquet": 700_000, "csv": 110_000}  # of a file: tasks read such Parquet files, and such text is staged
STREAMS = """
[streams.parquet]
source = { format = "parquet", path = "parquet", max_files = 1 }
value = "v"
step = { rows = 700_000 }
kappa = 1

[streams.csv]
source.format = "csv"
source.path = "csv"
source.schema = "v DOUBLE, k STRING"
source.options = { header = true }
source.max_files = 1
source.settle = "100 ms"
value = "v"
keys = ["k"]
step = { rows = 110_000 }
kappa = 1
"""


class Lake:
    """Files in a folder that all machines can read, and the values of each stream."""

    def __init__(self, folder: Path, store: ObjectLocation) -> None:
        self.folder, self.store = folder, store
        self.values: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in ROWS}
        self._rng = np.random.default_rng(7)
        self.config = folder / "quantide.toml"
        for name in ROWS:
            (folder / name).mkdir(parents=True)
        self.config.write_text(configure_store(store) + STREAMS)

    def write(self, name: str) -> None:
        """Write one more file of a stream."""
        values = self._rng.permutation(ROWS[name]) + float(len(self.values[name]) * ROWS[name])  # all differ
        path = self.folder / name / f"{len(self.values[name])}.{name}"
        unfinished = path.with_name(f".{path.name}")
        if name == "parquet":
            pq.write_table(pa.table({"v": values}), unfinished)
        else:
            unfinished.write_text("v,k\n" + "".join(f"{value},{'ab'[value % 2 < 1]}\n" for value in values.tolist()))
        unfinished.rename(path)
        self.values[name].append(values)

    def rows(self, name: str) -> int:
        """Number of rows of a stream in the store."""
        uri = f"{self.store.uri}/data/{name}"
        if not DeltaTable.is_deltatable(uri, self.store.options):
            return 0
        return History(uri, storage_options=self.store.options).n

    def check(self) -> None:
        """Compare all rows with those of the files, as Delta's own reader and as the history have them."""
        for name, files in self.values.items():
            uri, expected = f"{self.store.uri}/data/{name}", np.sort(np.concatenate(files))
            stored = DeltaTable(uri, storage_options=self.store.options).to_pyarrow_table(columns=["value"])["value"]
            assert np.array_equal(np.sort(stored.to_numpy()), expected), name
            history = History(uri, storage_options=self.store.options)
            assert (history.verify().values, history.quantile(0.5, "exact")) == (
                len(expected),
                expected[(len(expected) - 1) // 2],
            )
            assert history.stats()["steps"] > 0
        leftovers = [meta["path"] for page in self.store.open().list() for meta in page if "/staging/" in meta["path"]]
        assert leftovers == []


class Ingestion:
    """Starts drivers on a cluster, each on some machine."""

    def __init__(self, lake: Lake, folder: Path, two: Cluster) -> None:
        self.lake, self.folder, self.two = lake, folder, two
        self.log = folder / "driver.log"

    def command(self, *more: str) -> list[str]:
        return [*COMMAND, str(self.lake.config), "--master", self.two.url, *more]

    def machine(self, name: str) -> dict[str, str]:
        return environment() | own_folders(self.folder / name) | credentials(self.lake.store)

    def finish_on(self, machine: str) -> None:
        """Ingest everything that is there."""
        with running(self.command("--once"), self.log, self.machine(machine)) as driver:
            finish(driver, self.log)

    def killed_at(self, fault: str, machine: str) -> None:
        """Let a driver die at a point."""
        env = self.machine(machine) | {"QUANTIDE_FAULT": f"{fault}:kill"}
        with running(self.command("--once"), self.log, env) as driver:
            wait_until(lambda: driver.poll() is not None, [self.two.master], self.log)
            assert driver.returncode == -signal.SIGKILL, tail(self.log)


def test_machines_that_share_no_folder(tmp_path: Path, s3_store: ObjectLocation) -> None:
    lake = Lake(tmp_path / "lake", s3_store)
    for name in ROWS:
        lake.write(name)
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", apart=True) as two:
        Ingestion(lake, tmp_path, two).finish_on("first")
    lake.check()
    assert [path.name for path in tmp_path.rglob("runs")] == [], "no machine has files of the store"


@pytest.mark.slow
def test_a_driver_dies_and_continues_on_another_machine(tmp_path: Path, s3_store: ObjectLocation) -> None:
    lake = Lake(tmp_path / "lake", s3_store)
    for name in ("parquet", "parquet", "csv"):
        lake.write(name)
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", apart=True) as two:
        ingestion = Ingestion(lake, tmp_path, two)
        ingestion.killed_at("ingest.recorded@2", "first")
        ingestion.finish_on("second")
    lake.check()
    assert list((tmp_path / "first").rglob("offsets/*"))
    assert list((tmp_path / "second").rglob("offsets/*"))


@pytest.mark.slow
def test_workers_and_drivers_are_killed(tmp_path: Path, s3_store: ObjectLocation) -> None:
    """Kill a worker, then the driver; it starts on another machine, then on the first with an old checkpoint."""
    lake = Lake(tmp_path / "lake", s3_store)
    for _ in range(4):
        lake.write("parquet")
        lake.write("csv")
    (tmp_path / "cluster").mkdir()
    with ExitStack() as stack:
        two = stack.enter_context(cluster(tmp_path / "cluster", apart=True))
        ingestion = Ingestion(lake, tmp_path, two)
        needed = [two.master, two.workers[1]]
        driver = stack.enter_context(running(ingestion.command(), ingestion.log, ingestion.machine("first")))
        wait_until(lambda: lake.rows("parquet") > 0, [driver, *needed], ingestion.log)
        end(two.workers[0], signal.SIGKILL)
        before = lake.rows("parquet") + lake.rows("csv")
        wait_until(lambda: lake.rows("parquet") + lake.rows("csv") > before, [driver, *needed], ingestion.log)
        end(driver, signal.SIGKILL)
        assert lake.rows("parquet") + lake.rows("csv") < sum(len(v) for files in lake.values.values() for v in files)
        ingestion.killed_at("ingest.committed@1", "second")
        ingestion.finish_on("second")
        lake.check()
        for fault, machine in (("commit.before@2", "first"), ("merge.written@1", "third")):
            lake.write("parquet")
            lake.write("csv")
            ingestion.killed_at(fault, machine)
        ingestion.finish_on("first")
    lake.check()
