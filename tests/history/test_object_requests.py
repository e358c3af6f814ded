"""Questions about a store in object storage: two requests for each run, its footer and a block, in two waves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantide.errors import CorruptBytesError, StorageError
from quantide.history import History, HistoryReader
from quantide.live import LiveStream
from quantide.store.object_storage import ObjectStorage
from quantide.typing import Array
from tests.history.history_model import Rng
from tests.object_servers.object_location import ObjectLocation
from tests.oracle import exact_quantile

RUNS = 6
PHIS = (0.5, 0.001, 0.05, 0.3, 0.77, 0.9, 0.99)
UNCACHED = {"cache_bytes": "0"}


@pytest.fixture
def values(rng: Rng) -> Array:
    return np.round(rng.lognormal(3, 1, (RUNS, 200_000)), 3)


@pytest.fixture
def store(s3_store: ObjectLocation, values: Array) -> ObjectLocation:
    with History(s3_store.uri, eps=0.01, kappa=RUNS, storage_options=s3_store.options) as history:
        for step in values:
            history.append(step)
            history.end_step()
    return s3_store


def reader(store: ObjectLocation, **options: str) -> HistoryReader:
    """Reader that caches no blocks in memory."""
    return HistoryReader(store.uri, memory=0, storage_options=store.options | options)


def test_two_requests_for_each_run(store: ObjectLocation, values: Array, monkeypatch: pytest.MonkeyPatch) -> None:
    history, calls = reader(store, **UNCACHED), list[str]()
    history.quantiles(PHIS, "quick")  # the index files are mapped

    def recorded(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(kind)
            return function(*arguments)

        return call

    monkeypatch.setattr(ObjectStorage, "read_end", recorded("footer", ObjectStorage.read_end))
    monkeypatch.setattr(ObjectStorage, "read_range", recorded("block", ObjectStorage.read_range))
    first_answers = {}
    for number, phi in enumerate(PHIS):
        calls.clear()
        answer = first_answers[phi] = history.answer(phi)
        assert answer.value == exact_quantile(values.ravel(), phi)
        assert answer.requests == len(calls)
        footers, blocks = calls.count("footer"), calls.count("block")
        assert footers == (0 if number else RUNS)
        assert calls[:footers] == ["footer"] * footers
        assert blocks <= answer.blocks_read <= RUNS + 3
    calls.clear()
    assert [history.answer(phi) for phi in PHIS] == list(first_answers.values())
    assert calls == []  # answers are cached
    assert history.stats()["requests"] >= sum(history.answer(phi).requests for phi in PHIS)


def test_ranks_take_one_wave(store: ObjectLocation, values: Array) -> None:
    history = reader(store, **UNCACHED)
    history.rank(20.0)
    before = history.stats()["requests"]
    assert history.rank(25.0) == (count := int((values <= 25.0).sum()), count)
    assert history.stats()["requests"] - before <= RUNS + 3  # and those of stats() itself


def test_a_second_process_finds_files_on_its_disk(store: ObjectLocation, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("QUANTIDE_CACHE", str(tmp_path))
    first = reader(store)
    answers = [first.answer(phi) for phi in PHIS]
    assert sum(answer.requests for answer in answers) > RUNS
    again = reader(store)
    for answer in answers:
        repeated = again.answer(answer.phi)
        assert (repeated.value, repeated.requests) == (answer.value, 0)
    stats = again.stats()
    assert stats["cache_hits"] > 2 * RUNS
    assert stats["bytes_fetched"] < first.stats()["bytes_fetched"] / 10


def test_a_live_stream_counts_its_requests(store: ObjectLocation) -> None:
    with LiveStream(store.uri, follow=False, storage_options=store.options | UNCACHED) as live:
        before = live.stats()["requests"]
        answer = live.answer(0.4)
        assert RUNS < answer.requests <= 3 * RUNS + 3  # index files are mapped, too
        assert live.stats()["requests"] >= before + answer.requests
        assert live.answer(0.4, mode="quick").requests == 0


def test_a_folder_needs_no_requests(tmp_path: Path, values: Array) -> None:
    with History(tmp_path, eps=0.01) as history:
        history.append(values[0])
        history.end_step()
        assert history.answer(0.5).requests == 0
        counted = ("requests", "retries", "bytes_fetched", "bytes_stored", "cache_hits")
        assert {name: history.stats()[name] for name in counted} == dict.fromkeys(counted, 0)


def test_writes_are_counted(s3_store: ObjectLocation, values: Array) -> None:
    with History(s3_store.uri, eps=0.01, storage_options=s3_store.options) as history:
        before = history.stats()
        history.append(values[0])
        after = history.stats()
        stored = sum(file.size for file in history.table.storage.list_files("runs"))
        assert after["bytes_stored"] - before["bytes_stored"] > stored
        assert after["requests"] - before["requests"] >= 3  # data, index, and the entry of the log


def test_checks_read_the_store_and_not_the_cache(
    store: ObjectLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged object is found although this machine has cached it; then a sound one replaces what was cached."""
    monkeypatch.setenv("QUANTIDE_CACHE", str(tmp_path))
    history = reader(store)
    expected = history.answer(0.3).value
    before = history.verify()
    storage = history.table.storage.uncached()
    (name, *_) = (file.name for file in storage.list_files("_quantide/side"))
    sound = storage.read(name)
    damaged = sound[:100] + bytes([sound[100] ^ 1]) + sound[101:]
    storage.replace(name, damaged)
    assert reader(store).answer(0.3).value == expected
    with pytest.raises(CorruptBytesError, match=name):
        reader(store).verify()
    other = tmp_path / "other"  # the cache of a machine that reads the damaged one first
    monkeypatch.setenv("QUANTIDE_CACHE", str(other))
    assert reader(store).answer(0.3).value == expected
    storage.replace(name, sound)
    assert reader(store).answer(0.3).value == expected
    assert reader(store).verify() == before


def test_a_rebuilt_index_replaces_the_cached_one(store: ObjectLocation, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("QUANTIDE_CACHE", str(tmp_path))
    storage = reader(store).table.storage.uncached()
    (name, *_) = (file.name for file in storage.list_files("_quantide/side"))
    torn = storage.read(name)[:-1]
    storage.replace(name, torn)
    with History(store.uri, storage_options=store.options) as history:
        assert history.n
        assert bytes(history.table.storage.map(name)) == torn
        history.open()
        assert bytes(history.table.storage.map(name)) == storage.read(name) != torn


def test_files_of_a_bucket_are_appended_with_the_options_of_the_store(
    s3_store: ObjectLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"value": np.arange(1000.0)}), sink)
    obstore.put(s3_store.open(), "incoming.parquet", sink.getvalue().to_pybytes())
    with History(f"{s3_store.uri}/stream", storage_options=s3_store.options) as history:
        assert history.append_files(f"{s3_store.uri}/incoming.parquet") == 1000
        assert history.quantile(0.5, mode="exact") == 499.0
        with pytest.raises(StorageError, match="is not there"):
            history.append_files(f"{s3_store.uri}/missing.parquet")
