"""Times of all kinds, late and missing ones: an update that raises has changed nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from quantide import RecentWindow, Summary, errors
from tests.windows.small_windows import SmallRecentWindow
from tests.windows.window_oracle import verify

Rng = np.random.Generator
START = datetime(2026, 3, 1, 12)
BERLIN = timezone(timedelta(hours=1))


def moments(n: int) -> list[datetime]:
    """Return times a second apart, from START on."""
    return [START + timedelta(seconds=i) for i in range(n)]


KINDS: dict[str, Callable[[list[datetime]], Any]] = {
    "numbers": lambda times: [(t - START).total_seconds() for t in times],
    "ints": lambda times: np.array([round((t - START).total_seconds()) for t in times]),
    "negative numbers": lambda times: np.array([(t - START).total_seconds() - 1e6 for t in times]),
    "decimals": lambda times: [Decimal(int((t - START).total_seconds())) + Decimal("0.25") for t in times],
    "float32": lambda times: np.array([(t - START).total_seconds() for t in times], dtype=np.float32),
    "datetimes": lambda times: times,
    "datetimes with a zone": lambda times: [t.replace(tzinfo=BERLIN) for t in times],
    **{
        f"datetime64[{unit}]": lambda times, unit=unit: np.array(times, dtype=f"datetime64[{unit}]")  # type: ignore[misc]
        for unit in ("s", "ms", "us", "ns")
    },
    "pandas": lambda times: pd.Series(pd.to_datetime(times)),
    "pandas with a zone": lambda times: pd.DatetimeIndex(times).tz_localize("Europe/Berlin"),
    "polars": lambda times: pl.Series(times),
    "arrow": lambda times: pa.array(times, pa.timestamp("us")),
    "arrow with a zone": lambda times: pa.chunked_array([pa.array(times, pa.timestamp("ms", tz="Asia/Tokyo"))]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_time(kind: str, rng: Rng) -> None:
    """Windows are the same for all types of times, inserted one at a time or many."""
    values, times = rng.random(400), moments(400)
    written = KINDS[kind](times)
    whole, parts = SmallRecentWindow(0.1), SmallRecentWindow(0.1)
    whole.update(values, written)
    for start in range(0, 400, 40):
        parts.update(values[start : start + 40], KINDS[kind](times[start : start + 40]))
    assert whole.to_bytes() == parts.to_bytes()
    spans = (0.5, 1, 10, "30 s", "1.5 min", timedelta(seconds=77), np.timedelta64(2, "m"), pd.Timedelta("3 min"))
    for span, count in zip(spans, (1, 1, 10, 30, 90, 77, 120, 180), strict=True):
        answer = verify(whole, values[-count:], rng, within=span)
        assert answer.n_lo <= count <= answer.n_hi
    answer = verify(whole, values[-20:], rng, within=100, now=KINDS[kind]([times[-1] + timedelta(seconds=80)]))
    assert answer.until == whole.newest
    restored = SmallRecentWindow.from_bytes(whole.to_bytes())
    restored.update([5.0], KINDS[kind]([times[-1]]))
    assert restored.answer(1.0, within=1).n == 2


def test_what_times_come_out_as() -> None:
    """Seconds as floats, timestamps as datetime64 in nanoseconds, UTC if they have a zone."""
    cases: list[tuple[Any, Any]] = [
        ([0, 5], 5.0),
        ([START, START + timedelta(seconds=1)], np.datetime64("2026-03-01T12:00:01", "ns")),
        ([START.replace(tzinfo=BERLIN)] * 2, np.datetime64("2026-03-01T11:00:00", "ns")),
        ([date(2026, 3, 1), date(2026, 3, 2)], np.datetime64("2026-03-02", "ns")),
    ]
    for times, newest in cases:
        window = RecentWindow(0.1)
        window.update([1.0, 2.0], times)
        answer = window.answer(0.5, within=0.001)
        assert window.newest == newest == answer.until
        assert type(window.newest) is type(newest)
        assert type(answer.since) is type(newest)


def test_nanoseconds_are_kept() -> None:
    base = np.datetime64("2026-03-01T00:00:00.000000001", "ns")
    window = RecentWindow(0.1)
    window.update(np.arange(5.0), base + np.arange(5))
    assert window.answer(0.5, within=np.timedelta64(3, "ns")).n == 3
    assert window.answer(0.5, within=Fraction(7, 2 * 10**9)).n == 4
    assert window.answer(0.5, within=pd.Timedelta(2, "ns")).n == 2
    assert window.answer(0.5, within="2 ns", now=pd.Timestamp(base) + pd.Timedelta(5, "ns")).n == 1
    assert window.answer(0.5, within="1000 ns").since == base


def test_zones_mean_the_same_moment() -> None:
    window = RecentWindow(0.1)
    window.update([1.0], [datetime(2026, 3, 1, 12, tzinfo=BERLIN)])
    window.update([2.0], [datetime(2026, 3, 1, 11, 0, 10, tzinfo=UTC)])
    assert window.answer(0.5, within=10).n == 1
    assert window.answer(0.5, within=11).n == 2
    with pytest.raises(errors.LateError):
        window.update([3.0], [datetime(2026, 3, 1, 11, 30, tzinfo=BERLIN)])


def test_the_newest_is_within_every_span() -> None:
    """The newest time is within every span, also if the difference is below floating-point precision."""
    window = RecentWindow(0.1)
    window.update([1.0, 2.0], [1.7e9, 1.7e9 + 1e-6])
    assert window.answer(0.5, within=1e-9).n == 1
    assert window.answer(0.5, within=5e-324).n == 1
    assert window.answer(0.5, within=1e299).n == 2


def test_long_and_odd_spans_among_timestamps() -> None:
    window = RecentWindow(0.1, max_age="100000 w")
    window.update([1.0, 2.0], [START, START + timedelta(days=1)])
    assert window.answer(0.5, within="100000 w").n == window.n == 2
    assert window.answer(0.5, within=Fraction(1, 3)).n == 1


# --- one time for all, equal times, wrong times -------------------------------------------------------------


@pytest.mark.parametrize("time", [7, 7.5, np.float32(3), np.array(4.0), pa.scalar(9), Decimal("1.5"), np.int64(1)])
def test_one_time_for_all(time: Any) -> None:
    window = RecentWindow(0.1)
    window.update([1.0, None, 3.0], time)
    answer = window.answer(0.5, within=1)
    assert (answer.n, answer.since, answer.until) == (2, window.newest, window.newest)


@pytest.mark.parametrize(
    "time",
    [START, np.datetime64(START), pd.Timestamp(START), pa.scalar(START), START.date(), START.replace(tzinfo=UTC)],
)
def test_one_timestamp_for_all(time: Any) -> None:
    window = RecentWindow(0.1)
    window.update([1.0, 2.0, 3.0], time)
    assert window.answer(0.5, within=1).n == 3


def wrong_times() -> dict[str, tuple[Any, type[Exception]]]:
    """Invalid times for three values, after times in seconds up to 1000."""
    return {
        "too few": ([1001, 1002], errors.InvalidArgumentError),
        "too many": ([1001, 1002, 1003, 1004], errors.InvalidArgumentError),
        "one in a list": ([1001], errors.InvalidArgumentError),
        "none in a list": ([], errors.InvalidArgumentError),
        "no times": (None, errors.InvalidArgumentError),
        "a null": ([1001, None, 1003], errors.InvalidArgumentError),
        "nan": ([1001, float("nan"), 1003], errors.InvalidArgumentError),
        "infinite": ([1001, 1002, float("inf")], errors.InvalidArgumentError),
        "beyond exact": (np.array([2**53 + 2] * 3), errors.InvalidArgumentError),
        "timestamps": (np.array(moments(3), dtype="datetime64[us]"), errors.TypeMismatchError),
        "a timestamp": (START, errors.TypeMismatchError),
        "durations": (np.array([1, 2, 3], dtype="timedelta64[s]"), errors.TypeMismatchError),
        "text": (["a", "b", "c"], errors.TypeMismatchError),
        "a word": ("now", errors.TypeMismatchError),
        "bools": ([True, True, True], errors.TypeMismatchError),
        "an object": (object(), errors.TypeMismatchError),
        "two dimensions": (np.full((3, 1), 1001.0), errors.TypeMismatchError),
        "late": ([999.0, 1001, 1002], errors.LateError),
        "late by themselves": ([1003.0, 1002.0, 1004.0], errors.LateError),
        "one late for all": (999, errors.LateError),
    }


@pytest.mark.parametrize("name", wrong_times())
def test_wrong_times_change_nothing(name: str, rng: Rng) -> None:
    times, error = wrong_times()[name]
    for n in (1, 500, 4000):
        window, values = SmallRecentWindow(0.1), rng.random(n)
        window.update(values[:-1], np.linspace(0, 999, n - 1))
        window.update(float(values[-1]), 1000.0)
        before = (window.arrived, window.newest, window.nulls, window.nans, window.clamped, window.to_bytes())
        window.update(0.5, 1000.0)
        twin = SmallRecentWindow.from_bytes(window.to_bytes())
        for block in ([1.0, 2.0, 3.0], np.array([1.0, 2.0, 3.0]), pa.array([1.0, 2.0, 3.0])):
            with pytest.raises(error):
                window.update(block, times)
        assert before[1:5] == (window.newest, window.nulls, window.nans, window.clamped)
        assert window.to_bytes() == twin.to_bytes() != before[5]
        verify(window, np.append(values, 0.5)[-n:], rng, last=n)


def test_wrong_values_with_good_times_change_nothing(rng: Rng) -> None:
    window = SmallRecentWindow(0.1)
    window.update(rng.random(300), np.arange(300.0))
    before = window.to_bytes()
    for bad in ([1.0, float("nan")], ["a", "b"], np.array([1j, 2j]), [True, False], np.array([2**53 + 1, 1])):
        with pytest.raises(errors.QuantideError):
            window.update(bad, [300.0, 301.0])
        assert window.to_bytes() == before
    assert window.newest == 299.0
    window.update(0.5, 299.0)


def test_a_window_over_time_needs_times() -> None:
    window = RecentWindow(0.1, max_age=5)
    with pytest.raises(errors.InvalidArgumentError, match="times"):
        window.update([1.0])
    with pytest.raises(errors.InvalidArgumentError, match="times"):
        window.update_summary(Summary.of([1.0]))
    assert window.arrived == 0
    typed = RecentWindow(0.1, max_age=5, value_type="float64")
    with pytest.raises(errors.InvalidArgumentError, match="times"):
        typed.update(1.0)
    assert typed.arrived == 0
    untimed = RecentWindow(0.1)
    untimed.update([1.0])
    with pytest.raises(errors.InvalidArgumentError, match="without times"):
        untimed.update([1.0], [5.0])
    with pytest.raises(errors.InvalidArgumentError, match="without times"):
        untimed.update_summary(Summary.of([1.0]), 5.0, 6.0)
    with pytest.raises(errors.InvalidArgumentError, match="without times"):
        untimed.quantile(0.5, within=5)
    with pytest.raises(errors.InvalidArgumentError):
        untimed.update_summary(Summary.of([1.0]), 5.0)


# --- late values --------------------------------------------------------------------------------------------


def test_late_values_are_refused_or_clamped(rng: Rng) -> None:
    """Clamped values count as arriving at the newest time, and `clamped` counts them."""
    values, times = rng.random(3000), np.cumsum(rng.normal(0.2, 1, 3000))
    strict, patient = SmallRecentWindow(0.1), SmallRecentWindow(0.1, late="clamp")
    newest = np.maximum.accumulate(times)
    for start in range(0, 3000, 100):
        stop = start + 100
        if np.any(newest[start:stop] != times[start:stop]):
            before = strict.to_bytes()
            with pytest.raises(errors.LateError, match="clamp"):
                strict.update(values[start:stop], times[start:stop])
            assert strict.to_bytes() == before
        strict.update(values[start:stop], times[start:stop], late="clamp")
        patient.update(values[start:stop], times[start:stop])
        assert strict.clamped == patient.clamped == int(np.count_nonzero(newest[:stop] != times[:stop]))
        assert patient.newest == newest[stop - 1]
        for span in (1.0, 20.0, 400.0):
            verify(patient, values[:stop][newest[:stop] > newest[stop - 1] - span], rng, within=span)
    restored = SmallRecentWindow.from_bytes(patient.to_bytes())
    assert restored.clamped == patient.clamped > 100
    restored.update(0.5, -1e9)
    assert restored.clamped == patient.clamped + 1
    with pytest.raises(errors.LateError):
        restored.update(0.5, -1e9, late="refuse")


def test_late_policies() -> None:
    for late in ("drop", "", None, 5):
        with pytest.raises(errors.InvalidArgumentError, match="late"):
            RecentWindow(0.1, late=late)  # type: ignore[arg-type]
    window = RecentWindow(0.1)
    window.update(1.0, 5.0)
    with pytest.raises(errors.InvalidArgumentError, match="late"):
        window.update(1.0, 4.0, late="drop")
    assert window.arrived == 1


def test_one_by_one_with_times(rng: Rng) -> None:
    """Buffered values have their own times; late ones among them are detected."""
    values, times = rng.random(9000), np.sort(rng.random(9000)) * 100
    whole, single = SmallRecentWindow(0.1), SmallRecentWindow(0.1)
    whole.update(values, times)
    for i, (value, time) in enumerate(zip(values.tolist(), times.tolist(), strict=True)):
        single.update(value if i % 3 else np.float64(value), time if i % 5 else np.float64(time))
        if i % 1000 == 7:
            with pytest.raises(errors.LateError):
                single.update(value, time - 1)
            with pytest.raises(errors.NaNError):
                single.update(float("nan"), time)
            with pytest.raises(errors.TypeMismatchError):
                single.update("x", time)
            with pytest.raises(errors.InvalidArgumentError):
                single.update(value)
            with pytest.raises(errors.InvalidArgumentError):
                single.update(value, float("nan"))
            assert single.arrived == i + 1
            assert single.newest == time
    assert single.to_bytes() == whole.to_bytes()


# --- nulls and NaN ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["list", "numpy", "arrow", "chunked", "pandas", "polars", "masked"])
def test_what_is_skipped_takes_its_time_with_it(form: str, rng: Rng) -> None:
    values, times = rng.normal(size=2000), np.arange(2000.0)
    nulls, nans = rng.random(2000) < 0.2, rng.random(2000) < 0.2
    if form in ("numpy", "masked"):
        nulls[:] = False
    nans &= ~nulls
    holed: list[Any] = [None if n else float("nan") if x else v for v, n, x in zip(values, nulls, nans, strict=True)]
    makers: dict[str, Callable[[], Any]] = {
        "list": lambda: holed,
        "numpy": lambda: np.array(holed, dtype=np.float64),
        "arrow": lambda: pa.array(holed, pa.float64()),
        "chunked": lambda: pa.chunked_array([pa.array(holed[:700], pa.float64()), pa.array(holed[700:], pa.float64())]),
        "pandas": lambda: pd.Series(pa.array(holed, pa.float64()), dtype=pd.ArrowDtype(pa.float64())),
        "polars": lambda: pl.Series(holed, strict=False),
        "masked": lambda: np.ma.MaskedArray(np.array(holed, dtype=np.float64), mask=np.arange(2000) % 2 == 0),
    }
    if form == "masked":
        nulls = np.arange(2000) % 2 == 0
        nans &= ~nulls
    clean, plain = SmallRecentWindow(0.1), SmallRecentWindow(0.1, nan="skip")
    valid = ~nulls & ~nans
    clean.update(values[valid], times[valid])
    plain.update(makers[form](), times)
    assert (plain.nulls, plain.nans) == (int(nulls.sum()), int(nans.sum()))
    assert plain.arrived == int(valid.sum())
    for span in (1, 5, 50, 700, 3000):
        inside = values[valid][times[valid] > plain.newest - span]
        verify(plain, inside, rng, within=span)
        assert plain.summary(within=span).rmin.tolist() == clean.summary(within=span).rmin.tolist()
    once = SmallRecentWindow(0.1)
    with pytest.raises(errors.NaNError):
        once.update(makers[form](), times)
    assert (once.arrived, once.nulls, once.newest) == (0, 0, None)


def test_late_times_of_nulls_do_not_matter() -> None:
    window = RecentWindow(0.1, nan="skip")
    window.update([1.0, None, 2.0, float("nan")], [5.0, 1.0, 6.0, 0.0])
    assert (window.newest, window.clamped, window.nulls, window.nans) == (6.0, 0, 1, 1)
    window.update([None, None], [9.0, 8.0])
    assert (window.newest, window.nulls) == (6.0, 3)


# --- text as spans ------------------------------------------------------------------------------------------


def test_spans_as_text() -> None:
    window = RecentWindow(0.1)
    window.update(np.arange(100_000.0), np.arange(100_000.0))
    spans = {"5 min": 300, "1h30m": 5400, "1 d": 86400, "90 Seconds": 90, "0.5 h": 1800, "2000 ms": 2, "1 min 1 s": 61}
    for text, seconds in spans.items():
        assert window.answer(0.5, within=text).n_hi >= seconds >= window.answer(0.5, within=text).n_lo
        assert window.quantile(0.5, within=text) == window.quantile(0.5, within=seconds)
