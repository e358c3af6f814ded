"""max_ahead of windows: a time further ahead of the clock is rejected and changes nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from quantide import ConstrainedWindow, RecentWindow, Summary, last, within
from quantide.errors import FutureTimeError, InvalidArgumentError
from quantide.windows.wall_clock import VARIABLE

WRONG = np.datetime64("2090-01-01", "ns")


def table(times: Any) -> pa.Table:
    return pa.table({"value": np.arange(float(len(times))), "time": times})


def test_one_wrong_time_without_the_setting() -> None:
    """Without the setting the newest timestamp defines now."""
    window = RecentWindow(0.1)
    window.update(np.arange(100.0), np.arange(100.0))
    window.update(7.0, 1e12)
    assert window.max_ahead is None
    assert window.answer(0.5, within="5 min").n == 1


@pytest.mark.parametrize("wrong", [1e300, 1.75e12, 2e10])
def test_a_wrong_time_is_refused(wrong: float) -> None:
    now = time.time()
    window = RecentWindow(0.1, max_ahead="1 hour", late="clamp")
    window.update(np.arange(100.0), now - 100 + np.arange(100.0))
    before = window.to_bytes()
    for values, times in ((7.0, wrong), ([7.0, 8.0], [now, wrong]), (np.array([7.0]), wrong)):
        with pytest.raises(FutureTimeError, match="max_ahead, 1 h"):
            window.update(values, times)
    with pytest.raises(FutureTimeError):
        window.update_summary(Summary.of([1.0]), now, wrong)
    assert window.to_bytes() == before
    window.update(7.0, now)
    assert window.answer(1.0, within="10 s").n == 10


def test_values_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffered values are checked one by one."""
    now = time.time()
    window = RecentWindow(0.1, max_ahead=60)
    for i in range(20):
        window.update(float(i), now + i)
    with pytest.raises(FutureTimeError):
        window.update(1.0, now + 3000.0)
    monkeypatch.setenv(VARIABLE, "3000")
    window.update(20.0, now + 3000.0)
    assert (window.arrived, window.newest) == (21, now + 3000.0)


def test_a_window_of_constraints() -> None:
    window = ConstrainedWindow(within("60 s") | last(5), 0.1, max_ahead="2 h")
    now = np.datetime64(time.time_ns(), "ns")
    window.update(table([now, now]))
    before = window.to_bytes()
    with pytest.raises(FutureTimeError, match=r"1 of 2 times.*2090.*years after now"):
        window.update(table([now, WRONG]))
    assert window.to_bytes() == before
    assert window.max_ahead == 7200


@pytest.mark.parametrize("given", ["1 hour", "1 h 30 min", 0.5, "off", None])
def test_the_setting_is_in_the_bytes(given: Any) -> None:
    for window in (RecentWindow(0.1, max_ahead=given), ConstrainedWindow(within("60 s"), 0.1, max_ahead=given)):
        restored = type(window).from_bytes(window.to_bytes())
        assert restored.max_ahead == window.max_ahead
        assert restored.to_bytes() == window.to_bytes()
    assert (RecentWindow(0.1, max_ahead=given).max_ahead is None) == (given in ("off", None))


@pytest.mark.parametrize("wrong", ["soon", 0, -5, True])
def test_a_setting_that_means_nothing(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match='"off"'):
        RecentWindow(0.1, max_ahead=wrong)
