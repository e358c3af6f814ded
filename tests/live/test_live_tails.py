"""Windows of a live stream are within a share of their distance from either end, in every mode."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide import History
from quantide.live import LiveStream
from quantide.typing import Floats
from tests.oracle import tail_faults
from tests.sampling import one_in

EPS, TAIL = 0.01, 0.1
Rng = np.random.Generator


def check(live: LiveStream, data: Floats, mode: str, **scope: Any) -> None:
    """All ranks near the ends are within the tail, and so are answers with their bands."""
    in_order, n = np.sort(data), len(data)
    assert live.tail is not None
    promised = live.tail / 2 if scope.keys() - {"key"} else live.tail  # windows have half of it
    assert not tail_faults(in_order, lambda phis: live.quantiles(phis, mode=mode, **scope), live.eps, promised)
    for band in live.bands([0.0001, 0.001, 0.5, 0.99, 0.999, 0.9999, 1.0], mode, **scope):
        r, tail = band.answer.target, 0.0 if mode == "exact" else promised
        allowed = min(live.eps * n, tail * (n - r), tail * (r - 1))
        assert band.answer.n == n
        assert band.answer.error * n <= allowed + 0.5 + 1e-6
        assert band.low <= in_order[r - 1] <= band.high
        first, last = np.searchsorted(in_order, band.low, "right"), np.searchsorted(in_order, band.high, "left") + 1
        assert max(r - first, last - r) <= 2 * allowed * (1 + 1e-12)


@pytest.mark.parametrize(
    ("mode", "extremes"), one_in(4, product(["quick", "accurate", "exact"], ["early", "late", "everywhere"]))
)
def test_windows_of_counts_and_times(tmp_path: Path, mode: str, extremes: str, rng: Rng) -> None:
    """Windows that begin and end in the middle of files, over files with and without stored summaries."""
    sizes = (30_000, 300, 5000, 900, 20_000, 40, 3000)
    size = sum(sizes)
    values, times = rng.lognormal(0, 2, size), np.arange(size) / 10
    at = {"early": np.arange(400), "late": size - 1 - np.arange(400), "everywhere": rng.permutation(size)[:400]}[
        extremes
    ]
    values[at[::2]], values[at[1::2]] = 1e6 + rng.random(200), -rng.random(200)
    with History(tmp_path, EPS) as history:
        for i, (part, when) in enumerate(
            zip(*(np.split(a, np.cumsum(sizes)[:-1]) for a in (values, times)), strict=True)
        ):
            history.append(part, times=when)
            if i % 3 == 2:
                history.end_step()
        with LiveStream(tmp_path) as live:
            assert (live.tail, live.settings.tail) == (TAIL, TAIL)
            for last in (size, 40_001, 2000):
                check(live, values[-last:], mode, last=last)
            check(live, values[times > times[-1] - 3777], mode, within=3777)
            check(live, values, mode)


def test_keys(tmp_path: Path, rng: Rng) -> None:
    keys, values = rng.integers(0, 3, 40_000), rng.lognormal(0, 2, 40_000)
    with History(tmp_path, EPS, keys="host") as history:
        for part in np.array_split(np.arange(40_000), 3):
            history.append(values[part], key=keys[part])
        with LiveStream(tmp_path) as live:
            for key in range(3):
                own = values[keys == key]
                check(live, own[-9000:], "accurate", key=key, last=9000)
                check(live, own, "accurate", key=key)
            check(live, values[-30_000:], "quick", last=30_000)


@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
def test_windows_of_a_million_values(tmp_path: Path, order: str, rng: Rng) -> None:
    size, eps = 1_300_000, 0.001
    values = rng.lognormal(0, 2.5, size)
    if order != "random":
        values = np.sort(values)[:: 1 if order == "ascending" else -1].copy()
    with History(tmp_path, eps) as history:
        for part in np.array_split(values, 4):
            history.append(part)
        with LiveStream(tmp_path) as live:
            window = np.sort(values[-1_000_000:])
            for answer in live.answers([0.5, 0.99, 0.999, 0.9999, 0.99999], last=1_000_000):
                above = answer.n - answer.target
                rank = int(np.searchsorted(window, answer.value, side="right"))
                assert answer.n == 1_000_000
                assert abs(rank - answer.target) <= answer.error * answer.n <= min(500, 0.005 * above) + 0.5


@pytest.mark.parametrize("scope", [{}, {"last": 60_000}, {"within": 3000}])
def test_monitors_have_the_tail(tmp_path: Path, scope: dict[str, Any], rng: Rng) -> None:
    """Queries and alarms at p99.9 are precise and right, over all data and over windows."""
    values, times = rng.lognormal(0, 2, 80_000), np.arange(80_000) / 20
    phis = [0.0005, 0.5, 0.999, 0.9999]
    with History(tmp_path, EPS) as history:
        history.append(values[:40_000], times=times[:40_000])
        history.end_step()
        with LiveStream(tmp_path) as live:
            monitor = live.monitor(**scope)
            tail = TAIL if scope else 2 * TAIL
            assert monitor.tail == pytest.approx(tail)
            ids = monitor.register_many(phis)
            for start in (40_000, 50_000, 70_000):
                history.append(values[start : start + 10_000], times=times[start : start + 10_000])
                live.poll()
                data = np.concatenate((values[:40_000], values[40_000 : start + 10_000]))
                if start == 70_000:
                    data = np.concatenate((values[:60_000], values[70_000:]))
                n = live.summary(**scope).n
                in_order = np.sort(data[-n:])
                assert monitor.n == n
                limits = {p: in_order[int(p * n)] for p in (0.99, 0.9999)}
                above = monitor.watch(0.999, above=float(limits[0.99]))
                below = monitor.watch(0.999, above=float(limits[0.9999]))
                assert monitor.condition(above) == "certain"
                assert monitor.condition(below) == "no"
                for phi, answer in zip(phis, monitor.answers(ids), strict=True):
                    allowed = min(monitor.eps, tail * phi, tail * (1 - phi)) * n + 0.5
                    assert answer.error * n <= allowed + 1e-6
                    first = np.searchsorted(in_order, answer.value, "left") + 1
                    last = np.searchsorted(in_order, answer.value, "right")
                    assert max(first - answer.target, answer.target - last, 0) <= answer.error * n + 1e-6
