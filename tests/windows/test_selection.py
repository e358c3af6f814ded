"""Selection of a rank among stored values: the value that sorting them would give, and the answer of a view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantide import SlidingWindow
from quantide.kernels import band_selection
from quantide.kernels.band_selection import select_rank

Rng = np.random.Generator
SHAPES: dict[str, Any] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "few values": lambda rng, n: rng.integers(0, 3, n).astype(float),
    "constant": lambda rng, n: np.full(n, 2.5),
    "rising": lambda rng, n: np.arange(n, dtype=float),
    "falling": lambda rng, n: -np.arange(n, dtype=float),
    "infinities": lambda rng, n: rng.choice([-np.inf, np.inf, 0.0, 1.0], n),
    "periodic, so that the sample misleads": lambda rng, n: np.where(np.arange(n) % 4 == 0, 0.0, rng.random(n) + 1),
    "two far apart": lambda rng, n: np.where(rng.random(n) < 0.5, -1e300, 1e300),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_ranks_of_sorted_values(shape: str, dtype: str, rng: Rng) -> None:
    for size in (1, 2, 31, 32, 33, 5000, 20_011):
        with np.errstate(all="ignore"):
            values = SHAPES[shape](rng, size)
            values = np.nan_to_num(values * 1000).astype(dtype) if dtype == "int64" else values.astype(dtype)
        cuts = np.sort(rng.integers(0, size + 1, 2))
        runs = [run for run in np.split(values, cuts) if len(run)]
        expected = np.sort(values)
        for rank in {1, size, (size + 1) // 2, max(1, int(0.99 * size)), *rng.integers(1, size + 1, 5).tolist()}:
            (found,) = select_rank(runs, rank)
            assert (found, found.dtype) == (expected[rank - 1], values.dtype)


def test_extreme_integers(rng: Rng) -> None:
    values = rng.choice(np.array([-(2**63), 2**63 - 1, 0]), 10_000)
    assert [select_rank([values], rank)[0] for rank in (1, 5000, 10_000)] == np.sort(values)[[0, 4999, 9999]].tolist()


def test_a_band_without_room_changes_nothing(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(band_selection, "ROOM", 50)
    monkeypatch.setattr(band_selection, "SHARE", 10**9)
    values = rng.normal(size=9000)
    for rank in (1, 4500, 8999, 9000):
        assert select_rank([values[:4000], values[4000:]], rank)[0] == np.sort(values)[rank - 1]


@pytest.mark.parametrize("value_type", ["float64", "float32", "int64", "timestamp[us]"])
def test_answers_are_those_of_a_view(value_type: str, rng: Rng) -> None:
    """One phi after a block is selected, many are not; both give the same answers."""
    phis = (0.0, 1e-9, 0.5, 0.99, 0.999, 1.0)
    dtype = "datetime64[us]" if value_type.startswith("timestamp") else value_type
    windows = [SlidingWindow(5000, 0.01, value_type=value_type) for _ in range(2)]
    for block in range(12):
        values = (rng.lognormal(size=1700) * 100).astype("int64").astype(dtype)
        for window in windows:
            window.update(values)
        windows[0].summary()  # a view, of which answers are then made
        for phi in (phis[block % 6], phis[(block + 1) % 6]):
            one, other = (window.answer(phi) for window in windows)
            assert (one, type(one.value)) == (other, type(other.value))
            assert windows[0].quantile(phi) == windows[1].quantile(phi) == other.value
    assert windows[0].to_bytes() == windows[1].to_bytes()
