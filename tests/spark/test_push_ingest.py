"""Landing files: ingested once, removed afterwards; repeated requests add nothing, also after kill -9 at any step."""

import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from quantide import History
from quantide.config import read_config
from quantide.spark.ingest import ingest
from quantide.spark.stream.landing_folder import LandingFolder
from quantide.store.file_names import CHECKPOINTS, LANDING, PUSH_KEYS, temporary_name
from quantide.store.folder_storage import FolderStorage
from quantide.store.landing_file import PushedRequest, digest_key, prepare_landing, write_landing_file
from quantide.store.push_keys import PushKeys
from tests.object_servers.object_location import ObjectLocation
from tests.server.running_server import run_server
from tests.spark.process_groups import environment, running, tail, wait_until
from tests.spark.streams import configure_store, credentials

COMMAND = [sys.executable, "-m", "quantide", "ingest"]


class PushFeed:
    """Writes landing files of one stream, as servers do; each request is a key, or None, and its values."""

    def __init__(self, folder: Path, location: ObjectLocation | None = None) -> None:
        self.folder, self.config = folder, folder / "quantide.toml"
        store = 'store = "data"\n' if location is None else configure_store(location)
        self.config.write_text(f'{store}[streams.s]\nsource = "push"\n')
        self.stream = read_config(self.config).streams["s"]
        self.storage = self.stream.open_storage()
        prepare_landing(self.storage)

    def push(self, *requests: tuple[str | None, Sequence[float]]) -> str:
        values = [value for _, some in requests for value in some]
        times = pa.array(np.full(len(values), np.datetime64("now", "us")), pa.timestamp("us", "UTC"))
        listed = [PushedRequest(None if key is None else digest_key(key), len(some)) for key, some in requests]
        table = pa.table({"value": pa.array(values, pa.float64()), "time": times})
        return write_landing_file(self.storage, table, listed)

    def ingest(self) -> None:
        ingest(read_config(self.config), io.StringIO(), once=True)

    @property
    def stored(self) -> list[float]:
        """All values of the store, sorted."""
        history = History(self.stream.folder, storage_options=self.stream.storage_options or None)
        return [float(history.quantile(rank / history.n, "exact")) for rank in range(1, history.n + 1)]

    @property
    def landing(self) -> list[str]:
        return [file.name for file in self.storage.list_files(LANDING)]


@pytest.fixture
def feed(tmp_path: Path) -> PushFeed:
    return PushFeed(tmp_path)


def test_rows_are_ingested_once_and_landing_files_removed(spark: SparkSession, feed: PushFeed) -> None:
    feed.push((None, [1.0, 2.0]), ("a", [3.0]), ("b", [4.0, 5.0]))
    feed.push(("a", [3.0]), (None, [6.0]), ("c", [7.0]))  # of another server: a is a repeat
    feed.push(("b", [4.0, 5.0]))  # nothing but a repeat
    feed.ingest()
    assert feed.stored == [1, 2, 3, 4, 5, 6, 7]
    assert feed.landing == []
    feed.push(("c", [7.0]), ("d", [8.0]))  # the rows of c are in the store
    feed.push((None, [1.0]))
    feed.ingest()
    assert feed.stored == [1, 1, 2, 3, 4, 5, 6, 7, 8]
    assert feed.landing == []


def test_a_landing_file_that_is_in_the_store_is_only_removed(
    spark: SparkSession, feed: PushFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ingestion removes a landing file whose process ended between its commit and the removal."""
    feed.push((None, [1.0]), ("a", [2.0]))
    with monkeypatch.context() as patch:
        patch.setattr(LandingFolder, "_remove", lambda self, paths: None)
        feed.ingest()
    assert len(feed.landing) == 1
    feed.ingest()
    assert (feed.stored, feed.landing) == ([1, 2], [])


def test_old_files_that_are_incomplete_are_removed(spark: SparkSession, feed: PushFeed) -> None:
    """A server that is killed while it writes leaves one; a new one may still be written."""
    feed.push((None, [1.0]))
    folder = Path(feed.storage.full_path(LANDING))
    new, old = (folder / temporary_name(f"{number}.parquet") for number in range(2))
    for path in (new, old):
        path.write_bytes(b"PAR1")
    two_hours_ago = new.stat().st_mtime - 7200
    os.utime(old, (two_hours_ago, two_hours_ago))
    feed.ingest()
    assert (feed.stored, list(folder.iterdir())) == ([1], [new])


def test_there_is_no_checkpoint_that_grows(
    spark: SparkSession, feed: PushFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantide.spark.stream.listed_batches.MAX_FILES", 1)
    for number in range(4):
        feed.push((f"a{number}", [10.0 * number]))
        feed.push((f"b{number}", [10.0 * number + 1]))
        feed.push(("a0", [0.0]))
        feed.ingest()
        assert feed.landing == []
    assert feed.stored == [0, 1, 10, 11, 20, 21, 30, 31]
    assert feed.storage.list_files(CHECKPOINTS) == []


def test_rows_of_a_store_in_a_bucket(
    spark: SparkSession, tmp_path: Path, s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers write landing files to the bucket; the driver lists them there, and removes them."""
    for name, value in credentials(s3_store).items():
        monkeypatch.setenv(name, value)
    feed = PushFeed(tmp_path, s3_store)
    feed.push((None, [1.0, 2.0]), ("a", [3.0]))
    feed.push(("a", [3.0]), ("b", [4.0]))
    feed.ingest()
    feed.push(("b", [4.0]), (None, [5.0]))
    feed.ingest()
    assert (feed.stored, feed.landing) == ([1, 2, 3, 4, 5], [])


POINTS = ["ingest.recorded", "push.keys", "ingest.committed", "push.stored"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", POINTS)
def test_killed_anywhere(spark: SparkSession, feed: PushFeed, fault: str) -> None:
    feed.push((None, [1.0]), ("a", [2.0]))
    feed.push(("a", [2.0]), ("b", [3.0]))
    log = feed.folder / "driver.log"
    env = environment() | {"QUANTIDE_FAULT": f"{fault}:kill"}
    with running([*COMMAND, str(feed.config), "--once", "--master", "local[2]"], log, env) as driver:
        wait_until(lambda: driver.poll() is not None, [], log)
        assert driver.returncode == -signal.SIGKILL, tail(log)
    feed.push(("b", [3.0]), ("a", [2.0]), ("c", [4.0]))
    feed.ingest()
    assert (feed.stored, feed.landing) == ([1, 2, 3, 4], [])


# Keys


def committed(*batches: tuple[str, int]) -> set[tuple[str, int]]:
    return set(batches)


def test_keys_take_effect_with_their_batch(tmp_path: Path) -> None:
    storage, batches = FolderStorage(str(tmp_path)), committed()
    keys = PushKeys(storage, batches.__contains__)
    keys.write(("c0", 0), [digest_key("a")], 100.0)
    assert digest_key("a") not in keys
    assert digest_key("a") not in PushKeys(storage, batches.__contains__)  # which removes the file
    assert not storage.list_files(PUSH_KEYS)
    keys.write(("c0", 0), [digest_key("a")], 100.0)
    batches.add(("c0", 0))
    keys.mark_committed(("c0", 0), 100.0)
    for opened in (keys, PushKeys(storage, batches.__contains__)):
        assert digest_key("a") in opened
        assert digest_key("b") not in opened


def test_keys_are_folded_and_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantide.store.push_keys.FOLD", 4)
    monkeypatch.setattr("quantide.store.push_keys.MIN_KEYS", 0)
    storage, batches = FolderStorage(str(tmp_path)), committed()
    keys = PushKeys(storage, batches.__contains__)
    day = 86_400.0
    for number in range(8):
        now = number * day / 4
        keys.write(("c0", number), [digest_key(str(number))], now)
        batches.add(("c0", number))
        keys.mark_committed(("c0", number), now)
    assert [file.name for file in storage.list_files(PUSH_KEYS)] == [f"{PUSH_KEYS}/base.keys"]
    for opened in (keys, PushKeys(storage, batches.__contains__)):
        assert [number for number in range(8) if digest_key(str(number)) in opened] == [3, 4, 5, 6, 7]
    monkeypatch.setattr("quantide.store.push_keys.MAX_KEYS", 2)
    keys.fold(0.0)
    assert [number for number in range(8) if digest_key(str(number)) in keys] == [6, 7]


@pytest.mark.parametrize("newest", [0, 3])
def test_keys_survive_a_clock_that_was_wrong(newest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's clock falls behind by 30 days and is corrected; then it and a server are ahead by 30 days."""
    monkeypatch.setattr("quantide.store.push_keys.FOLD", 1)
    monkeypatch.setattr("quantide.store.push_keys.MIN_KEYS", newest)
    storage, batches = FolderStorage(str(tmp_path)), committed()
    keys, day = PushKeys(storage, batches.__contains__), 86_400.0
    known = []
    for number, now in enumerate((100 * day, 70 * day, 100 * day, 130 * day)):
        keys.write(("c0", number), [digest_key(str(number))], now)
        batches.add(("c0", number))
        keys.mark_committed(("c0", number), now)
        for opened in (keys, PushKeys(storage, batches.__contains__)):
            known = [one for one in range(4) if digest_key(str(one)) in opened]
            assert number == 3 or known == [*range(number + 1)]
    assert known == ([1, 2, 3] if newest else [3])


def test_damaged_keys_are_reported(tmp_path: Path) -> None:
    from quantide.errors import CorruptBytesError

    storage = FolderStorage(str(tmp_path))
    keys = PushKeys(storage, lambda batch: True)
    keys.write(("c0", 0), [digest_key("a")], 1.0)
    path = tmp_path / PUSH_KEYS / "c0-0.keys"
    for damage in (path.read_bytes()[:-1], path.read_bytes()[:-5] + b"\0\0\0\0\0", b""):
        path.write_bytes(damage)
        with pytest.raises(CorruptBytesError, match=r"c0-0\.keys is damaged"):
            PushKeys(storage, lambda batch: True)


def test_keys_of_a_failed_attempt_do_not_take_effect(tmp_path: Path) -> None:
    """The second attempt of a batch may store other files; a request of the first must not be taken for a repeat."""
    storage = FolderStorage(str(tmp_path))
    storage.prepare()
    keys = PushKeys(storage, lambda batch: False)
    keys.write(("retry", 0), [digest_key("failed")], 1.0)
    keys.write(("s", 0), [digest_key("other")], 1.0)
    keys.mark_committed(("s", 0), 1.0)
    keys.write(("retry", 0), [], 2.0)
    keys.mark_committed(("retry", 0), 2.0)
    for known in (keys, PushKeys(storage, lambda batch: True)):
        assert digest_key("failed") not in known
        assert digest_key("other") in known


def test_a_server_whose_clock_is_ahead_makes_no_key_older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantide.store.push_keys.FOLD", 1)
    storage = FolderStorage(str(tmp_path))
    storage.prepare()
    keys = PushKeys(storage, lambda batch: True)
    for number, arrival in enumerate((1_000.0, 1_000.0 + 10 * 24 * 3600)):
        keys.write(("s", number), [digest_key(str(number))], 1_000.0)
        keys.mark_committed(("s", number), arrival)
    assert digest_key("0") in keys
    assert digest_key("1") in keys


def test_files_with_other_types_are_read_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    """Only Spark can compute the filter, and it cannot read a column of several types at once."""
    feed = PushFeed(tmp_path)
    feed.config.write_text(feed.config.read_text() + '[streams.s.filters]\nlong = "length(x) > 2"\n')
    times = pa.array(np.full(1, np.datetime64("now", "us")), pa.timestamp("us", "UTC"))
    for number, other in enumerate((pa.array(["abc"]), pa.array([12345]), pa.array(["a"]))):
        table = pa.table({"value": [float(number)], "time": times, "x": other})
        write_landing_file(feed.storage, table, [PushedRequest(None, 1)])
    feed.ingest()
    assert (feed.stored, feed.landing) == ([0, 1, 2], [])


def test_rows_pushed_to_servers_of_a_bucket(
    spark: SparkSession, tmp_path: Path, s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers accept rows for one store in a bucket; repeats to either add nothing, before and after ingestion."""
    for name, value in (credentials(s3_store) | {"QUANTIDE_STATE": str(tmp_path / "state")}).items():
        monkeypatch.setenv(name, value)
    feed = PushFeed(tmp_path, s3_store)
    config = read_config(feed.config)

    def push(client: httpx.Client, key: str | None, *values: float) -> None:
        headers = {} if key is None else {"idempotency-key": key}
        response = client.post("/api/streams/s/rows", json=[{"value": value} for value in values], headers=headers)
        assert (response.status_code, response.json()["rows"]) == (201, len(values)), response.text

    with run_server(config) as one, run_server(config) as two:
        push(one, "a", 1, 2)
        push(two, "a", 1, 2)
        push(one, None, 3)
        assert one.post("/api/streams/s/rows", json={"value": "no"}).status_code == 400
        feed.ingest()
        assert (feed.stored, feed.landing) == ([1, 2, 3], [])
        push(one, "b", 4)
        push(two, "b", 4)
    with run_server(config) as again:
        push(again, "a", 1, 2)
        push(again, "b", 4)
    feed.ingest()
    assert (feed.stored, feed.landing) == ([1, 2, 3, 4], [])
