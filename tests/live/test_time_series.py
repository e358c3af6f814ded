"""Time series of a window: every moment against exact answers over all rows, however it is computed."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from quantide import History
from quantide.errors import EmptyError, InvalidArgumentError, SpanError
from quantide.live import LiveStream, time_panes, time_series
from quantide.live.time_series import read_times_ms
from quantide.windows.time_clock import TimeClock
from tests import oracle
from tests.live.live_model import Grown, Key, Rng, small

PHIS = [0.001, 0.5, 0.9, 1.0]
HOSTS: list[Key] = [("a",), ("b",)]
BANDS = {
    "SHORT": 0,
    "LEAST_ROWS": 1,
    "SHARE": 1,
    "LEAST_MARGIN": 0,
    "DEVIATIONS": 0,
}  # narrow, in groups of few windows


def number_of(time: Any) -> Any:
    """Return the number that a time is compared by."""
    return time if isinstance(time, float) else int(time.astype(np.int64))


def check_time_series(
    live: LiveStream, grown: Grown, within: Fraction, over: Fraction, points: int, **scope: Any
) -> None:
    model, key = grown.model, scope.get("key")
    found = live.time_series(PHIS, within, over, points, **scope)
    assert 1 <= len(found.times) <= points
    assert number_of(found.times[-1]) == model.newest
    for j, moment in enumerate(found.times):
        data = np.sort(model.window(key and (key,), None, within, scope.get("filter"), number_of(moment)))
        assert found.n[j] == len(data)
        for phi, line in zip(PHIS, found.lines, strict=True):
            point = line[j]
            if point is None:
                assert not len(data)
                continue
            value, low, high = point
            assert low <= oracle.exact_quantile(data, phi) <= high
            assert low <= value <= high
            assert oracle.wrong_answers(data, [value], [phi], live.eps / 2) == []
            answer = live.answer(
                phi, within=within, now=model.times.to_input(np.array([number_of(moment)]))[0], **scope
            )
            assert oracle.wrong_answers(data, [answer.value], [phi], live.eps / 2) == [], "the same window"


@pytest.mark.parametrize(
    ("times", "limits"),
    [
        ("seconds", {}),
        ("naive", {}),
        ("zoned", {"MAX_SCANNED": 0}),
        ("seconds", {"MAX_GATHERED": 0}),
        ("naive", {"MAX_GATHERED": 0}),
        ("seconds", BANDS),
        ("zoned", BANDS),
        pytest.param("zoned", {}, marks=pytest.mark.slow),
        pytest.param("seconds", {"MAX_SCANNED": 0}, marks=pytest.mark.slow),
        pytest.param("naive", {"MAX_SCANNED": 0}, marks=pytest.mark.slow),
        pytest.param("zoned", {"MAX_GATHERED": 0}, marks=pytest.mark.slow),
    ],
)
def test_every_moment_is_true(
    times: str, limits: dict[str, int], tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times out of order, ties, moments with empty windows; by bands, sorted, or summarised window by window."""
    for name, value in limits.items():
        monkeypatch.setattr(time_series if hasattr(time_series, name) else time_panes, name, value)
    with small():
        grown = Grown(tmp_path, times=times, keys=["host"], filters=["f"])
        for at in (0, 40, 70, 400, 430):
            rows = 60
            keys = [HOSTS[i] for i in rng.integers(0, 2, rows)]
            grown.append(rng.integers(0, 30, rows), at + rng.integers(-9, 30, rows), keys, f=rng.random(rows) < 0.4)
        live, unit = LiveStream(grown.path, follow=False), grown.model.times.unit
        check_time_series(live, grown, 20 * unit, 460 * unit, 23)
        check_time_series(live, grown, 33 * unit, 100 * unit, 7, key="a")
        check_time_series(live, grown, 2 * unit, 500 * unit, 9, key="b", filter="f")
        grown.history.close()


def test_repeated_questions_are_about_the_same_moments(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.append(np.arange(100.0), times=np.arange(100.0) + 0.7)
        live = LiveStream(tmp_path, follow=False)
        before = live.time_series([0.5], "10 s", "60 s", 6)
        assert before.times == [50.0, 60.0, 70.0, 80.0, 90.0, 99.7]
        assert (before.since, before.n, before.version) == (40.0, [10] * 6, live.version)
        history.append([7.0], times=[101.5])
        live.poll()
        assert live.time_series([0.5], "10 s", "60 s", 6).times == [60.0, 70.0, 80.0, 90.0, 100.0, 101.5]
        history.append([7.0], times=[110.0])
        live.poll()
        assert live.time_series([0.5], "10 s", "60 s", 6).times == [60.0, 70.0, 80.0, 90.0, 100.0, 110.0]


def test_a_time_series_begins_with_the_first_complete_window(tmp_path: Path) -> None:
    with History(tmp_path, window="30 s") as history:
        with pytest.raises(EmptyError):
            LiveStream(tmp_path, follow=False).time_series([0.5], 1, 10)
        history.append(np.arange(100.0), times=np.arange(100.0))
        live = LiveStream(tmp_path, follow=False)
        found = live.time_series([0.5], "10 s", "5000 weeks", 10_000)
        assert (found.since, found.times, found.n) == (89.0, [99.0], [10])
        found = live.time_series([0.5], "10 s", "60 s", 60)
        assert (found.since, found.times) == (69.0, list(np.arange(79.0, 100.0)))
        assert live.time_series([0.5], "10 s", "60 s", 60, key=None).n == [10] * 21
        with pytest.raises(SpanError):
            live.time_series([0.5], "31 s", "60 s")


@pytest.mark.parametrize(
    ("over", "points"), [("0 s", 5), ("5 parsecs", 5), (1e-7, 120), (60, 1), (60, 2.5), (60, 10**9)]
)
def test_an_impossible_time_series_is_refused(over: Any, points: Any, tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.append([1.0], times=[1.0])
        with pytest.raises(InvalidArgumentError):
            LiveStream(tmp_path, follow=False).time_series([0.5], 5, over, points)


def test_moments_far_from_zero_stay_in_order() -> None:
    for newest in (8594067430524459.0, 2.0**53 - 1, -(2.0**53) + 1):
        found = time_series.list_moments(TimeClock("seconds"), newest, Fraction(1), 3)
        assert found == sorted(set(found))
        assert found[-1] == newest


def test_a_span_longer_than_there_are_times(tmp_path: Path) -> None:
    with History(tmp_path / "s", window="1000000 weeks") as history:
        history.append([1.0, 2.0], times=np.array(["2026-01-01", "2026-01-02"], "M8[us]"))
        with LiveStream(history.path, follow=False) as live:
            found = live.time_series([0.5], "1 day", "900000 weeks", 5)
    assert found.n[-1] == 1
    assert found.times == sorted(found.times)


def test_moments_are_given(tmp_path: Path) -> None:
    with History(tmp_path / "s", eps=0.1, window="100 s") as store:
        store.append(np.arange(200.0), times=np.arange(200.0))
        live = LiveStream(tmp_path / "s", follow=False)
        moments = [50_000, 108_999, 109_000, 150_500, 199_000, 260_000]
        found = live.time_series_at([0.5, 1.0], "10 s", moments)
        assert found.times == [109.0, 150.5, 199.0, 260.0], "from the first complete window on"
        assert found.n == [10, 10, 10, 0]
        assert [point and float(point[0]) for point in found.lines[1]] == [109.0, 150.0, 199.0, None]
        assert live.time_series_at([0.5], "10 s", [5_000]).times == []
        assert live.time_series_at([], "10 s", list(range(150_000, 151_000, 100))).n == [10] * 10
        live.close()


@pytest.mark.parametrize("array", [np.array, tuple, pd.Series])
def test_moments_in_every_container(array: Any, tmp_path: Path) -> None:
    with History(tmp_path / "s", eps=0.1, window="100 s") as store:
        store.append(np.arange(200.0), times=np.arange(200.0))
        with LiveStream(tmp_path / "s", follow=False) as live:
            assert live.time_series_at([], "10 s", array([150_000, 205_000])).n == [10, 4]


WRONG_MOMENTS: list[tuple[Any, str]] = [
    *(([5, 5], "ascend"), ([5, 4], "ascend"), (np.array([5, 4], np.uint64), "ascend")),
    *(([10**16], "1678"), ([-(10**16), 5], "-10000000000000000 ms is outside"), ([np.int64(-(2**63))], "1678")),
    *(([1.5], "whole number"), ([True], "whole number"), ("12", "whole number"), ([float("nan")], "whole number")),
    *(
        (np.array([[1, 2]]), "whole number"),
        (np.array(["2026-01-01"], "M8[ns]"), "whole number"),
        (5, "list of moments"),
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG_MOMENTS)
def test_moments_that_are_no_ascending_whole_numbers(wrong: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read_times_ms(wrong)


def test_a_caller_can_end_a_long_time_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows with too many rows to sort are summarised one by one, with a check before each."""
    monkeypatch.setattr(time_series, "MAX_SCANNED", 10)
    calls = list[int]()

    def check() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise InterruptedError

    with History(tmp_path / "s", eps=0.1, window="100 s") as store:
        store.append(np.arange(200.0), times=np.arange(200.0))
        live = LiveStream(tmp_path / "s", follow=False)
        with pytest.raises(InterruptedError):
            live.time_series_at([0.5], "10 s", [1000 * second for second in range(150, 170)], check_time=check)
    assert len(calls) == 4
