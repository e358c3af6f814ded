"""Standing queries below HTTP: columns against a plain model, and threads that come, go and look at the same time."""

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
from quantide.server import monitors
from quantide.server.about import Name
from quantide.server.columns import Columns, QuerySet
from quantide.server.service import Service
from tests.server.listening import Truth
from tests.server.serving import configure, make_store

KEYS = (None, "/pay", "/cart", "/home", "/nobody")


def test_columns_are_as_a_dict_would_be() -> None:
    rng = np.random.default_rng(12)
    columns, model, last = Columns.of(), dict[int, tuple[int, float]](), 0
    for _ in range(60):
        if rng.random() < 0.5 or not model:
            ids = last + 1 + np.arange(rng.integers(1, 20))
            last = int(ids[-1])
            windows, phis = rng.integers(0, 5, len(ids)), rng.uniform(0.01, 1, len(ids))
            columns = columns.with_more(Columns.of(ids, windows, phis, np.full(len(ids), 0.1)))
            model |= dict(zip(ids.tolist(), zip(windows.tolist(), phis.tolist(), strict=True), strict=True))
        else:
            gone = rng.choice(list(model), rng.integers(1, len(model) + 1), replace=False)
            columns = columns.without(columns.find(np.sort(gone))[0])
            model = {id: row for id, row in model.items() if id not in gone}
        assert columns.id.tolist() == sorted(model)
        asked = np.unique(rng.integers(0, last + 5, 30))
        places, known = columns.find(asked)
        assert asked[known].tolist() == columns.id[places].tolist() == [id for id in asked.tolist() if id in model]
        for window in range(6):
            rows = columns.about(window)
            expected = {id: phi for id, (of, phi) in model.items() if of == window}
            assert dict(zip(columns.id[rows].tolist(), columns.phi[rows].tolist(), strict=True)) == expected


@pytest.fixture
def service(tmp_path: Path) -> Any:
    with make_store(tmp_path) as history:
        truth = Truth(history)
        truth.append(2000)
        found = Service(configure(tmp_path, "[server.limits]\nqueries = 3000"))
        found.start()
        yield found, truth
        found.close()


def add(service: Service, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    names = [Name.of("latency", KEYS[int(i)], "all", None) for i in rng.integers(0, len(KEYS), count)]
    return service.standing.add(names, rng.uniform(0.01, 1, count).tolist(), [0.05] * count, [None] * count, "me")


def test_threads_that_come_go_and_look_leave_everything_right(service: tuple[Service, Truth]) -> None:
    served, truth = service
    standing, failed, end = served.standing, list[BaseException](), Event()

    def until_end(work: Callable[[np.random.Generator], None], seed: int) -> Thread:
        def loop() -> None:
            rng = np.random.default_rng(seed)
            try:
                while not end.is_set():
                    work(rng)
            except BaseException as error:
                failed.append(error)

        return Thread(target=loop)

    def come_and_go(rng: np.random.Generator) -> None:
        mine = add(served, int(rng.integers(1, 50)), rng)
        kept = 1 if len(standing) < 1000 else 0
        standing.drop(np.sort(rng.choice(mine, max(1, len(mine) - kept), replace=False)))

    def ask(rng: np.random.Generator) -> None:
        ids = standing.columns.id
        if len(ids):
            with suppress(UnknownQueryError):  # it was dropped meanwhile
                standing.answer(int(rng.choice(ids)))

    standing.listen(QuerySet(add(served, 100, np.random.default_rng(0))), [], asyncio.Event())
    threads = [until_end(work, seed) for seed, work in enumerate((come_and_go, come_and_go, ask, ask))]
    for thread in threads:
        thread.start()
    for step in range(8):
        truth.append(500, slow=1.0 + step)
    end.set()
    for thread in threads:
        thread.join()
    assert failed == []
    stored = served.registry.rows("SELECT id, key, phi FROM queries ORDER BY id")
    assert standing.columns.id.tolist() == [row["id"] for row in stored]
    live = served.streams.live("latency")
    while live.n < len(truth.values):
        live.poll()
    for row in stored:
        told, key = orjson.loads(standing.answer(row["id"])), orjson.loads(row["key"])
        if key == "/nobody":
            assert told == {"id": row["id"], "state": "empty", "value": None}
        else:
            truth.check(told, row["phi"], 0.05, key)
    members = sum(len(live.monitor(key=key)) for key in KEYS)
    assert members == len(stored)


def test_what_was_told_last_is_what_is_right_now(service: tuple[Service, Truth]) -> None:
    """Whoever is told every change, and nothing else, knows the value of every query."""
    served, truth = service
    standing = served.standing
    ids = add(served, 500, np.random.default_rng(3))
    bell = asyncio.Event()
    windows = standing.listen(QuerySet(ids), [], bell)
    standing.look_at(windows)
    known: dict[int, Any] = {}
    since = 0
    for step in range(6):
        columns, upto = standing.columns, standing.change
        fresh = columns.text[(columns.change > since) & (columns.change <= upto)]
        known |= {one["id"]: one for one in map(orjson.loads, fresh)}
        since = upto
        assert sorted(known) == ids.tolist()
        for id in ids[::50].tolist():
            assert orjson.loads(standing.answer(id))["value"] == known[id]["value"]
        truth.append(1000, slow=3.0**step)
        live = served.streams.live("latency")
        while live.n < len(truth.values):
            live.poll()
        standing.look_at(windows)
    standing.leave(ids, windows, [], bell)
    assert standing.heard == 0


def until(holds: Callable[[], bool]) -> None:
    last = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < last, "it did not come to be"
        time.sleep(0.01)


def test_a_failure_that_passes_is_forgotten_without_a_commit(
    service: tuple[Service, Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, _ = service
    standing, live = served.standing, served.streams.live("latency")
    ids = add(served, 5, np.random.default_rng(8))

    def fails(**_: object) -> None:
        raise StorageError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr(live, "monitor", fails)
        windows = standing.listen(QuerySet(ids), [], asyncio.Event())
        standing.look_at(windows)
        assert {orjson.loads(text)["state"] for text in standing.columns.text} == {"failed"}
    assert all(map(standing.is_stale, windows))
    standing.listen(QuerySet(ids), [], asyncio.Event())
    until(lambda: all(orjson.loads(text)["state"] in ("value", "empty") for text in standing.columns.text))


def test_trouble_that_comes_and_goes_is_told_without_a_commit(
    service: tuple[Service, Truth], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, _ = service
    live = served.streams.live("latency")

    def ready() -> bool:
        return bool(orjson.loads(served.standing.moves.get("latency", (0, b'{"ready": false}'))[1])["ready"])

    def fails(_: object) -> bool:
        raise StorageError("the disk is away")

    until(ready)
    with monkeypatch.context() as patch:
        patch.setattr(live._reader, "refresh", fails)
        until(lambda: not ready())
    until(ready)


def test_a_window_without_queries_is_let_go_of(service: tuple[Service, Truth]) -> None:
    served, _ = service
    live, standing = served.streams.live("latency"), served.standing
    before = live.stats()["monitors"]
    for number in range(30):
        [id] = standing.add([Name.of("latency", "/pay", f"last:{number + 10}", None)], [0.5], [0.1], [None], "me")
        standing.answer(id)
        standing.drop(np.array([id]))
    assert live.stats()["monitors"] == before


def test_what_cannot_be_written_is_not_registered(service: tuple[Service, Truth]) -> None:
    served, _ = service
    rng = np.random.default_rng(5)
    kept = add(served, 10, rng)
    with pytest.raises(LimitError):
        add(served, 2991, rng)
    for name, when in (("full", "INSERT ON queries WHEN NEW.id > 15"), ("held", "DELETE ON queries WHEN OLD.id = 5")):
        served.registry.write(f"CREATE TRIGGER {name} BEFORE {when} BEGIN SELECT RAISE(ABORT, '{name}'); END")
    with pytest.raises(StorageError, match="full"):
        add(served, 10, rng)
    with pytest.raises(StorageError, match="held"):
        served.standing.drop(kept)
    assert served.standing.columns.id.tolist() == kept.tolist()
    assert [row["id"] for row in served.registry.rows("SELECT id FROM queries")] == kept.tolist()
    assert add(served, 5, rng).tolist() == [11, 12, 13, 14, 15]


def test_monitors_are_told_with_what_they_saved(service: tuple[Service, Truth]) -> None:
    """Against a plain count: each of the queries, at each version that was looked at."""
    served, truth = service
    standing = served.standing
    names = [Name.of("latency", "/pay", "last:500", None)] * 40 + [Name.of("latency", None, "all", None)] * 2
    standing.add(names, np.linspace(0.02, 1, 42).tolist(), [0.05] * 42, [None] * 42, "me")
    assert [(one["queries"], "n" in one) for one in standing.monitors(None)] == [(40, False), (2, False)]
    assert standing.monitors("elsewhere") == []
    windows = list(standing._windows.values())
    live = served.streams.live("latency")
    for _ in range(4):
        truth.append(300)
        live.poll()
        for window in windows:
            standing.look(window)
    recent, everything = standing.monitors("latency")
    looks = recent["looks"]
    assert looks >= 4
    assert recent["evaluations"] == recent["clusters"] * looks
    assert recent["saved"] == 40 * looks - recent["evaluations"] > 0
    assert (recent["key"], recent["window"], recent["n"], recent["deadline"]) == ("/pay", "last:500", 500, None)
    assert everything["deadline"] > 0
    assert everything["n"] == live.n
    told = monitors.told(served, monitors.AskedMonitors(stream="latency", limit=1))
    assert (told["count"], len(told["monitors"]), told["totals"]["queries"]) == (2, 1, 42)
    assert told["totals"]["saved"] == recent["saved"] + everything["saved"]
