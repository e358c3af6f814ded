"""Windows of panes: counts and quantiles against sorted windows, for rows in every order, and for bands that miss."""

from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantide.kernels.pane_scan import find_pane
from quantide.live import pane_rows, time_panes
from quantide.live.pane_rows import PaneRows, find_time_ranges
from quantide.live.recent_snapshot import TimeInterval
from quantide.live.time_panes import PaneQuantiles, TimePanes
from quantide.summary.ranks import target_ranks
from tests import oracle
from tests.sampling import one_in

Rng = np.random.Generator
PHIS = np.array([0.0, 0.01, 0.5, 0.9, 1.0])


@dataclass(frozen=True)
class MemoryFile:
    """Rows in memory with the methods of a recent file."""

    all_values: Any
    all_times: Any
    flags: Any

    @property
    def info(self) -> Any:
        return SimpleNamespace(oldest=self.all_times.min(), newest=self.all_times.max())

    @property
    def time_type(self) -> Any:
        return self.all_times.dtype

    def values(self, rows: slice) -> Any:
        return self.all_values[rows]

    def times(self, rows: slice) -> Any:
        return self.all_times[rows]

    def satisfies(self, rows: slice, filter: str) -> Any:
        return self.flags[rows]


def make_values(rng: Rng, n: int, carrier: str, drift: float) -> Any:
    values = rng.normal(0, rng.choice([1, 50, 1e6]), n) + drift * np.arange(n)
    values = np.round(values).astype(carrier)
    if carrier != "int64" and rng.random() < 0.3:
        values[rng.integers(0, n, 5)] = rng.choice([np.inf, -np.inf], 5)
    if carrier == "int64" and rng.random() < 0.3:
        values[rng.integers(0, n, 5)] = rng.choice([2**63 - 1, -(2**63)], 5)
    return values


def make_times(rng: Rng, n: int, clock: str, order: str) -> Any:
    times = np.sort(rng.integers(0, 1000, n))
    if order == "late":
        times = np.maximum(0, times - rng.integers(0, 30, n) * (rng.random(n) < 0.3))
    elif order == "random":
        rng.shuffle(times)
    elif order == "keys":  # each key in order, one after the other
        times = np.concatenate([np.sort(part) for part in np.array_split(rng.permutation(times), 4)])
    elif order == "constant":
        times[:] = 500
    return times.astype(clock)


def make_windows(rng: Rng, clock: str) -> list[TimeInterval]:
    """Return windows that overlap, touch or leave gaps, some of them empty, the last perhaps without an end."""
    step, span = int(rng.integers(1, 60)), int(rng.integers(0, 200))
    moments = np.arange(int(rng.integers(-50, 300)), 1100, step).astype(clock)[: int(rng.integers(1, 60))]
    ends = [None if moment >= 1000 else moment.item() for moment in moments]
    return [TimeInterval(moment.item() - span, end) for moment, end in zip(moments, ends, strict=True)]


def divide(
    panes: TimePanes, values: Any, times: Any, flags: Any, filter: str | None, cuts: list[int]
) -> list[PaneRows]:
    """Return parts of rows, each in a file of its own and behind rows of other keys."""
    parts = []
    for some in np.split(np.arange(len(values)), cuts):
        if len(some):
            columns = [np.concatenate([column[:3], column[some]]) for column in (values, times, flags)]
            file: Any = MemoryFile(*columns)
            rows = slice(len(columns[0]) - len(some), len(columns[0]))
            ranges = find_time_ranges(file, rows)
            parts.append(PaneRows(file, rows, filter, *(np.searchsorted(panes.edges, one) for one in ranges)))
    return parts


@pytest.mark.parametrize(
    ("order", "carrier", "clock", "bands"),
    one_in(
        7,
        product(
            ["ascending", "late", "random", "keys", "constant"],
            ["float64", "float32", "int64"],
            ["float64", "int64"],
            ["none", "usual", "narrow"],
        ),
    ),
)
def test_every_window_is_exact(
    order: str, carrier: str, clock: str, bands: str, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bands != "none":
        monkeypatch.setattr(time_panes, "SHORT", 20)
        monkeypatch.setattr(time_panes, "LEAST_ROWS", 200)
    if bands == "narrow":  # most targets are beside the band, on either side
        for name, value in {
            "SAMPLE_ROWS": 8,
            "SHARE": 3,
            "SAMPLE_WINDOWS": 1,
            "DEVIATIONS": 0,
            "LEAST_MARGIN": 0,
        }.items():
            monkeypatch.setattr(time_panes, name, value)
    for _ in range(6):
        monkeypatch.setattr(pane_rows, "PANE_BLOCK", int(rng.choice([1, 7, 64, 512])))
        n = int(rng.integers(1, 4000))
        values, times = (
            make_values(rng, n, carrier, float(rng.choice([0, 0.01, 100]))),
            make_times(rng, n, clock, order),
        )
        flags, filter = rng.random(n) < 0.4, "f" if rng.random() < 0.3 else None
        windows = make_windows(rng, clock)
        panes = TimePanes.of(windows, np.dtype(clock))
        parts = divide(panes, values, times, flags, filter, sorted(rng.integers(0, n + 1, 2).tolist()))
        quantiles = PaneQuantiles(panes, parts, np.dtype(carrier))
        chosen = quantiles.select(PHIS, target_ranks(PHIS[:, None], quantiles.sizes) - 1)
        assert chosen is not None
        assert panes.window_sums(panes.count(parts)).tolist() == quantiles.sizes.tolist()
        for k, window in enumerate(windows):
            inside = window.mask(times) & (flags if filter else True)
            exact = np.sort(values[inside])
            assert quantiles.sizes[k] == len(exact)
            if len(exact):
                expected = [exact[oracle.target_rank(phi, len(exact)) - 1] for phi in PHIS]
                assert chosen[:, k].tolist() == expected


@pytest.mark.parametrize("room", [0, 40, 100, 300])
def test_bands_of_too_many_values_are_halved_or_given_up(room: int, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHORT": 20, "MAX_GATHERED": room}.items():
        monkeypatch.setattr(time_panes, name, value)
    n, gave_up = 3000, 0
    for drift in (0.0, 1.0, 100.0):
        values, times = make_values(rng, n, "float64", drift), make_times(rng, n, "int64", "late")
        windows = [TimeInterval(moment - 100, moment) for moment in range(100, 1000, 20)]
        panes = TimePanes.of(windows, np.dtype(np.int64))
        parts = divide(panes, values, times, times > 0, None, [])
        quantiles = PaneQuantiles(panes, parts, np.dtype(np.float64))
        chosen = quantiles.select(PHIS, target_ranks(PHIS[:, None], quantiles.sizes) - 1)
        gave_up += chosen is None
        if chosen is not None:
            for k, window in enumerate(windows):
                exact = np.sort(values[window.mask(times)])
                assert chosen[:, k].tolist() == [exact[oracle.target_rank(phi, len(exact)) - 1] for phi in PHIS]
    if room in (0, 300):  # in between it depends on the values
        assert gave_up == (3 if room == 0 else 0)


def test_a_window_with_most_of_the_rows_among_small_ones(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHORT": 20, "MAX_GATHERED": 400}.items():
        monkeypatch.setattr(time_panes, name, value)
    times = np.concatenate([np.full(1000, 1), np.arange(10, 2000)])
    values = rng.normal(size=len(times))
    windows = [TimeInterval(moment - 10, moment) for moment in range(0, 2000, 10)]
    panes = TimePanes.of(windows, np.dtype(np.int64))
    quantiles = PaneQuantiles(panes, divide(panes, values, times, times > 0, None, []), np.dtype(np.float64))
    assert quantiles.sizes.mean() < 20 < 400 < quantiles.sizes.max()
    chosen = quantiles.select(PHIS, target_ranks(PHIS[:, None], quantiles.sizes) - 1)
    assert chosen is not None
    for k, window in enumerate(windows):
        exact = np.sort(values[window.mask(times)])
        expected = [exact[oracle.target_rank(phi, len(exact)) - 1] for phi in PHIS if len(exact)]
        assert chosen[: len(expected), k].tolist() == expected


def test_rows_far_from_every_window_are_not_scanned() -> None:
    times = np.arange(100_000)
    panes = TimePanes.of([TimeInterval(end - 10, end) for end in range(90_010, 90_100, 10)], np.dtype(np.int64))
    parts = divide(panes, times * 1.0, times, times > 0, None, [])
    assert PaneQuantiles(panes, parts, np.dtype(np.float64)).scanned_rows(5) < 3 * pane_rows.PANE_BLOCK


def test_much_overlap_costs_little_more_than_a_scan_for_each_phi() -> None:
    times = np.arange(1_000_000)
    ends = range(100_000, 1_000_000, 1000)
    panes = TimePanes.of([TimeInterval(end - 100_000, end) for end in ends], np.dtype(np.int64))
    parts = divide(panes, times * 1.0, times, times > 0, None, [])
    quantiles = PaneQuantiles(panes, parts, np.dtype(np.float64))
    assert quantiles.scanned_rows(2) == 2 * quantiles.scanned_rows(1) < 3 * len(times) < quantiles.sizes.sum() / 20


def test_the_time_limit_ends_counting() -> None:
    times = np.arange(100)
    panes = TimePanes.of([TimeInterval(0, 50), TimeInterval(50, 100)], np.dtype(np.int64))
    parts = divide(panes, times * 1.0, times, times > 0, None, [40])
    calls = list[int]()

    def check_time() -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        PaneQuantiles(panes, parts, np.dtype(np.float64), check_time)
    assert len(calls) == len(parts) == 2


def test_the_pane_of_a_time_is_found_from_any_guess() -> None:
    edges = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
    for time in (0.0, 1.0, 1.5, 2.0, 33.0, 128.0, 129.0, np.inf, -np.inf):
        for guess in range(len(edges) + 1):
            assert find_pane(time, guess, edges) == np.searchsorted(edges, time)
