"""Details of windows: their edges, skipped rows, retention, and memory."""

import gc
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantide import History, Summary
from quantide.errors import EmptyError, FutureTimeError, InvalidArgumentError, SpanError, UnknownKeyError
from quantide.history.appended_rows import ParquetPiece, read_appended_rows
from quantide.history.bulk_load import write_chunks
from quantide.live import LiveStream
from quantide.summary.value_column import read_column
from quantide.summary.value_types import type_named
from tests import oracle
from tests.history.writer_workload import leftovers
from tests.live.live_model import Grown, Rng, check, small

NINE: list[dict[str, Any]] = [{"last": 9}, {}]
ONE: list[dict[str, Any]] = [{"last": 1}, {"within": 1}, {"filter": "f"}]
LIMA = timezone(timedelta(hours=-5))


def test_since_and_until(tmp_path: Path) -> None:
    """Two windows with the same start and different ends are distinguished."""
    with History(tmp_path) as history:
        history.append(np.arange(100.0), times=np.arange(100.0))
        live = LiveStream(tmp_path, follow=False)
        answers = [live.answer(0.5, within=within, now=now) for within, now in ((10, 90.0), (5, 85.0), (19, None))]
        assert [(a.since, a.until, a.n) for a in answers] == [(80.0, 90.0, 10), (80.0, 85.0, 5), (80.0, 99.0, 19)]
        assert live.answer(0.5, last=5).since is None
        assert live.answer(0.5).until is None


def test_edges_of_seconds(tmp_path: Path) -> None:
    """A time at the threshold is outside, the next float is inside; now itself is within every span."""
    edge = 0.1 + 0.2
    times = [0.0, np.nextafter(edge - 0.1, -1), edge - 0.1, np.nextafter(edge - 0.1, 1), edge]
    with History(tmp_path) as history:
        history.append(np.arange(5.0), times=times)
        live = LiveStream(tmp_path, follow=False)
        assert live.answer(1e-9, within=0.1).value == 3
        assert live.answer(1e-9, within=0.1).n == 2
        assert live.answer(1, within=1e-30).n == 1


@pytest.mark.parametrize(
    ("times", "within", "n"),
    [
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 5), datetime(2024, 1, 1, 0, 10)], "5 min", 1),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 5), datetime(2024, 1, 1, 0, 10)], "5 min 1 ns", 2),
        ([date(2024, 1, 1), date(2024, 1, 5), date(2024, 1, 2)], timedelta(days=3), 1),
        ([date(2024, 1, 1), date(2024, 1, 5), date(2024, 1, 2)], "3.5 days", 2),
        (pa.array([0, 3600, 7200], pa.timestamp("s", "Asia/Tokyo")), np.timedelta64(2, "h"), 2),
        ([datetime(2024, 1, 1, tzinfo=UTC), *[datetime(2023, 12, 31, 19, tzinfo=LIMA)] * 2], 1, 3),
        (np.array([1, 2, 3], "M8[us]"), Fraction(1, 10**6), 1),
        (np.array([1, 2, 3], "M8[us]"), "1001 ns", 2),
        ([Decimal("0.1"), Decimal("0.2"), Decimal("0.3")], 0.15, 2),
        ([1, 2, 3], 2, 2),
        (np.array([1, 2, 3], np.float32), 2.0, 2),
    ],
    ids=str,
)  # fmt: skip
def test_every_kind_of_time(times: Any, within: Any, n: int, tmp_path: Path) -> None:
    with History(tmp_path, window="9 days") as history:
        history.append(np.arange(3.0), times=times)
        live = LiveStream(tmp_path, follow=False)
        answer = live.answer(0.5, within=within)
        assert answer.n == n
        assert answer.until == live.newest


def test_one_time_for_all(tmp_path: Path) -> None:
    with History(tmp_path, filters="f") as history:
        history.append([1.0, 2.0], times=10.0, filters={"f": False})
        history.append([3.0], times=20.0, filters={"f": True})
        history.append([4.0, 5.0, 6.0], times=np.float64(15.0), filters={"f": [True, None, False]})
        live = LiveStream(tmp_path, follow=False)
        assert [live.answer(1, within=w).n for w in (1, 5, 6, 11)] == [1, 1, 4, 6]
        assert live.answer(0.5, filter="f").n == 2
        assert live.answer(1, filter="f").value == 4
        assert live.answer(1, filter="f", last=3).n == 1


def test_nulls_and_nan_are_in_no_window(tmp_path: Path, rng: Rng) -> None:
    """Times, keys and filters go with a skipped value, which does not count for last= either."""
    rows = 400
    values = rng.normal(size=rows)
    values[rng.random(rows) < 0.2] = np.nan
    null = rng.random(rows) < 0.2
    keys, times, mask = rng.choice(["a", "b"], rows), rng.integers(0, 1000, rows) * 1.0, rng.random(rows) < 0.5
    with small():
        history = History(tmp_path, eps=0.05, keys="host", filters="f")
        for some in np.array_split(np.arange(rows), 7):
            given = pa.array(values[some], mask=null[some])
            history.append(given, key=keys[some], nan="skip", times=times[some], filters={"f": mask[some]})
        history.append(pa.array([None, None], pa.float64()), key="c", times=[1e9, 1e9], filters={"f": True})
        history._writer.recent.join()
        live = LiveStream(tmp_path, follow=False)
        good = ~null & ~np.isnan(values)
        assert live.n == good.sum()
        assert live.newest == times[good].max()
        for key in (None, "a", "b"):
            mine = good & ((keys == key) | (key is None))
            for last in (1, 50, 200):
                chosen = np.flatnonzero(mine)[-last:]
                assert oracle.bound_faults(values[chosen], live.answer(0.3, key=key, last=last)) == []
                after = chosen[times[chosen] > times[good].max() - 300]
                if len(after):
                    assert oracle.bound_faults(values[after], live.answer(0.3, key=key, last=last, within=300)) == []
                flagged = after[mask[after]]
                if len(flagged):
                    answer = live.answer(0.6, key=key, last=last, within=300, filter="f")
                    assert oracle.bound_faults(values[flagged], answer) == []
        with pytest.raises(UnknownKeyError):
            live.answer(0.5, key="c", last=3)
        history.close()


def test_nothing_but_nulls(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.append(pa.array([None, None], pa.float64()), times=[1.0, 2.0])
        history.append([np.nan], nan="skip", times=5.0)
        live = LiveStream(tmp_path, follow=False)
        assert live.newest is None
        with pytest.raises(EmptyError):
            live.answer(0.5, last=3)
        history.append([1.0], times=5.0)
        live.poll()
        assert live.answer(0.5, last=3).n == 1


def test_minus_zero(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.append([-0.0, 0.0, -0.0])
        live = LiveStream(tmp_path, follow=False)
        for mode in ("quick", "exact"):
            assert not np.signbit(live.quantiles([0.1, 0.5, 1], last=3, mode=mode)).any()


def test_keys_that_are_easily_confused(tmp_path: Path) -> None:
    """1, True and "1" are not the same key, though two of them are equal in Python."""
    with History(tmp_path / "two", keys=["a", "b"]) as history:
        history.append([1.0, 2.0, 3.0, 4.0], key=[("1", "x"), ("true", "x"), ("2", "x"), (None, "x")])
        live = LiveStream(history.path, follow=False)
        for scope in NINE:
            assert live.answer(0.5, key=(1, "x"), **scope).value == 1
            assert live.answer(0.5, key=(True, "x"), **scope).value == 2
            assert live.answer(0.5, key=("1", "x"), **scope).value == 1
            assert live.answer(0.5, key=[2, "x"], **scope).value == 3
            assert live.answer(0.5, key={"b": "x", "a": "2"}, **scope).value == 3
            assert live.answer(0.5, key=(None, "x"), **scope).value == 4
    with History(tmp_path / "one", keys="a") as history:
        history.append([1.0, 2.0, 3.0], key=[1.5, float("nan"), None])
        live = LiveStream(history.path, follow=False)
        for scope in NINE:
            assert live.answer(0.5, key=float("nan"), **scope).value == 2
            assert live.answer(0.5, key=(None,), **scope).value == 3
            assert live.answer(0.5, **scope).n == 3
        assert live.keys()[0] == 1.5
        assert live.keys()[2] is None


@pytest.mark.parametrize(
    "keys",
    [
        [True, False],
        [date(2020, 1, 1), date(2021, 1, 1)],
        [datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 1)],
        [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 5, tzinfo=UTC)],
        [Decimal("1.50"), Decimal("2.25")],
        [b"a", b"\xff"],
        [1.5, -0.5],
        ["", "\u00e9" * 20],
        [-(2**63), 2**63 - 1],
    ],
    ids=lambda keys: type(keys[0]).__name__,
)
def test_every_kind_of_key(keys: list[Any], tmp_path: Path, rng: Rng) -> None:
    with small(few=5):
        history = History(tmp_path, eps=0.05, keys="id")
        chosen, values = rng.integers(0, 2, 60), np.arange(60.0)
        for part in np.array_split(np.arange(60), 4):
            history.append(values[part], key=[keys[i] for i in chosen[part]])
        history._writer.join()
        live = LiveStream(tmp_path, follow=False)
        for i, key in enumerate(keys):
            mine = values[chosen == i]
            for scope in (*NINE, {"within": "1 hour"}):
                data = mine[-9:] if "last" in scope else mine
                for mode in ("quick", "exact"):
                    assert oracle.bound_faults(data, live.answer(0.5, key=key, mode=mode, **scope)) == []
        assert set(live.keys()) == set(keys)
        history.close()


def test_a_batch_that_was_appended_before(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        for _ in range(3):
            history.append([1.0, 2.0], batch_id="a", times=[1.0, 2.0])
        live = LiveStream(tmp_path, follow=False)
        assert live.n == live.answer(1, last=9).n == live.answer(1, within=5).n == 2


def test_a_clock_that_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Append rows without times while the clock goes back: later arrivals are never older."""
    with History(tmp_path) as history:
        monkeypatch.setattr("quantide.history.recent_writer.ticks_ns", lambda: 0)
        for number, now in enumerate([10**18, 10**18 - 10**12, 5, 10**18 + 10**9]):
            monkeypatch.setattr("quantide.history.recent_writer.wall_clock_ns", lambda now=now: now)
            history.append([float(number)])
        live = LiveStream(tmp_path, follow=False)
        assert live.newest == np.datetime64(10**18 + 10**9, "ns")
        assert live.answer(1, within="1 s").n == 1
        assert live.answer(1, within="1 s 1 ns").n == 4


def test_times_as_far_apart_as_can_be(tmp_path: Path) -> None:
    ends = np.array([1 - 2**63, 0, 2**63 - 1])
    for name, times in (("ns", ends.view("M8[ns]")), ("s", np.array([-1e300, 0.0, 1e300]))):
        with History(tmp_path / name, max_ahead="off") as history:
            history.append([1.0, 2.0, 3.0], times=times)
            live = LiveStream(tmp_path / name, follow=False)
            assert live.answer(1, within="24 hours").n == 1
            assert live.answer(1, last=2).n == 2
            with pytest.raises(SpanError):
                live.answer(1, within="24 hours", now=times[0])
    with History(tmp_path / "long", window=10**12, max_ahead="off") as history:
        history.append([1.0, 2.0, 3.0], times=ends.view("M8[ns]"))
        assert LiveStream(tmp_path / "long", follow=False).answer(1, within=10**12).n == 3


def test_rows_that_tasks_bring(tmp_path: Path, rng: Rng) -> None:
    """Recent rows of a bulk load are in windows in the order of the tasks; some with and some without is refused."""
    kind, values, times = type_named("float64"), rng.normal(size=90), rng.integers(0, 50, 90).astype(float)
    keys = pa.array(rng.choice(["a", "b"], 90))

    def piece(part: Any, recent: bool = True) -> ParquetPiece:
        column, some = read_column(values[part], kind), keys.take(pa.array(part))
        arrivals = read_appended_rows(some, column, None, times[part], None, ())
        return ParquetPiece(some, column, arrivals if recent else None)

    with small():
        history = History(tmp_path, eps=0.05, keys="host")
        parts = np.array_split(np.arange(90), 3)
        history.append(values[parts[0]], key=keys.take(pa.array(parts[0])), times=times[parts[0]])

        def load(tasks: list[list[ParquetPiece]]) -> None:
            with history.bulk_load([pa.string()]) as bulk:
                names, written = bulk.reserve(len(tasks)), []
                for task, pieces in enumerate(tasks):
                    written += write_chunks(names, task, pieces, "refuse")
                bulk.commit(names, written)

        def pieces() -> list[list[ParquetPiece]]:
            return [[piece(some) for some in np.array_split(part, 2)] for part in parts[1:]]

        load(pieces())
        history._writer.join()
        times[parts[1][0]], right = 1e12, times[parts[1][0]]
        with pytest.raises(FutureTimeError, match="milliseconds"):
            load(pieces())
        times[parts[1][0]] = right
        assert history.n == 90
        live = LiveStream(tmp_path, follow=False)
        mine = np.array(keys.to_pylist()) == "a"
        for last in (1, 40, 70, 90):
            assert oracle.bound_faults(values[-last:], live.answer(0.5, last=last)) == []
            assert oracle.bound_faults(values[mine][-last:], live.answer(0.5, last=last, key="a")) == []
        assert oracle.bound_faults(values[times > times.max() - 9], live.answer(0.5, within=9)) == []
        before = history.version

        with pytest.raises(InvalidArgumentError, match="times"):
            load([[piece(parts[0]), piece(parts[1], recent=False)]])
        assert (history.n, history.version) == (90, before)
        history.vacuum(0)
        assert leftovers(tmp_path) == set()
        history.close()


def test_steps_that_were_dropped(tmp_path: Path) -> None:
    """A history of one step: windows are longer, and everything is the remaining step."""
    with History(tmp_path, retention=1, eps=0.05) as history:
        live = LiveStream(tmp_path, follow=False)
        for step in range(4):
            history.append(np.arange(20.0) + 100 * step, times=float(step))
            history.end_step()
            live.poll()
            assert live.n == live.answer(1).n == min(20, 20 * (step + 1))
            assert live.answer(1e-9, last=20 * (step + 1)).value == 0
            assert live.answer(1, within=2).n == 20 * min(2, step + 1)


# --- retention ----------------------------------------------------------------------------------------------


def test_old_rows_go(tmp_path: Path, rng: Rng) -> None:
    """Files are dropped as time moves on; every window within the store's is right, one beyond it is refused."""
    span = Fraction(100)
    with small(later_rows=50):
        grown = Grown(tmp_path / "store", keys=["host"], filters=["f"], window=span)
        live = LiveStream(grown.path, follow=False)
        most = 0
        for number in range(30):
            rows = int(rng.integers(1, 40))
            when = number * 40 + rng.integers(0, 200, rows)  # in quarters of a second, out of order
            keys = [("a",) if x else ("b",) for x in rng.random(rows) < 0.3]
            grown.append(rng.integers(-900, 900, rows), when, keys, f=rng.random(rows) < 0.5)
            live.poll()
            most = max(most, live.stats()["recent_values"])
            if number % 5 == 4:
                check_retention(live, grown, rng, 50)
        assert most < grown.model.n
        grown.history.vacuum(0)
        assert len(list((tmp_path / "store/_quantide/recent").iterdir())) == live.stats()["recent_files"] + 1
        grown.history.verify()
        grown.history.close()


def check_retention(live: LiveStream, grown: Grown, rng: Rng, later_rows: int) -> None:
    model = grown.model
    for _ in range(20):
        key = [None, ("a",), ("b",)][rng.integers(3)]
        last = [None, int(rng.integers(1, 400))][rng.integers(2)]
        within = Fraction(int(rng.integers(1, 401)), 4)
        scope: dict[str, Any] = {"key": key and key[0], "last": last, "within": within}
        data = model.window(key, last, within, None)
        try:
            answer = live.answer(0.7, **scope)
        except SpanError:
            assert last is not None
            assert last > later_rows or key is not None
        except (EmptyError, UnknownKeyError):
            assert not len(data)
        else:
            assert oracle.bound_faults(data, answer) == []
    questions: list[dict[str, Any]] = [{"within": 100.25}, {"within": 1, "now": float(model.newest) - 99.5}]
    for beyond in questions:
        with pytest.raises(SpanError, match="kept"):
            live.answer(0.5, **beyond)


def test_a_shorter_window(tmp_path: Path, rng: Rng) -> None:
    """A reader that keeps less than the store: a filter on its own is about that much."""
    grown = Grown(tmp_path / "store", filters=["f"], window=Fraction(1000))
    grown.append(np.arange(400), np.arange(400), f=rng.random(400) < 0.5)
    live = LiveStream(grown.path, follow=False, window="25 s")
    grown.model.span = Fraction(25)
    check(live, grown.model, rng, windows=20)
    with pytest.raises(SpanError):
        live.answer(0.5, within=26)
    assert live.answer(0.5, last=400).n == 400
    assert live.stats()["window"] == "25 s"
    longer = LiveStream(grown.path, follow=False, window="2 days")
    with pytest.raises(SpanError):
        longer.answer(0.5, within=1001)
    grown.history.close()


def test_tiny_windows(tmp_path: Path) -> None:
    """A store that keeps a nanosecond still has the newest time."""
    with small(later_rows=1):
        history = History(tmp_path, window="1 ns")
        for number in range(10):
            history.append([number, number + 0.5], times=np.array([number, number], "M8[s]"))
        live = LiveStream(tmp_path, follow=False)
        assert live.answer(1, within="1 ns").n == 2
        assert live.answer(1, last=1).value == 9.5
        with pytest.raises(SpanError):
            live.answer(1, last=20)
        history.close()


def test_a_store_without_recent_rows(tmp_path: Path) -> None:
    with History(tmp_path, window=0) as history:
        history.append([1.0, 2.0])
        wrong: list[dict[str, Any]] = [{"times": 5.0}, {"filters": {"f": True}}]
        for given in wrong:
            with pytest.raises(InvalidArgumentError, match="keeps no recent"):
                history.append([1.0], **given)
        assert history.n == 2
        live = LiveStream(tmp_path, follow=False)
        assert live.answer(1).n == 2
        assert live.newest is None
        assert live.stats()["window"] is None
        for scope in ONE:
            with pytest.raises(SpanError, match="keeps no recent"):
                live.answer(1, **scope)
            with pytest.raises(SpanError, match="keeps no recent"):
                live.monitor(**scope)
        assert not (tmp_path / "_quantide/recent").exists()


def test_a_store_of_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store made before recent rows existed: its settings have no window."""
    old = '{"version": 1, "eps": 0.05, "run_eps": 0.0125, "kappa": 2, "value_type": "float64", "keys": ["host"], '
    with monkeypatch.context() as patch:
        patch.setattr(
            "quantide.store.store_settings.StoreSettings.to_json", lambda _: old + '"memory": null, "retention": null}'
        )
        with History(tmp_path, eps=0.05, kappa=2, keys="host") as history:
            history.append([1.0, 2.0], key="a")
    with History(tmp_path) as history:
        history.append([3.0], key="b")
        history.end_step()
        with pytest.raises(InvalidArgumentError, match="keeps no recent"):
            history.append([3.0], key="b", times=5.0)
        live = LiveStream(tmp_path, follow=False)
        assert (live.answer(1).n, live.answer(1, key="a").n, live.keys()) == (3, 2, ["a", "b"])
        with pytest.raises(SpanError, match="keeps no recent"):
            live.answer(1, last=1)
        assert history.verify().values == 3
        history.vacuum(0)
        assert LiveStream(tmp_path, follow=False).answer(1).n == 3


# --- memory, and data of real sizes -------------------------------------------------------------------------


def test_memory_is_bounded(tmp_path: Path, rng: Rng) -> None:
    """Many different questions at one version: caches stay within their limit."""
    with History(tmp_path, eps=0.01) as history:
        history.append(rng.normal(size=5000), times=np.arange(5000.0))
        live = LiveStream(tmp_path, follow=False, memory=200_000)
        gc.collect()
        before = {id(one) for one in gc.get_objects() if isinstance(one, Summary)}
        for last in range(1000, 3000, 5):
            live.answer(0.5, last=last, mode="exact")
        summaries = [one for one in gc.get_objects() if isinstance(one, Summary) and id(one) not in before]
        assert sum(one.nbytes for one in summaries) < 2 * 200_000
        assert live.stats()["memory"] < 2 * 200_000


@pytest.mark.parametrize("memory", [1, "1 MB"])
def test_large_batches(memory: Any, tmp_path: Path, rng: Rng) -> None:
    """Append large batches without small limits: stored summaries, blocks and files have their real sizes."""
    history = History(tmp_path, eps=0.01, keys="host", filters="f")
    values, times = rng.lognormal(size=300_000), np.arange(300_000) + rng.normal(size=300_000) * 1000
    keys, mask = rng.choice(["a", "b"], 300_000, p=[0.98, 0.02]), rng.random(300_000) < 0.3
    for some in (slice(0, 1), slice(1, 220_000), slice(220_000, 299_990), slice(299_990, 300_000)):
        history.append(values[some], key=keys[some], times=times[some], filters={"f": mask[some]})
    live = LiveStream(tmp_path, follow=False, memory=memory)
    for key in (None, "a", "b"):
        mine = np.flatnonzero((keys == key) | (key is None))
        for last in (1, 1000, 79_000, 200_000, 10**6):
            for within in (None, 5.0, 80_000.0):
                for filter in (None, "f"):
                    chosen = mine[-last:]
                    chosen = chosen if within is None else chosen[times[chosen] > times.max() - within]
                    chosen = chosen if filter is None else chosen[mask[chosen]]
                    if not len(chosen):
                        continue
                    scope: dict[str, Any] = {"key": key, "last": last, "within": within, "filter": filter}
                    for mode in ("accurate", "exact"):
                        answer = live.answer(0.99, mode=mode, **scope)
                        assert oracle.bound_faults(values[chosen], answer) == []
                        assert answer.error <= (0 if mode == "exact" else 0.01)
                    assert live.summary(**scope).n == len(chosen)
    history.close()
