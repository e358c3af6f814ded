"""Copies and pickles of everything a user can hold; sketches and windows also by `tests/checks/copies.py`."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quantide import (
    Answer,
    ConstrainedWindow,
    GKSketch,
    History,
    Monitor,
    MonitorGroup,
    RecentWindow,
    SlidingWindow,
    StreamSketch,
    Summaries,
    Summary,
    errors,
    last,
    where,
    within,
)
from quantide.client import Client
from quantide.client.event_reader import Event
from quantide.client.response_parsing import CurvePoint, QQPoint, QueryState, RemoteAnswer
from quantide.history.history_reader import HistoryReader
from quantide.history.span_view import HistoryAnswer, SpanComparison
from quantide.live import LiveStream
from quantide.live.live_view import LiveAnswer, LiveBand, LiveComparison, LiveRank
from quantide.live.time_series import LiveTimeSeries
from quantide.summary.answer import AnswerAsOf
from quantide.windows.window_view import WindowAnswer
from tests import oracle
from tests.checks.copies import WAYS
from tests.checks.verify import TINY

Rng = np.random.Generator

EACH_WAY = pytest.mark.parametrize("way", WAYS)

# Values that never change


def summaries_of_all_types(rng: Rng) -> list[Summary]:
    some = rng.normal(size=300)
    return [
        Summary.of([]),
        Summary.of(some),
        Summary.of(some).compress(9).lift(5),
        Summary.of(some.astype(np.float32)),
        Summary.of(np.array([-3, 0, 7], np.int8)),
        Summary.of(np.array(["2026-03-01", "2026-03-02"], "datetime64[us]")),
        Summary.of([Decimal("1.50"), Decimal("-2.25")]),
        Summary.of([1.0, None, float("nan"), np.inf], nan="skip"),
    ]


@EACH_WAY
def test_summaries_of_all_types(way: str, rng: Rng) -> None:
    for original in summaries_of_all_types(rng):
        twin = WAYS[way](original)
        assert twin == original
        assert (twin is original) == (way in ("copy", "deepcopy"))
        assert twin.to_bytes() == original.to_bytes()
        assert not any(array.flags.writeable for array in (twin.carried, twin.rmin, twin.rmax))


def keyed(rng: Rng) -> list[Summaries]:
    values = rng.normal(size=60)
    return [
        Summaries.of(["a", "b", None] * 20, values, 0.1),
        Summaries.of(np.arange(60) % 7, values, 0.1),
        Summaries.of([1.0, float("nan"), -0.0] * 20, values, 0.1),
        Summaries.of({"x": ["p", "q"] * 30, "y": np.arange(60) % 3}, values, 0.1),
        Summaries.of(pa.array(["a", "b", None] * 20).slice(10, 20), values[:20].astype(np.float32), 0.4),
        Summaries.of(["only nulls", "b"], [None, 3], 0.1),
        Summaries.of(pa.array([], pa.string()), [], 0.1),
    ]


@EACH_WAY
def test_summaries_of_many_keys(way: str, rng: Rng) -> None:
    for original in keyed(rng):
        twin = WAYS[way](original)
        assert (twin is original) == (way in ("copy", "deepcopy"))
        assert twin.to_arrow().schema.equals(original.to_arrow().schema, check_metadata=True)
        assert str(twin.keys) == str(original.keys)  # to Arrow NaN is unequal to itself
        assert twin.to_binary().equals(original.to_binary())
        arrays = (twin.tuples.values, twin.rmin, twin.rmax, twin.offsets, twin.n, twin.nulls, twin.nans)
        assert not any(array.flags.writeable for array in arrays)


PLAIN = Answer(np.float64(3.5), 0.5, 2, 1, 3, 4, 0.25, 4, 4)
FIELDS: tuple[Any, ...] = dataclasses.astuple(PLAIN)
AS_OF: tuple[Any, ...] = (*FIELDS, 7, "quick", 2, None, 1.0, np.datetime64("2026-03-01"))
STORED = HistoryAnswer(*(*FIELDS, "exact", 3, 2, 1, False))
RESULTS: list[Any] = [
    PLAIN,
    WindowAnswer(*(*FIELDS, 1, 2.0, 3.0)),
    AnswerAsOf(*AS_OF),
    LiveAnswer(*AS_OF),
    RemoteAnswer(*AS_OF),
    STORED,
    LiveBand(LiveAnswer(*AS_OF), 1.0, 4.0),
    LiveRank(1.5, 1, 2, 4, 7, "quick", None, None, None),
    LiveComparison(0.5, LiveAnswer(*AS_OF), LiveAnswer(*AS_OF), (0.1, 0.2)),
    LiveTimeSeries(3, 0.0, [1.0], [2], [[(1.0, 0.5, 2.0), None]]),
    SpanComparison(0.5, STORED, STORED, (0.1, 0.2)),
    CurvePoint(1.0, 0.5, 0.4, 0.6),
    QQPoint(0.5, 1.0, Decimal("2.5"), 0.1, 0.2),
    QueryState(3, "value", 4.5),
    Event("alarm", "7", {"state": "raised"}),
]


@EACH_WAY
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_answers_and_other_results(way: str, result: Any) -> None:
    twin = WAYS[way](result)
    assert type(twin) is type(result)
    assert twin == result


@EACH_WAY
def test_expressions(way: str) -> None:
    fast = where(pc.field("ms") < 5) & where(pc.field("src").isin(["a", "b"]))
    for original in (last(5), within("5 min"), fast, (within(30) & fast) | last(7), ~fast):
        twin = WAYS[way](original)
        assert twin == original
        assert repr(twin) == repr(original)
        table = pa.table({"value": [1.0, 2.0], "time": [0.0, 1.0], "ms": [1, 9], "src": ["a", "a"]})
        windows = [ConstrainedWindow(one, 0.1) for one in (original, twin)]
        for window in windows:
            window.update(table)
        assert windows[0].to_bytes() == windows[1].to_bytes()


def test_errors_come_back_from_other_processes() -> None:
    for name, kind in vars(errors).items():
        if name.endswith("Error"):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                twin = pickle.loads(pickle.dumps(kind("what was wrong"), protocol))
                assert (type(twin), str(twin)) == (kind, "what was wrong")


# Windows with filters


def rows(rng: Rng, n: int, since: float) -> dict[str, Any]:
    return {
        "value": rng.normal(size=n),
        "time": since + np.sort(rng.random(n) * 30),
        "src": rng.choice(["A", "B"], n).tolist(),
    }


def right(window: ConstrainedWindow, fed: list[dict[str, Any]]) -> bool:
    """Check within(40) & src == "A" | last(50) of everything that was fed."""
    value, time = (np.concatenate([table[name] for table in fed]) for name in ("value", "time"))
    source = np.concatenate([table["src"] for table in fed])
    inside = (time > time[-1] - 40) & (source == "A")
    inside[-50:] = True
    data = np.sort(value[inside])
    phis = np.linspace(0.02, 1, 50)
    assert oracle.wrong_answers(data, window.quantiles(phis), phis, window.eps) == []
    return oracle.bound_faults(data, window.answer(0.5)) == []


@EACH_WAY
def test_windows_with_filters_go_their_own_way(way: str, rng: Rng) -> None:
    expression = (within(40) & where(pc.field("src") == "A")) | last(50)
    original = ConstrainedWindow(expression, 0.05)
    fed = [rows(rng, 300, 0.0), rows(rng, 2, 40.0)]
    for table in fed:
        original.update(pa.table(table))
    twin = WAYS[way](original)
    assert twin.answer(0.5) == original.answer(0.5)
    assert twin.to_bytes() == original.to_bytes()
    mine, theirs = [*fed], [*fed]
    for i in range(12):
        mine.append(rows(rng, 40 + i, 80.0 + 30 * i))
        theirs.append(rows(rng, 90 - i, 90.0 + 40 * i))
        original.update(pa.table(mine[-1]))
        twin.update(pa.table(theirs[-1]))
    assert right(original, mine)
    assert right(twin, theirs)


SETTINGS: dict[type, dict[str, Any]] = {
    StreamSketch: {"eps": 0.2, "nan": "skip", "value_type": "float32", "tail": 0.3},
    GKSketch: {"eps": 0.2, "nan": "skip", "value_type": "float32"},
    SlidingWindow: {"size": 9, "eps": 0.2, "nan": "skip", "value_type": "float32", "tail": 0.3, "exact": False},
    RecentWindow: {
        "eps": 0.2,
        "max_items": 7,
        "max_age": "1 min",
        "nan": "skip",
        "late": "clamp",
        "value_type": "float32",
        "max_ahead": "1 hour",
    },
    ConstrainedWindow: {
        "expression": within(9) | last(3),
        "eps": 0.2,
        "value": "v",
        "time": "t",
        "nan": "skip",
        "late": "clamp",
        "value_type": "float32",
        "max_ahead": "1 hour",
    },
    MonitorGroup: {"eps": 0.2, "nan": "skip", "value_type": "float32", "tail": 0.3},
}


@EACH_WAY
@pytest.mark.parametrize("cls", SETTINGS, ids=lambda cls: cls.__name__)
def test_every_setting_is_copied(way: str, cls: type, rng: Rng) -> None:
    """A class with another setting is tested by listing it: what a copy takes and how it answers must not differ."""
    given = SETTINGS[cls]
    assert set(given) == set(inspect.signature(cls).parameters)
    original = cls(**given)
    twin = WAYS[way](original)
    values, times = [1.5, float("nan"), 2.5, 0.5], [5.0, 5.0, 7.0, 6.0]
    for one in (original, twin):
        if cls is ConstrainedWindow:
            one.update(pa.table({"v": pa.array(values, pa.float32()), "t": times}))
        elif cls is RecentWindow:
            one.update(values, times)
        elif cls is MonitorGroup:
            query = one.register("k", 1.0, 0.3)
            one.update(["k"] * 4, values)
            assert one.answer(query).value.dtype == np.float32
            assert one.tail == 0.3
            continue
        else:
            one.update(values)
        assert one.nans == 1
        assert one.quantile(1.0).dtype == np.float32
        assert getattr(one, "clamped", 1) == 1
        assert one.eps == 0.2
    if cls is not MonitorGroup:
        assert twin.to_bytes() == original.to_bytes()


# Monitors


def watched(kind: str) -> Monitor:
    if kind == "last values":
        return Monitor(0.05, window=SlidingWindow(3000, 0.02))
    if kind == "recent":
        return Monitor(0.05, window=RecentWindow(0.02, max_items=9000), last=2500)
    return Monitor(0.05, clustering="fewest" if kind == "fewest" else "online")


COVERED = {"stream": 10**9, "fewest": 10**9, "last values": 3000, "recent": 2500}


@EACH_WAY
@pytest.mark.parametrize("kind", COVERED)
def test_monitors_go_their_own_way(way: str, kind: str, rng: Rng) -> None:
    original = watched(kind)
    phis = 1 - rng.random(40)
    ids = original.register_many(phis, rng.uniform(0.05, 0.2, 40))
    above = original.watch(0.5, 0.1, above=0.4)
    both = rng.random(4000)
    for block in np.split(both, [1, 2, 3, 500]):
        original.update(block)
    original.changes()
    original.drop_many(ids[:5])
    original.update(both[:7])
    twin = WAYS[way](original)
    same_monitors(original, twin, ids[5:], above)
    mine, theirs = rng.random(2000), rng.random(2500) + 2
    for own, other in zip(np.array_split(mine, 5), np.array_split(theirs, 5), strict=True):
        original.update(own)
        twin.update(other)
    for one, fed in ((original, mine), (twin, theirs)):
        data = np.sort(np.concatenate([both, both[:7], fed])[-COVERED[kind] :])
        for id in ids[5:]:
            answer = one.answer(id)
            assert oracle.bound_faults(data, answer) == []
            assert answer.error <= one.query(id).eps + TINY
        assert (one.n, one.condition(above) == "no") == (len(data), bool(data[len(data) // 2] < 0.4))


def same_monitors(original: Monitor, twin: Monitor, ids: Any, condition: int) -> None:
    """The same answers, the same news, the same bytes; and the same again after the same values."""
    original, twin = Monitor.from_bytes(original.to_bytes()), Monitor.from_bytes(twin.to_bytes())
    for block in (np.array([0.5]), np.linspace(0, 1, 700)):
        assert [*twin.answers(ids)] == [*original.answers(ids)]
        assert twin.condition(condition) == original.condition(condition)
        changes = [one.changes() for one in (original, twin)]
        assert changes[0].ids.tolist() == changes[1].ids.tolist()
        assert changes[0].conditions == changes[1].conditions
        assert twin.to_bytes() == original.to_bytes()
        original.update(block)
        twin.update(block)


@EACH_WAY
def test_functions_stay_with_the_original(way: str) -> None:
    heard: list[Any] = []
    original = Monitor(0.01)
    one = original.register(0.5, 0.02, on_change=lambda *news: heard.append(news))
    original.listen(one, lambda *news: heard.append(news))
    twin = WAYS[way](original)
    twin.update([1.0, 2.0, 3.0])
    assert heard == []
    assert twin.answer(one).value == 2.0
    assert original.n == 0
    original.update([5.0])
    assert heard == [(one, 5.0)]


@EACH_WAY
def test_a_monitor_that_follows_a_source_is_not_copied(way: str) -> None:
    monitor = Monitor(0.1, pull=lambda: (1, Summary.of([1.0, 2.0])))
    with pytest.raises(errors.CopyError, match=r"from_bytes\(monitor.to_bytes\(\), pull"):
        WAYS[way](monitor)
    assert Monitor.from_bytes(monitor.to_bytes(), pull=lambda: (1, Summary.of([3.0]))).n == 1


@EACH_WAY
def test_groups_go_their_own_way(way: str, rng: Rng) -> None:
    original = MonitorGroup(0.01)
    keys: list[Any] = ["a", "b", "c"]
    ids = original.register_many(keys, [0.5, 0.9, 0.1], 0.02)
    both, more = rng.normal(size=90_000), rng.normal(size=300)
    original.update(keys * 30_000, both)
    original.changes()
    original.update(keys * 100, more)
    twin = WAYS[way](original)
    assert [*twin.answers(ids)] == [*original.answers(ids)]
    assert twin.changes().ids.tolist() == original.changes().ids.tolist()
    mine, theirs = rng.normal(size=60_000), 3 + rng.normal(size=75_000)
    original.update(keys * 20_000, mine)
    twin.update(keys * 25_000, theirs)
    new = twin.register("new", 0.5, 0.02)
    twin.update(["new"], [7.0])
    assert (twin.answer(new).value, len(twin), len(original)) == (7.0, 4, 3)
    for one, fed in ((original, mine), (twin, theirs)):
        for index, id in enumerate(ids):
            data = np.sort(np.concatenate([both[index::3], more[index::3], fed[index::3]]))
            assert oracle.bound_faults(data, one.answer(id)) == []
            assert one.answer(id).error <= 0.02 + TINY


@EACH_WAY
def test_groups_find_nan_again(way: str) -> None:
    """A dict treats two NaN as two keys: the NaN of a pickle must become the one NaN of lookups."""
    original = MonitorGroup(0.1)
    ids = [original.register(key, 0.5, 0.2) for key in (float("nan"), (1, float("nan")))]
    twin = WAYS[way](original)
    twin.update([float("nan")] * 3, [1.0, 2.0, 3.0])
    assert twin.answer(ids[0]).n == 3
    assert twin.register((1, float("nan")), 0.9, 0.2) == len(ids)
    assert twin.stats()["keys"] == 2


@EACH_WAY
def test_what_a_monitor_handed_out(way: str, rng: Rng) -> None:
    monitor = Monitor(0.01)
    ids = monitor.register_many([0.1, 0.5, 0.9], 0.02)
    condition = monitor.watch(0.5, 0.1, above=-5.0)
    monitor.update(rng.normal(size=5000))
    answers, changes = monitor.answers(ids), monitor.changes()
    copied = WAYS[way](changes)  # before it was looked up
    monitor.update(rng.normal(size=5000) + 100)
    assert (len(copied), [*copied], copied.conditions) == (3, [*changes], [(condition, "certain")])
    copied.conditions.clear()
    copied.ids[:] = 0
    assert (changes.conditions, changes.ids.tolist()) == ([(condition, "certain")], ids.tolist())
    twin = WAYS[way](answers)
    assert [*twin] == [*answers]
    with pytest.raises(ValueError, match="read-only"):
        twin.values[0] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        twin.rank_lo[0] = 5
    query = monitor.query(ids[0])
    assert WAYS[way](query) == query


# Memory that belongs to someone else


def test_arrays_that_were_handed_in_are_not_kept(rng: Rng) -> None:
    values, keys = rng.normal(size=50), np.arange(50) % 3
    one, many, group = Summary.of(values), Summaries.of(keys, values, 0.1), MonitorGroup(0.1)
    query = group.register(0, 0.5, 0.2)
    group.update(keys, values)
    before = one.to_bytes(), many.to_binary().to_pylist(), list(many), group.answer(query)
    values[:], keys[:] = 7.0, 2
    assert before == (one.to_bytes(), many.to_binary().to_pylist(), list(many), group.answer(query))


def test_columns_that_were_handed_in_are_not_kept(rng: Rng) -> None:
    """An Arrow array may lie in memory of a numpy array, which its owner can change."""
    values = rng.normal(size=40)
    for wide in (Summaries.of(np.arange(40.0) % 5, values, 0.1), Summaries.of(np.arange(40) % 5, values, 0.1)):
        table, arrays = in_numpy(wide.to_arrow())
        read = Summaries.from_arrow(table)
        before = read.to_binary().to_pylist(), list(read)
        for array in arrays:
            array[:] = 0
        assert before == (read.to_binary().to_pylist(), list(read))
    packed = np.frombuffer(Summary.of(values).to_bytes(), np.uint8).copy()
    offsets = np.array([0, len(packed)])
    blobs = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(packed)])
    read = Summaries.from_binary(["k"], blobs)
    packed[:] = 0
    assert read["k"] == Summary.of(values)


def in_numpy(table: pa.Table) -> tuple[pa.Table, list[Any]]:
    """The same table in memory that can be written."""
    arrays = [table[name].to_numpy().copy() for name in ("key", "n", "nulls", "nans")]
    lists = table["tuples"].chunk(0)
    inner = [column.to_numpy().copy() for column in lists.values.flatten()]
    offsets = lists.offsets.to_numpy().copy()
    struct = pa.StructArray.from_arrays([pa.array(array) for array in inner], ["value", "rmin", "rmax"])
    columns = [*map(pa.array, arrays), pa.LargeListArray.from_arrays(pa.array(offsets), struct)]
    made = pa.table(columns, names=["key", "n", "nulls", "nans", "tuples"])
    return made.replace_schema_metadata(table.schema.metadata), [*arrays, *inner, offsets]


@pytest.mark.parametrize("wrap", [bytearray, lambda blob: memoryview(bytearray(blob))])
def test_buffers_that_were_handed_in_are_not_kept(wrap: Callable[[bytes], Any], rng: Rng) -> None:
    constrained = ConstrainedWindow(last(50) & where(pc.field("value") < 3), 0.1)
    constrained.update(pa.table({"value": rng.normal(size=90)}))
    monitor = Monitor(0.1)
    monitor.register_many([0.1, 0.9], 0.2)
    made: list[Any] = [Summary.of(rng.normal(size=90)), constrained, monitor]
    made += [StreamSketch(0.1), GKSketch(0.1), SlidingWindow(70, 0.1), RecentWindow(0.1)]
    for one in made[2:]:
        one.update(rng.normal(size=90))
    for one in made:
        buffer = wrap(one.to_bytes())
        twin = type(one).from_bytes(buffer)
        buffer[:] = bytes(len(buffer))
        assert twin.to_bytes() == one.to_bytes()
        if not isinstance(one, Monitor):
            assert twin.answer(0.5) == one.answer(0.5)


def test_nothing_that_is_handed_out_can_be_written(rng: Rng) -> None:
    """Every returned array is read-only or a copy."""
    sketch = StreamSketch(0.1)
    sketch.update(rng.normal(size=5000))
    for one in (Summary.of(rng.normal(size=9)), sketch.summary(), sketch.summary().compress(3)):
        for array in (one.values, one.carried, one.rmin, one.rmax):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
    small = Summary.of(np.array([1, 2, 3], np.int8))
    small.values[:] = 0
    assert small.quantile(1.0) == 3
    many = Summaries.of([1, 2], [1.0, 2.0], 0.1)
    handed_out = many.values, many.rmin, many.rmax, many.n, many.offsets, many[1].values
    for array in (*handed_out, many.to_arrow()["n"].to_numpy()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


# Objects that are open on something


@EACH_WAY
def test_stores_and_connections_are_not_copied(way: str, tmp_path: Path) -> None:
    with (
        History(tmp_path / "store") as history,
        HistoryReader(history.path) as reader,
        LiveStream(history.path, follow=False) as live,
        Client() as client,
    ):
        history.append([1.0, 2.0, 3.0])
        history.end_step()
        refused = {
            "one writer": history,
            r"open HistoryReader\(path\)": reader,
            r"open LiveStream\(path\)": live,
            r"Client\(address\)": client,
            "pull=": live.monitor(),
            r"runs\(\) of": history.runs()[0],
        }
        for what, thing in refused.items():
            with pytest.raises(errors.CopyError, match=what):
                WAYS[way](thing)
        assert history.quantile(1.0) == 3.0  # still the writer
        history.append([9.0])


# Other processes


def fed_elsewhere(sketch: Any, values: Any) -> tuple[Any, Any]:
    """Return the answer of a sketch, and the sketch, from another process."""
    sketch.update(values)
    return sketch.answer(0.5), sketch


def summary_of(values: Any) -> Summary:
    return Summary.of(values)


def test_processes_exchange_sketches(rng: Rng) -> None:
    """Processes that were spawned, not forked, exchange sketches by pickles."""
    both, more = rng.normal(size=3000), rng.normal(size=2000)
    made: list[Any] = [StreamSketch(0.05), GKSketch(0.05), SlidingWindow(900, 0.05)]
    made.append(RecentWindow(0.05, max_items=4000))
    for one in made:
        one.update(both)
    with get_context("spawn").Pool(1) as pool:
        back = pool.starmap(fed_elsewhere, [(one, more) for one in made])
    for one, (answer, twin) in zip(made, back, strict=True):
        assert one.n == min(3000, getattr(one, "size", 3000))  # the other process fed its own
        one.update(more)
        assert answer == one.answer(0.5)
        assert twin.to_bytes() == one.to_bytes()


def test_a_pool_of_processes_summarises(rng: Rng) -> None:
    blocks = [rng.normal(size=1000) for _ in range(4)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        total = Summary.merge(*pool.map(summary_of, blocks))
        assert total == Summary.of(np.concatenate(blocks))
        with pytest.raises(errors.NaNError, match="no rank"):
            pool.submit(summary_of, [float("nan")]).result()
        monitor = Monitor(0.01)
        one = monitor.register(0.5, 0.02, on_change=print)
        twin = pool.submit(copy.copy, monitor).result()
    twin.update(blocks[0])
    assert (twin.answer(one).n, monitor.n) == (1000, 0)
