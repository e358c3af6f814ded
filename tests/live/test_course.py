"""The course of a window: every moment against exact answers over all that came, however it is found."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import History
from quantide.errors import EmptyError, InvalidArgumentError, SpanError
from quantide.live import LiveStream, course
from quantide.windows.clock import Clock
from tests import oracle
from tests.live.model import Grown, Key, Rng, small

PHIS = [0.001, 0.5, 0.9, 1.0]
HOSTS: list[Key] = [("a",), ("b",)]


def number_of(shown: Any) -> Any:
    """A time as the number it is compared by."""
    return shown if isinstance(shown, float) else int(shown.astype(np.int64))


def check_course(live: LiveStream, grown: Grown, within: Fraction, over: Fraction, points: int, **words: Any) -> None:
    model, key = grown.model, words.get("key")
    found = live.course(PHIS, within, over, points, **words)
    assert 1 <= len(found.times) <= points
    assert number_of(found.times[-1]) == model.newest
    for j, shown in enumerate(found.times):
        data = np.sort(model.window(key and (key,), None, within, words.get("filter"), number_of(shown)))
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
            answer = live.answer(phi, within=within, now=model.times.handed(np.array([number_of(shown)]))[0], **words)
            assert oracle.wrong_answers(data, [answer.value], [phi], live.eps / 2) == [], "the same window"


@pytest.mark.parametrize(
    ("times", "limits"),
    [
        ("seconds", {}),
        ("naive", {}),
        ("zoned", {"SORTED": 0}),
        ("seconds", {"READ": 0}),
        ("naive", {"READ": 0}),
        pytest.param("zoned", {}, marks=pytest.mark.slow),
        pytest.param("seconds", {"SORTED": 0}, marks=pytest.mark.slow),
        pytest.param("naive", {"SORTED": 0}, marks=pytest.mark.slow),
        pytest.param("zoned", {"READ": 0}, marks=pytest.mark.slow),
    ],
)
def test_every_moment_is_true(
    times: str, limits: dict[str, int], tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times out of order, ties, moments at which nothing was there; sorted at once, or each window by itself."""
    for name, value in limits.items():
        monkeypatch.setattr(course, name, value)
    with small():
        grown = Grown(tmp_path, times=times, keys=["host"], filters=["f"])
        for at in (0, 40, 70, 400, 430):
            rows = 60
            keys = [HOSTS[i] for i in rng.integers(0, 2, rows)]
            grown.append(rng.integers(0, 30, rows), at + rng.integers(-9, 30, rows), keys, f=rng.random(rows) < 0.4)
        live, unit = LiveStream(grown.path, follow=False), grown.model.times.unit
        check_course(live, grown, 20 * unit, 460 * unit, 23)
        check_course(live, grown, 33 * unit, 100 * unit, 7, key="a")
        check_course(live, grown, 2 * unit, 500 * unit, 9, key="b", filter="f")
        grown.history.close()


def test_who_asks_again_is_told_of_the_same_moments(tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.append(np.arange(100.0), times=np.arange(100.0) + 0.7)
        live = LiveStream(tmp_path, follow=False)
        before = live.course([0.5], "10 s", "60 s", 6)
        assert before.times == [50.0, 60.0, 70.0, 80.0, 90.0, 99.7]
        assert (before.since, before.n, before.version) == (40.0, [10] * 6, live.version)
        history.append([7.0], times=[101.5])
        live.poll()
        assert live.course([0.5], "10 s", "60 s", 6).times == [60.0, 70.0, 80.0, 90.0, 100.0, 101.5]
        history.append([7.0], times=[110.0])
        live.poll()
        assert live.course([0.5], "10 s", "60 s", 6).times == [60.0, 70.0, 80.0, 90.0, 100.0, 110.0]


def test_it_begins_where_windows_are_known(tmp_path: Path) -> None:
    with History(tmp_path, window="30 s") as history:
        with pytest.raises(EmptyError):
            LiveStream(tmp_path, follow=False).course([0.5], 1, 10)
        history.append(np.arange(100.0), times=np.arange(100.0))
        live = LiveStream(tmp_path, follow=False)
        found = live.course([0.5], "10 s", "5000 weeks", 10_000)
        assert (found.since, found.times, found.n) == (89.0, [99.0], [10])
        found = live.course([0.5], "10 s", "60 s", 60)
        assert (found.since, found.times) == (69.0, list(np.arange(79.0, 100.0)))
        assert live.course([0.5], "10 s", "60 s", 60, key=None).n == [10] * 21
        with pytest.raises(SpanError):
            live.course([0.5], "31 s", "60 s")


@pytest.mark.parametrize(("over", "points"), [("0 s", 5), ("5 parsecs", 5), (1e-7, 120), (60, 1), (60, 2.5)])
def test_what_is_no_course_is_refused(over: Any, points: Any, tmp_path: Path) -> None:
    with History(tmp_path) as history:
        history.append([1.0], times=[1.0])
        with pytest.raises(InvalidArgumentError):
            LiveStream(tmp_path, follow=False).course([0.5], 5, over, points)


def test_moments_far_from_zero_stay_in_order() -> None:
    for newest in (8594067430524459.0, 2.0**53 - 1, -(2.0**53) + 1):
        found = course.moments(Clock("seconds"), newest, Fraction(1), 3)
        assert found == sorted(set(found))
        assert found[-1] == newest


def test_a_course_over_longer_than_there_are_times(tmp_path: Path) -> None:
    with History(tmp_path / "s", window="1000000 weeks") as history:
        history.append([1.0, 2.0], times=np.array(["2026-01-01", "2026-01-02"], "M8[us]"))
        with LiveStream(history.path, follow=False) as live:
            found = live.course([0.5], "1 day", "900000 weeks", 5)
    assert found.n[-1] == 1
    assert found.times == sorted(found.times)
