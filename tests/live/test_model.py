"""Every window of every kind of store, against exact answers over all rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantide.live import LiveStream
from tests.history.history_model import KINDS, SHAPES
from tests.live.live_model import Grown, Key, Rng, check, small

HOSTS: list[Key] = [("a",), ("b",), ("c",), (None,)]
PAIRS: list[Key] = [("a", 1), ("a", 2), ("b", 1), (None, 1), ("b", None), (None, None)]
ONES: list[Key] = [(1,), (2,), (-7,)]

ORDERS: dict[str, Any] = {
    "rising": lambda rng, n, at: at + np.sort(rng.integers(0, 3 * n, n)),
    "shuffled": lambda rng, n, at: rng.integers(0, 50, n),
    "falling": lambda rng, n, at: -at - np.arange(n),
    "equal": lambda rng, n, at: np.full(n, 5),
    "late": lambda rng, n, at: np.where(rng.random(n) < 0.3, rng.integers(0, at + 1, n), at + np.arange(n)),
    "far": lambda rng, n, at: rng.choice([-9000, 0, 9000], n),
    "one": lambda rng, n, at: int(at + rng.integers(-3, 3)),
}

STORES: dict[str, dict[str, Any]] = {
    "plain": {},
    "float32": {"kind": "float32", "filters": ["f"]},
    "int64": {"kind": "int64", "times": "naive"},
    "timestamps": {"kind": "timestamp[us]", "times": "zoned", "filters": ["f", "g"]},
    "zoned": {"kind": "timestamp[us, tz=UTC]", "times": "date"},
    "decimals": {"kind": "decimal[2]", "times": "date", "filters": ["f"]},
    "keyed": {"keys": ["host"], "filters": ["f", "g"]},
    "pairs": {"keys": ["host", "zone"], "times": "naive", "filters": ["f"]},
    "numbers": {"keys": ["id"], "kind": "int64", "times": "zoned"},
    "untimed": {"times": None, "filters": ["f"]},
    "untimed keys": {"times": None, "keys": ["host"]},
}
KEYS: dict[tuple[str, ...], list[Key]] = {("host",): HOSTS, ("host", "zone"): PAIRS, ("id",): ONES}


def grow(grown: Grown, rng: Rng, order: str, rows: int, at: int, gap: float = 0.0) -> None:
    """One append, or sometimes a way in that leaves no recent rows."""
    whole = SHAPES[str(rng.choice(list(SHAPES)))](rng, rows)
    keys: Sequence[Key] = ()
    if grown.columns:
        known = KEYS[grown.columns]
        keys = [known[i] for i in (np.zeros(rows, int) if not grown.model.n else rng.integers(0, len(known), rows))]
    if rng.random() < gap:
        grown.append_files(whole, keys)
        return
    when = ORDERS[order](rng, rows, at) if grown.timed else None
    filters = {name: rng.random(rows) < rng.choice([0, 0.2, 0.5, 1]) for name in grown.model.filters}
    grown.append(whole, when, keys, **filters)


def run(
    path: Path, rng: Rng, store: str, order: str, batches: int, gap: float = 0.0, eps: float = 0.05, **other: Any
) -> None:
    """Grow a store; a polling reader and, in the end, a new one give the same answers."""
    grown = Grown(path, eps=eps, **STORES[store], **other)
    live = LiveStream(path, follow=False, memory="100 KB")
    at = 0
    for number in range(batches):
        rows = int(rng.choice([1, 2, 7, 30, 70]))
        grow(grown, rng, order, rows, at, gap)
        at += rows
        if rng.random() < 0.25:
            grown.end_step(wait=bool(rng.integers(2)))
        if rng.random() < 0.3:
            grown.history.vacuum(0)
        if number % 4 == 3:
            live.poll()
            check(live, grown.model, rng, questions=1, windows=3)
    grown.settle()
    live.poll()
    late = LiveStream(path, follow=False, memory=1)
    for one in (live, late):
        one.poll()
        check(one, grown.model, np.random.default_rng(batches), windows=4)
    grown.history.verify()
    grown.history.close()


# Stores left out here share their type, or the lack of times, with others; test_every_store_and_order has all.
ALIKE = ("float32", "int64", "zoned", "untimed keys")


@pytest.mark.parametrize(
    "store", [pytest.param(store, marks=pytest.mark.slow if store in ALIKE else ()) for store in STORES]
)
def test_every_store(store: str, tmp_path: Path, rng: Rng) -> None:
    with small():
        run(tmp_path / "store", rng, store, str(rng.choice(["rising", "late", "shuffled"])), 9)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_of_times(order: str, tmp_path: Path, rng: Rng) -> None:
    with small():
        run(tmp_path / "store", rng, str(rng.choice(["keyed", "plain", "timestamps"])), order, 7)


@pytest.mark.parametrize("store", ["plain", "keyed", "untimed"])
def test_rows_that_left_nothing_for_windows(store: str, tmp_path: Path, rng: Rng) -> None:
    with small():
        run(tmp_path / "store", rng, store, "late", 9, gap=0.25)


@pytest.mark.parametrize("eps", [0.001, 0.01, 0.3])
def test_every_precision(eps: float, tmp_path: Path, rng: Rng) -> None:
    with small(heavy=8 if eps > 0.1 else 0.02):
        run(tmp_path / "store", rng, "keyed", "late", 7, eps=eps)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_every_kind_of_value(kind: str, tmp_path: Path, rng: Rng) -> None:
    with small():
        run(tmp_path / "store", rng, "keyed", "late", 20, kind=kind)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("store", STORES)
def test_every_store_and_order(store: str, order: str, tmp_path: Path, rng: Rng) -> None:
    for number in range(3):
        sizes: dict[str, Any] = {
            "fan": int(rng.integers(2, 9)),
            "few": int(rng.choice([1, 16, 100])),
            "block": int(rng.choice([1, 5, 32])),
            "heavy": float(rng.choice([0.01, 0.3, 2])),
            "most": int(rng.choice([5, 60, 1000])),
        }
        eps = float(rng.choice([0.001, 0.02, 0.05, 0.3]))
        with small(**sizes):
            run(tmp_path / str(number), rng, store, order, 30, gap=float(rng.choice([0, 0.1])), eps=eps)
