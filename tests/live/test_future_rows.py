"""Times in the future: refused where times are of the wall clock, harmless to recent rows, and repaired elsewhere."""

from __future__ import annotations

import json
import shutil
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantide import History
from quantide.errors import CorruptBytesError, FutureTimeError, InvalidArgumentError, SettingsError
from quantide.history.future_rows import repair_future_rows
from quantide.live import LiveStream
from quantide.store.recent_manifest import ManifestEntry, RecentManifest
from quantide.store.store_settings import StoreSettings
from quantide.windows.wall_clock import VARIABLE
from tests.live.live_model import small

GOLDEN = Path(__file__).parent / "golden" / "future-0.1.tar.xz"
START, WRONG = np.datetime64("2026-03-01T12:00:00", "ns"), np.datetime64("2090-01-01", "ns")
HOUR = 3600.0
Rng = np.random.Generator


def exact(live: LiveStream, **scope: Any) -> list[float]:
    """All values of a window, in order."""
    n = live.summary(**scope).n
    return [float(answer.value) for answer in live.answers([(i + 1) / n for i in range(n)], mode="exact", **scope)]


def in_window(values: Any, times: Any, seconds: float) -> list[float]:
    """The same by its definition."""
    return sorted(np.asarray(values)[np.asarray(times) > np.max(times) - seconds].tolist())


# --- refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (-2 * HOUR - 60, "2.0[0-9]* hours after now"),  # negative: so many seconds after now
        (-50 * 31_557_600, "50 years after now.*Correct the times, or this machine's clock"),
        (1.75e12, "looks like milliseconds; numbers are seconds: divide by 1,000, or pass timestamps"),
        (1_750_000_000_000, "looks like milliseconds"),
        (1.75e15, "looks like microseconds; numbers are seconds: divide by 1,000,000, "),
        (1.75e18, "looks like nanoseconds"),
        (1e300, "max_ahead, 1 h"),
    ],
)
def test_a_row_of_the_future_is_refused(tmp_path: Path, rng: Rng, wrong: float, message: str) -> None:
    """A refused row changes nothing: windows are as before, and continue with later rows."""
    now = time.time()
    wrong = wrong if wrong > 0 else now - wrong
    values, times = rng.normal(size=3000), now - 1200 + np.sort(rng.uniform(0, 1000, 3000))
    with History(tmp_path, eps=0.01) as history:
        history.append(values[:2000], times=times[:2000])
        before = history.version
        with pytest.raises(FutureTimeError, match="^1 of 3 times.*" + message) as caught:
            history.append([1e9, 1e9, 1e9], times=[now, wrong, now])
        assert caught.value.code == "future_time"
        assert (history.n, history.version) == (2000, before)
        history.append(values[2000:], times=times[2000:])
        live = LiveStream(tmp_path, follow=False)
        assert live.summary(within=300).n == len(in_window(values, times, 300))
        assert exact(live, within=20) == in_window(values, times, 20)
        assert live.clock_problem is None
        assert live.lag == pytest.approx(time.time() - times.max(), abs=60)


def test_nanoseconds_that_are_no_seconds(tmp_path: Path) -> None:
    with History(tmp_path) as history, pytest.raises(InvalidArgumentError, match="looks like nanoseconds"):
        history.append([1.0], times=[1_750_000_000_000_000_000])


def test_timestamps(tmp_path: Path) -> None:
    """Timestamps without a zone may be of any zone; those with a zone are compared to the second."""
    now = np.datetime64(time.time_ns(), "ns")
    for name, times in {"naive": now + np.timedelta64(14, "h"), "soon": now + np.timedelta64(59, "m")}.items():
        with History(tmp_path / name) as history:
            history.append([1.0], times=times)
            with pytest.raises(FutureTimeError, match="years after now"):
                history.append([1.0], times=WRONG)
    zoned = pa.array([time.time_ns() + 2 * 3600 * 10**9]).cast(pa.timestamp("ns", "UTC"))
    with History(tmp_path / "zoned") as history, pytest.raises(FutureTimeError):
        history.append([1.0], times=zoned)


def test_a_null_with_a_wrong_time(tmp_path: Path) -> None:
    """A null with a wrong time moves no window."""
    with History(tmp_path) as history:
        history.append([1.0, None], times=[5.0, 1e12])
        assert LiveStream(tmp_path, follow=False).newest == 5.0


# --- the setting --------------------------------------------------------------------------------------------


def test_the_setting_is_stored_and_can_be_changed(tmp_path: Path) -> None:
    ahead = time.time() + 2 * HOUR
    with History(tmp_path, max_ahead="3 hours", eps=0.01) as history:
        history.append([1.0], times=ahead)
        live = LiveStream(tmp_path, follow=False)
        assert live.settings.max_ahead == "10800"
    with History(tmp_path, max_ahead="1 hour") as history:
        with pytest.raises(FutureTimeError):
            history.append([2.0], times=ahead)
        history.append([2.0], times=1.0)
    assert live.poll()
    assert live.settings.max_ahead == "3600"
    assert live.clock_problem is not None
    with History(tmp_path, max_ahead="off") as history:
        history.append([3.0], times=1e300)
    with History(tmp_path, eps=0.01) as history:
        assert history.settings.max_ahead == "off"
        history.append([4.0], times=1e12)
        assert history.n == 4
    with pytest.raises(SettingsError, match="eps"):
        History(tmp_path, eps=0.02, max_ahead="1 hour")
    live.poll()
    stats = live.stats()
    assert (stats["lag"], stats["clock_problem"], stats["newest_time"]) == (None, None, 1e300)


@pytest.mark.parametrize("wrong", ["soon", 0, -1, "0 s", True, float("nan")])
def test_a_setting_that_means_nothing(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match='"off"'):
        History(tmp_path, max_ahead=wrong)
    assert not list(tmp_path.iterdir())


def test_settings_of_earlier_versions() -> None:
    old = '{"version": 2, "eps": 0.1, "run_eps": 0.025, "kappa": 10, "value_type": "float64", "keys": []}'
    assert StoreSettings.from_json(old).ahead == HOUR
    for wrong in ('"soon"', '"0"', "3600", "null", '"1/0"', '"-1"'):
        with pytest.raises(CorruptBytesError):
            StoreSettings.from_json(old[:-1] + f', "max_ahead": {wrong}}}')


# --- retention of recent rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [1e12, 1e300])
def test_one_time_drops_no_file(tmp_path: Path, rng: Rng, wrong: float) -> None:
    """max_ahead is off: one wrong time moves windows away, and the repair restores each."""
    span, each = 100.0, 40
    values, times = rng.normal(size=1200), np.arange(1200) / 10.0
    with small(later_rows=64):
        with History(tmp_path, eps=0.05, window=span, max_ahead="off") as history:
            for at in range(0, 1200, each):
                history.append(values[at : at + each], times=times[at : at + each])
                if at == 600:
                    history.append([1e9], times=wrong)
            history._writer.join()
        live = LiveStream(tmp_path, follow=False)
        assert live.summary(within=span).n == 1
        assert (live.lag, live.clock_problem) == (None, None)  # of such a clock nothing is known
        with pytest.raises(InvalidArgumentError, match="off"):
            repair_future_rows(tmp_path, "remove")
        report = repair_future_rows(tmp_path, "remove", newer_than=5000.0)
        assert (report.rows, report.newest_before, report.newest_after) == (1, wrong, times[-1])
        live.poll()
        for seconds in (5.0, 50.0, span):
            assert exact(live, within=seconds) == in_window(values, times, seconds)
        assert exact(live, last=300) == sorted(values[-300:].tolist())


def test_a_stream_without_wrong_times_keeps_little_more_than_its_window(tmp_path: Path) -> None:
    later_rows, span, each = 64, 100, 10
    with small(later_rows=later_rows, most=40):
        with History(tmp_path, eps=0.05, window=span) as history:
            for at in range(0, 2000, each):
                history.append(np.arange(at, at + each, dtype=float), times=np.arange(at, at + each, dtype=float))
                rows = sum(entry.rows for entry in history.table.current_manifest().entries)
                assert rows <= span + later_rows + 3 * 40  # and the files at the ends of both
            history._writer.join()
        assert rows < 2000 / 2


@st.composite
def arrivals(draw: Any) -> list[list[int]]:
    """Times of files in arrival order, mostly rising; fewer than four are wrong."""
    files = draw(st.lists(st.integers(1, 12), min_size=1, max_size=25))
    now, times = 0, []
    for rows in files:
        now += draw(st.integers(0, 8))
        times.append([now - draw(st.integers(0, 6)) for _ in range(rows)])
    flat = [(i, j) for i, rows in enumerate(times) for j in range(len(rows))]
    for i, j in draw(st.lists(st.sampled_from(flat), max_size=3, unique=True)):
        times[i][j] = draw(st.sampled_from([10**6, -(10**6), 10**9]))
    return times


@given(arrivals(), st.integers(1, 30))
def test_dropped_files_are_older_than_any_window(times: list[list[int]], span: int) -> None:
    """No row of a window of right times is dropped if wrong rows are fewer than half of those that must be later."""
    later_rows = 8  # half of it are four, and at most three are wrong
    manifest = RecentManifest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quantide.store.recent_manifest.MIN_LATER_ROWS", later_rows)
        for number, rows in enumerate(times):
            median = sorted(rows)[(len(rows) - 1) // 2]
            entry = ManifestEntry(str(number), 0, len(rows), min(rows), max(rows), 0, median)
            manifest = manifest.with_entries([entry], "seconds", True).without_old(lambda time: time - span)
            right = [t for file_times in times[: number + 1] for t in file_times if abs(t) < 10**6]
            there = {int(entry.name) for entry in manifest.entries}
            if right:
                for i in set(range(number + 1)) - there:
                    assert all(abs(t) >= 10**6 or t <= max(right) - span for t in times[i])
            last = [i for i in range(number + 1) if sum(map(len, times[i + 1 : number + 1])) < later_rows]
            assert set(last) <= there


# --- a store of 0.1 -----------------------------------------------------------------------------------------

SECONDS = np.arange(123)  # value i has the time START + i, except 81, which is of 2090


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN) as packed:
        packed.extractall(tmp_path / "store", filter="data")
    return tmp_path / "store"


def expected(action: str) -> tuple[Any, Any]:
    """Values and their seconds after a repair. The file of value 81 has 80 and 82, too."""
    values, seconds = SECONDS.astype(float), SECONDS.astype(float)
    seconds[81] = 82
    some = SECONDS != 81 if action == "remove" else np.full(123, True)
    return values[some], seconds[some]


@pytest.mark.parametrize("action", ["remove", "redate"])
def test_a_store_of_version_0_1_is_repaired(store: Path, action: str) -> None:
    live = LiveStream(store, follow=False)
    assert exact(live, within="5 min") == [81.0]
    assert live.lag is not None
    assert live.lag < -60 * 365 * 86400
    assert "2090-01-01" in str(live.clock_problem)
    assert live.stats()["clock_problem"] == live.clock_problem
    tried = repair_future_rows(store, action, dry_run=True)
    assert not live.poll()
    assert exact(live, within="5 min") == [81.0]
    assert "would be" in str(tried)
    report = repair_future_rows(store, action)
    assert replace(report, latest=None) == replace(tried, latest=None, dry_run=False)
    assert json.loads(json.dumps(report.to_json()))["newest_before"].startswith("2090-01-01")
    assert (report.rows, len(report.files), report.lost) == (1, 1, ())
    assert (report.newest_before, report.newest_after) == (WRONG, START + np.timedelta64(122, "s"))
    assert "1 recent row in 1 file dated after" in str(report)
    live.poll()
    assert live.clock_problem is None
    assert live.n == 123  # history keeps every value
    values, seconds = expected(action)
    for within in (5.0, 40.0, 60.0, 3600.0):
        assert exact(live, within=within) == in_window(values, seconds, within)
        mine = values % 2 == 0
        chosen = mine & (seconds > seconds.max() - within)
        assert exact(live, within=within, key="a") == values[chosen].tolist()
        slow = (values % 5 == 0) & (seconds > seconds.max() - within)
        assert exact(live, within=within, filter="slow") == values[slow].tolist()
    for last in (1, 50, len(values)):
        assert exact(live, last=last) == values[-last:].tolist()
    with History(store) as history:
        with pytest.raises(FutureTimeError):
            history.append([1.0], key="a", times=WRONG, filters={"slow": False})
        history.append([500.0], key="a", times=START + np.timedelta64(125, "s"), filters={"slow": False})
        assert history.verify().values == 124
    live.poll()
    assert exact(live, within=2.0) == [500.0]
    again = repair_future_rows(store, action)
    assert again.rows == 0
    assert "nothing was changed" in str(again)


def test_appends_to_a_store_of_version_0_1_drop_nothing(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantide.store.recent_manifest.MIN_LATER_ROWS", 16)
    with History(store) as history:
        more = START + (np.arange(123, 200) * 10**9).astype("m8[ns]")
        history.append(np.arange(123.0, 200.0), key="a", times=more, filters={"slow": False})
        history._writer.join()
        assert sum(entry.rows for entry in history.table.current_manifest().entries) == 200


def test_a_damaged_file_with_such_rows(store: Path) -> None:
    """Windows that may need it are refused until it is old, and all others are right."""
    name = "_quantide/recent/E1-3.recent"
    (store / name).write_bytes(b"nothing")
    report = repair_future_rows(store, "redate")
    assert (report.rows, report.lost) == (0, (name,))
    assert f"cannot be read: {name}" in str(report)
    live = LiveStream(store, follow=False)
    assert live.newest == START + np.timedelta64(122, "s")
    with pytest.raises(CorruptBytesError, match="E1-3"):
        live.summary(within=5)
    assert exact(live, last=40) == SECONDS[-40:].tolist()
    with History(store) as history:
        more = START + (np.arange(200, 210) * 10**9).astype("m8[ns]")
        history.append(np.arange(200.0, 210.0), key="a", times=more, filters={"slow": False})
    live.poll()
    assert exact(live, within=60) == np.arange(200.0, 210.0).tolist()
    with pytest.raises(CorruptBytesError, match="E1-3"):
        live.summary(within=100)
    again = repair_future_rows(store, "redate")
    assert (again.rows, again.lost) == (0, ())


def test_a_store_of_wrong_rows_only(tmp_path: Path) -> None:
    with History(tmp_path, max_ahead="off") as history:
        history.append([1.0, 2.0], times=[1e12, 2e12])
    for action, n in (("redate", 2), ("remove", 0)):
        copy = tmp_path.parent / f"{tmp_path.name}-{action}"
        shutil.copytree(tmp_path, copy)
        with pytest.raises(InvalidArgumentError, match="number of seconds"):
            repair_future_rows(copy, action, newer_than="soon")
        repair_future_rows(copy, action, newer_than="7.0")
        live = LiveStream(copy, follow=False)
        assert live.summary(within="1 hour").n == n
        assert live.newest == (7.0 if n else None)
        with History(copy) as history:
            history.append([3.0], times=8.0)
        live.poll()
        assert live.summary(within="1 hour").n == n + 1


def test_what_cannot_be_repaired(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no store"):
        repair_future_rows(tmp_path / "nothing", "remove")
    with pytest.raises(InvalidArgumentError, match="redate"):
        repair_future_rows(tmp_path, "forget")
    with History(tmp_path / "empty"):
        pass
    assert repair_future_rows(tmp_path / "empty", "redate").rows == 0


# --- lag ----------------------------------------------------------------------------------------------------


def test_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    with History(tmp_path) as history:
        live = LiveStream(tmp_path, follow=False)
        assert (live.lag, live.clock_problem, live.newest) == (None, None, None)
        history.append([1.0], times=5.0)
        live.poll()
        assert (live.lag, live.clock_problem) == (None, None)  # seconds of a clock of one's own
        history.append([1.0], times=now - 30)
        live.poll()
        assert live.lag == pytest.approx(30, abs=20)
        monkeypatch.setenv(VARIABLE, str(-2 * HOUR))
        assert live.stats()["lag"] == pytest.approx(30 - 2 * HOUR, abs=20)
        assert "hours ahead of this machine's clock" in str(live.clock_problem)
        monkeypatch.setattr("time.time", lambda: now + 1e7)
        assert 0 <= live.stats()["polled"] < 1000  # the wall clock has no part in it
