"""What windows hold at most over a large window, beside what the papers' structures may; answers are recounted."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import windows_bounds as bounds
from benchmarks.data import targets
from benchmarks.report import Row, say
from benchmarks.windows_settings import Settings
from quantide import RecentWindow, SlidingWindow

PHIS = np.array([0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999])


def space(settings: Settings) -> list[Row]:
    """Values are made block by block; what is held is counted after every block once the window is full."""
    size = settings.space_size
    say(f"windows: {settings.space_values:,} values through windows of {size:,}")
    rows: list[Row] = []
    windows: list[Any] = []
    for eps in settings.epsilons:
        for name, window, bound in (
            ("SlidingWindow", SlidingWindow(size, eps), bounds.sliding(eps, size)),
            ("RecentWindow", RecentWindow(eps, max_items=size), bounds.recent(eps, size)),
        ):
            rows.append({"window": name, "eps": eps, "size": size, "tuples": 0, "bytes": 0, "paper_tuples": bound})
            windows.append(window)
    fed = 0
    for values in _everything(settings):
        fed += len(values)
        for row, window in zip(rows, windows, strict=True):
            window.update(values)
            if fed >= size:
                row["tuples"], row["bytes"] = max(row["tuples"], window.tuples), max(row["bytes"], window.nbytes)
    for row in rows:
        row["paper_bytes"] = row["paper_tuples"] * bounds.TUPLE_BYTES
        row["ratio"] = row["tuples"] / row["paper_tuples"]
        row["bytes_ratio"] = row["bytes"] / row["paper_bytes"]
    asked = [one for row, window in zip(rows, windows, strict=True) for one in _ask(row, window, settings)]
    for (row, _, _), error in zip(asked, _errors(asked, settings), strict=True):
        row["error"] = max(row.get("error", 0.0), error)
    return rows


Asked = tuple[Row, int, NDArray[np.float64]]  # a window, the last so many values of it, and what was answered


def _everything(settings: Settings) -> Iterator[NDArray[np.float64]]:
    for at in range(0, settings.space_values, settings.block):
        size = min(settings.block, settings.space_values - at)
        yield np.random.default_rng([8, at]).normal(np.sin(at / 3e7), size=size)


def _ask(row: Row, window: Any, settings: Settings) -> Iterator[Asked]:
    if row["window"] == "SlidingWindow":
        yield row, settings.space_size, np.asarray(window.quantiles(PHIS))
        return
    for span in settings.space_spans:
        yield row, span, np.asarray(window.quantiles(PHIS, last=span))


def _errors(asked: list[Asked], settings: Settings) -> list[float]:
    """The largest rank error of each answer as a fraction of its window; every value is made again and counted."""
    say("windows: every value is made again and counted")
    below, upto = (np.zeros((len(asked), len(PHIS)), dtype=np.int64) for _ in range(2))
    at = 0
    for values in _everything(settings):
        ordered = np.sort(values)
        for i, (_, span, found) in enumerate(asked):
            outside = settings.space_values - span - at
            if outside < len(values):
                kept = ordered if outside <= 0 else np.sort(values[outside:])
                below[i] += np.searchsorted(kept, found, side="left")
                upto[i] += np.searchsorted(kept, found, side="right")
        at += len(values)
    return [_error(span, *counts) for (_, span, _), *counts in zip(asked, below, upto, strict=True)]


def _error(span: int, below: NDArray[np.int64], upto: NDArray[np.int64]) -> float:
    if not (upto > below).all():
        raise AssertionError(f"an answer about the last {span} values is none of them")
    target = targets(PHIS, span)
    return float(np.maximum(below + 1 - target, target - upto).max(initial=0) / span)
