"""Bands of accurate answers: runs, and an open step of which less is known, that lies like the runs or beside them."""

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide.live import LiveStream
from quantide.live.live_view import LiveHistoryView
from quantide.live.scope import QueryScope
from tests.live.live_model import Grown, Rng, small

OPEN: dict[str, Any] = {
    "alike": lambda rng, n: rng.integers(0, 10_000, n),
    "above": lambda rng, n: rng.integers(9_000, 12_000, n),
    "below": lambda rng, n: rng.integers(-2_000, 1_000, n),
    "in the middle": lambda rng, n: rng.integers(4_900, 5_100, n),
    "ties": lambda rng, n: rng.choice([-5, 2_000, 2_001, 20_000], n),
}


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        *((100, shape) for shape in OPEN),
        *(pytest.param(1, shape, marks=() if shape == "alike" else pytest.mark.slow) for shape in OPEN),
    ],
)
def test_every_rank_is_in_its_band(shape: str, rows: int, tmp_path: Path, rng: Rng) -> None:
    with small():
        grown = Grown(tmp_path, eps=0.4)
        for _ in range(3):
            grown.append(rng.integers(0, 10_000, 150), 0)
            grown.end_step()
        grown.append(OPEN[shape](rng, rows), 0)
        live = LiveStream(grown.path, follow=False)
        data = np.sort(grown.model.steps(None, None))
        view = live._view(QueryScope())
        assert isinstance(view, LiveHistoryView)
        n, gap = len(data), view.stored.open_step.gap + 1
        assert gap == (5 if rows > 1 else 1)
        ranks = np.unique([*range(1, 9), *range(n - 8, n + 1), *rng.integers(1, n + 1, 40)])
        for rank, band in zip(ranks.tolist(), live.bands(ranks / n, mode="accurate"), strict=True):
            assert band.answer.target == rank
            assert band.low <= data[rank - 1] <= band.high
            assert band.low <= band.answer.value <= band.high
            last_low, first_high = bisect_right(data, band.low), bisect_left(data, band.high) + 1
            assert data[last_low - 1] == band.low
            assert data[first_high - 1] == band.high
            assert rank - last_low < gap, "runs make no band wider"
            assert first_high - rank < gap
        live.close()
        grown.history.close()
