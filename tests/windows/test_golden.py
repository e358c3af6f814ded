"""Bytes of windows written by version 0.1 are read, and written identically."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantide import ConstrainedWindow, RecentWindow

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "median", "clamped", "newest"),
    [
        ("seconds", 5.0, 1, 11.0),
        ("timestamp", 1.0, 0, np.datetime64("2026-03-01", "ns")),
        ("untimed", 1.0, 0, None),
    ],
)
def test_bytes_of_recent_windows(name: str, median: float, clamped: int, newest: object) -> None:
    data = (GOLDEN / f"{name}.bin").read_bytes()
    window = RecentWindow.from_bytes(data)
    assert float(window.quantile(0.5)) == median
    assert (window.clamped, window.newest) == (clamped, newest)
    assert window.to_bytes() == data


def test_bytes_of_a_constrained_window() -> None:
    window = ConstrainedWindow.from_bytes((GOLDEN / "constrained.bin").read_bytes())
    assert (window.n, float(window.quantile(0.5)), window.newest) == (6, 2.0, 5.0)
