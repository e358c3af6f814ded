"""Nothing is lost in an object store: a process is killed at every step of its work, and the store is opened again."""

import json
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable

from quantide.errors import StorageError
from quantide.history import History, HistoryReader
from quantide.store.file_names import LOG, FileName, manifest_name
from quantide.store.object_lease import LEASE
from quantide.store.object_storage import ObjectStorage
from tests.conftest import seed_of
from tests.history.forked_writers import Child, Driver, run_driver
from tests.history.writer_workload import BATCHES, KEYED, SETTINGS, SIDES, WORK, Work, all_of, check_stored, small
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import ObjectServer
from tests.oracle import bound_faults, exact_quantile

POINTS = (
    "append.written",
    "commit.after",
    "commit.before",
    "disk.named",
    "disk.write",
    "merge.planned",
    "merge.sorted",
    "merge.written",
    "recent.compacted",
    "recent.manifest",
    "recent.written",
    "step.ended",
    "vacuum.removed",
    "write.data",
    "write.side",
)
SOME = {"commit.after": "plain", "merge.written": "keyed", "vacuum.removed": "plain"}
STORES = {"plain": SETTINGS, "keyed": KEYED}
KILLS = 60  # for each kind of store, at random moments


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch.setattr)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with run_driver() as process:
        yield process


@pytest.fixture(scope="module")
def counts(
    driver: Driver, s3_server: ObjectServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, int]]:
    """Count how often the work passes each point."""
    passes = {}
    for name, settings in STORES.items():
        folder = tmp_path_factory.mktemp("counts") / name
        driver.start("count", folder, settings=_place(settings, s3_server.new_location())).finish()
        passes[name] = json.loads(Path(f"{folder}-counts").read_text())
    return passes


def _place(settings: dict[str, Any], location: ObjectLocation) -> dict[str, Any]:
    return settings | {"uri": location.uri, "storage_options": location.options}


def check_child(child: Child, settings: dict[str, Any], location: ObjectLocation) -> list[int]:
    """Check the store of a child that ended; return the batches that were there."""
    done = child.batches("done")
    perhaps = [number for number in child.batches("begin") if number not in done]
    return check_store(_place(settings, location), Path(child.folder), location, done, perhaps)


def check_store(
    settings: dict[str, Any], folder: Path, location: ObjectLocation, surely: list[int], perhaps: list[int]
) -> list[int]:
    """Check its data with two readers; vacuum it; do the work from the start."""
    uri, options, here = location.uri, location.options, []
    if not ObjectStorage(uri, options).list_files(LOG):  # the kill was in the creation of the store
        assert not surely
    else:
        here = check_stored(uri, surely, perhaps, options)
        check_answers(HistoryReader(uri, storage_options=options), all_of(here))
        with History(uri, storage_options=options) as history:
            assert history.verify().values == len(all_of(here))
            history.vacuum(older_than_hours=0)
            assert leftovers(location) == set()
        check_stored(uri, here, (), options)
    reopened = Work(str(folder), settings)
    for op in WORK:
        reopened.do(op)
    reopened.history.close()
    check_stored(uri, BATCHES, (), options)
    check_answers(HistoryReader(uri, storage_options=options), all_of(BATCHES))
    return here


def check_answers(reader: HistoryReader, data: Any) -> None:
    assert reader.n == len(data)
    for phi in (0.01, 0.5, 0.9, 1) if len(data) else ():
        assert reader.quantile(phi, mode="exact") == exact_quantile(data, phi)
        assert not [fault for mode in ("quick", "accurate") for fault in bound_faults(data, reader.answer(phi, mode))]


def leftovers(location: ObjectLocation) -> set[str]:
    """Return the objects that no version of the table needs."""
    storage = ObjectStorage(location.uri, location.options)
    table = DeltaTable(location.uri, storage_options=location.options)
    stems = [Path(uri).stem for uri in table.file_uris()]
    needed = {f"runs/{stem}.parquet" for stem in stems} | {f"{SIDES}/{stem}.side" for stem in stems}
    assert all(FileName.parse(name) for name in needed if name.startswith("runs/"))
    number = table.transaction_version("quantide.recent")
    if number is not None:
        manifest = manifest_name(number)
        needed |= {manifest, *(entry["name"] for entry in json.loads(storage.read(manifest))["entries"])}
    folders = ("runs", SIDES, "_quantide/recent", "_quantide", "_quantide/retired")
    existing = {file.name for folder in folders for file in storage.list_files(folder)}
    assert needed <= existing, f"active, and not there: {needed - existing}"
    return existing - needed - {LEASE}


def kill_at(point: str, time: int, store: str, driver: Driver, folder: Path, location: ObjectLocation) -> None:
    folder.mkdir(exist_ok=True)
    settings = _place(STORES[store], location)
    child = driver.start("work", folder / "store", f"{point}@{time}:kill", settings=settings)
    assert child.wait() == -9, child.log.read_text()
    check_child(child, STORES[store], location)


def test_all_points_are_passed(counts: dict[str, dict[str, int]]) -> None:
    for passed in counts.values():
        assert {*POINTS} <= set(passed)


@pytest.mark.parametrize("point", SOME)
def test_killed(
    point: str, driver: Driver, counts: dict[str, dict[str, int]], tmp_path: Path, s3_store: ObjectLocation
) -> None:
    """Kill the writer in the middle of the work; slow tests cover the other points."""
    store = SOME[point]
    time = int(np.random.default_rng(seed_of(point)).integers(counts[store][point])) + 1
    kill_at(point, time, store, driver, tmp_path, s3_store)


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("point", POINTS)
def test_killed_each_time(
    point: str,
    store: str,
    driver: Driver,
    counts: dict[str, dict[str, int]],
    tmp_path: Path,
    s3_server: ObjectServer,
) -> None:
    times = counts[store][point]
    for time in range(1, times + 1, 1 + times // 10):
        kill_at(point, time, store, driver, tmp_path / str(time), s3_server.new_location())


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_killed_at_any_time(
    store: str, driver: Driver, tmp_path: Path, s3_server: ObjectServer, rng: np.random.Generator
) -> None:
    """The kills are spread over the time that the work takes here."""
    uncommitted = 0
    for number, delay in enumerate(rng.uniform(0.02, 1.5, KILLS)):
        location = s3_server.new_location()
        child = driver.start("work", tmp_path / str(number), settings=_place(STORES[store], location))
        sleep(delay)
        child.kill()
        here = check_child(child, STORES[store], location)
        uncommitted += len(child.batches("begin")) - len(child.batches("done"))
        print(f"kill {number}: {delay:.2f} s, {len(here)} batches there, {len(child.batches('done'))} acknowledged")
    assert uncommitted, "no kill was within an append"


def test_a_killed_creation_can_be_repeated(driver: Driver, tmp_path: Path, s3_store: ObjectLocation) -> None:
    child = driver.start("work", tmp_path / "store", "disk.write@1:kill", settings=_place(SETTINGS, s3_store))
    assert child.wait() == -9, child.log.read_text()
    with pytest.raises(StorageError):
        HistoryReader(s3_store.uri, storage_options=s3_store.options)
    check_child(child, SETTINGS, s3_store)
