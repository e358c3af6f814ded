"""Continuous queries below HTTP: the table against a model, and threads that register, drop and evaluate."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import orjson
import pytest

from quantide.errors import LimitError, StorageError, UnknownQueryError
from quantide.server.http.tokens import LOCAL
from quantide.server.routes import query_routes
from quantide.server.service import Service
from quantide.server.subscriptions.query_table import QuerySet, QueryTable, WindowKey
from tests.server.event_client import Truth
from tests.server.running_server import configure, make_store

KEYS = (None, "/pay", "/cart", "/home", "/nobody")


def test_the_table_equals_a_dict() -> None:
    rng = np.random.default_rng(12)
    table, model, last = QueryTable.of(), dict[int, tuple[int, float]](), 0
    for _ in range(60):
        if rng.random() < 0.5 or not model:
            ids = last + 1 + np.arange(rng.integers(1, 20))
            last = int(ids[-1])
            windows, phis = rng.integers(0, 5, len(ids)), rng.uniform(0.01, 1, len(ids))
            table = table.append(QueryTable.of(ids, windows, phis, np.full(len(ids), 0.1)))
            model |= dict(zip(ids.tolist(), zip(windows.tolist(), phis.tolist(), strict=True), strict=True))
        else:
            result = rng.choice(list(model), rng.integers(1, len(model) + 1), replace=False)
            table = table.delete(table.find(np.sort(result))[0])
            model = {id: row for id, row in model.items() if id not in result}
        assert table.id.tolist() == sorted(model)
        actual = np.unique(rng.integers(0, last + 5, 30))
        places, known = table.find(actual)
        assert actual[known].tolist() == table.id[places].tolist() == [id for id in actual.tolist() if id in model]
        for window in range(6):
            rows = table.rows_of_window(window)
            expected = {id: phi for id, (of, phi) in model.items() if of == window}
            assert dict(zip(table.id[rows].tolist(), table.phi[rows].tolist(), strict=True)) == expected


@pytest.fixture
def service(tmp_path: Path) -> Any:
    with make_store(tmp_path) as history:
        truth = Truth(history)
        truth.append(2000)
        result = Service(configure(tmp_path, "[server.limits]\nqueries = 3000"))
        result.start()
        yield result, truth
        result.close()


def add(service: Service, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    names = [WindowKey.of("latency", KEYS[int(i)], "all", None) for i in rng.integers(0, len(KEYS), count)]
    return service.queries.add(names, rng.uniform(0.01, 1, count).tolist(), [0.05] * count, [None] * count, "me")


def test_concurrent_registration_and_evaluation(service: tuple[Service, Truth]) -> None:
    served, truth = service
    queries, failed, end = served.queries, list[BaseException](), Event()

    def until_end(work: Callable[[np.random.Generator], None], seed: int) -> Thread:
        def loop() -> None:
            rng = np.random.default_rng(seed)
            try:
                while not end.is_set():
                    work(rng)
            except BaseException as error:
                failed.append(error)

        return Thread(target=loop)

    def change_queries(rng: np.random.Generator) -> None:
        mine = add(served, int(rng.integers(1, 50)), rng)
        result = 1 if len(queries) < 1000 else 0
        queries.drop(np.sort(rng.choice(mine, max(1, len(mine) - result), replace=False)))

    def read_query(rng: np.random.Generator) -> None:
        ids = queries.table.id
        if len(ids):
            with suppress(UnknownQueryError):  # another thread dropped it
                queries.answer(int(rng.choice(ids)))

    queries.subscribe(QuerySet(add(served, 100, np.random.default_rng(0))), [], asyncio.Event())
    threads = [
        until_end(work, seed) for seed, work in enumerate((change_queries, change_queries, read_query, read_query))
    ]
    for thread in threads:
        thread.start()
    for step in range(8):
        truth.append(500, slow=1.0 + step)
    end.set()
    for thread in threads:
        thread.join()
    assert failed == []
    stored = served.registry.rows("SELECT id, key, phi FROM queries ORDER BY id")
    assert queries.table.id.tolist() == [row["id"] for row in stored]
    live = served.streams.live("latency")
    while live.n < len(truth.values):
        live.poll()
    for row in stored:
        answer, key = orjson.loads(queries.answer(row["id"])), orjson.loads(row["key"])
        if key == "/nobody":
            assert answer == {"id": row["id"], "state": "empty", "value": None}
        else:
            truth.check(answer, row["phi"], 0.05, key)
    members = sum(len(live.monitor(key=key)) for key in KEYS)
    assert members == len(stored)


def test_the_last_change_is_the_current_value(service: tuple[Service, Truth]) -> None:
    """A client that receives every change, and nothing else, has the value of every query."""
    served, truth = service
    queries = served.queries
    ids = add(served, 500, np.random.default_rng(3))
    wakeup = asyncio.Event()
    windows = queries.subscribe(QuerySet(ids), [], wakeup)
    queries.evaluate_all(windows)
    result: dict[int, Any] = {}
    since = 0
    for step in range(6):
        table, upto = queries.table, queries.last_change
        fresh = table.text[(table.change > since) & (table.change <= upto)]
        result |= {one["id"]: one for one in map(orjson.loads, fresh)}
        since = upto
        assert sorted(result) == ids.tolist()
        for id in ids[::50].tolist():
            assert orjson.loads(queries.answer(id))["value"] == result[id]["value"]
        truth.append(1000, slow=3.0**step)
        live = served.streams.live("latency")
        while live.n < len(truth.values):
            live.poll()
        queries.evaluate_all(windows)
    queries.unsubscribe(ids, windows, [], wakeup)
    assert not any(window["listened"] for window in queries.monitors(None))


def until(condition: Callable[[], bool]) -> None:
    last = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < last, "it did not come to be"
        time.sleep(0.01)


def test_a_failure_ends_without_a_commit(service: tuple[Service, Truth], monkeypatch: pytest.MonkeyPatch) -> None:
    served, _ = service
    queries, live = served.queries, served.streams.live("latency")
    ids = add(served, 5, np.random.default_rng(8))

    def fails(**_: object) -> None:
        raise StorageError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(live, "monitor", fails)
        windows = queries.subscribe(QuerySet(ids), [], asyncio.Event())
        queries.evaluate_all(windows)
        assert {orjson.loads(text)["state"] for text in queries.table.text} == {"failed"}
    assert all(map(queries.is_stale, windows))
    queries.subscribe(QuerySet(ids), [], asyncio.Event())
    until(lambda: all(orjson.loads(text)["state"] in ("value", "empty") for text in queries.table.text))


def test_failures_of_the_reader_are_published_without_a_commit(
    service: tuple[Service, Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, _ = service
    live = served.streams.live("latency")

    def ready() -> bool:
        return bool(orjson.loads(served.queries.stream_events.get("latency", (0, b'{"ready": false}'))[1])["ready"])

    def fails(_: object) -> bool:
        raise StorageError("the disk is away")

    until(ready)
    with monkeypatch.context() as patch:
        patch.setattr(live._reader, "refresh", fails)
        until(lambda: not ready())
    until(ready)


def test_a_window_without_queries_is_removed(service: tuple[Service, Truth]) -> None:
    served, _ = service
    live, queries = served.streams.live("latency"), served.queries
    before = live.stats()["monitors"]
    for number in range(30):
        [id] = queries.add([WindowKey.of("latency", "/pay", f"last:{number + 10}", None)], [0.5], [0.1], [None], "me")
        queries.answer(id)
        queries.drop(np.array([id]))
    assert live.stats()["monitors"] == before


def test_a_failed_write_registers_nothing(service: tuple[Service, Truth]) -> None:
    served, _ = service
    rng = np.random.default_rng(5)
    result = add(served, 10, rng)
    with pytest.raises(LimitError):
        add(served, 2991, rng)
    for name, when in (("full", "INSERT ON queries WHEN NEW.id > 15"), ("held", "DELETE ON queries WHEN OLD.id = 5")):
        served.registry.write(f"CREATE TRIGGER {name} BEFORE {when} BEGIN SELECT RAISE(ABORT, '{name}'); END")
    with pytest.raises(StorageError, match="full"):
        add(served, 10, rng)
    with pytest.raises(StorageError, match="held"):
        served.queries.drop(result)
    assert served.queries.table.id.tolist() == result.tolist()
    assert [row["id"] for row in served.registry.rows("SELECT id FROM queries")] == result.tolist()
    assert add(served, 5, rng).tolist() == [11, 12, 13, 14, 15]


def test_monitors_report_saved_evaluations(service: tuple[Service, Truth]) -> None:
    """Compare saved evaluations with a plain count: each query, at each evaluated version."""
    served, truth = service
    queries = served.queries
    names = [WindowKey.of("latency", "/pay", "last:500", None)] * 40 + [WindowKey.of("latency", None, "all", None)] * 2
    queries.add(names, np.linspace(0.02, 1, 42).tolist(), [0.05] * 42, [None] * 42, "me")
    assert [(one["queries"], "n" in one) for one in queries.monitors(None)] == [(40, False), (2, False)]
    assert queries.monitors("elsewhere") == []
    windows = list(queries._windows.values())
    live = served.streams.live("latency")
    for _ in range(4):
        truth.append(300)
        live.poll()
        for window in windows:
            queries.evaluate(window)
    recent, everything = queries.monitors("latency")
    looks = recent["looks"]
    assert looks >= 4
    assert recent["evaluations"] == recent["clusters"] * looks
    assert recent["saved"] == 40 * looks - recent["evaluations"] > 0
    assert (recent["key"], recent["window"], recent["n"], recent["deadline"]) == ("/pay", "last:500", 500, None)
    assert everything["deadline"] > 0
    assert everything["n"] == live.n
    result = query_routes.list_monitors(served, query_routes.MonitorQuery(stream="latency", limit=1), LOCAL)
    assert (result["count"], len(result["monitors"]), result["totals"]["queries"]) == (2, 1, 42)
    assert result["totals"]["saved"] == recent["saved"] + everything["saved"]
