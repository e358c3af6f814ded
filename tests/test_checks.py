"""Every class, crossed with every check and every order. A new class is tested by being listed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from quantide import GKSketch, RecentWindow, SlidingWindow, StreamSketch
from quantide.queries.marked_sketch import MarkedSketch
from tests.checks import all_checks
from tests.checks.kind import Kind, applies, takes_order
from tests.orders import ORDERS, Floats, Order
from tests.windows.small_windows import BucketWindow, SmallRecentWindow

WHOLE_STREAM = frozenset({"merge", "update_summary", "the ends are exact"})

ANY_BLOCKS = frozenset({"same bytes whatever the blocks"})
ALL = 100_000  # more than any check feeds
SOME = ("few_distinct", "nested")  # orders that `make test` tries on every kind; `make test-all` tries all


def newest(size: int) -> Callable[[Floats], Floats]:
    """Return the values that a window of so many values covers."""
    return lambda fed: fed[-size:]


# Those that promise update_summary cover everything the checks feed: no block lies across their start.
WINDOWS = [
    Kind(
        "SlidingWindow",
        partial(SlidingWindow, ALL),
        ANY_BLOCKS | {"update_summary", "the ends are exact"},
    ),
    Kind(
        "SlidingWindow of 130",
        partial(SlidingWindow, 130),
        ANY_BLOCKS | {"the ends are exact"},
        newest(130),
    ),
    Kind("BucketWindow", partial(BucketWindow, ALL), ANY_BLOCKS | {"update_summary"}),
    Kind("BucketWindow of 2300", partial(BucketWindow, 2300), ANY_BLOCKS, newest(2300), more_orders=2),
    Kind("RecentWindow", RecentWindow, ANY_BLOCKS | {"update_summary"}),
    Kind("SmallRecentWindow", SmallRecentWindow, ANY_BLOCKS | {"update_summary"}),
    Kind("SmallRecentWindow of 130", partial(SmallRecentWindow, max_items=130), ANY_BLOCKS, newest(130)),
    Kind(
        "SmallRecentWindow of 2300",
        partial(SmallRecentWindow, max_items=2300),
        ANY_BLOCKS,
        newest(2300),
        more_orders=2,
    ),
]

KINDS = [
    Kind(
        "StreamSketch",
        StreamSketch,
        WHOLE_STREAM | {"same bytes whatever the blocks", "any number of merges"},
        max_nbytes=StreamSketch.max_nbytes,
        more_orders=3,
    ),
    Kind("GKSketch", GKSketch, WHOLE_STREAM, more_orders=2),
    *WINDOWS,
    Kind("MarkedSketch", MarkedSketch, WHOLE_STREAM - {"merge"}),
]
PAIRS = [(kind, check) for kind in KINDS for check in all_checks() if applies(check, kind)]
OTHERS = [order for order in ORDERS if order not in SOME]


def fast_orders(kind: Kind, number: int) -> set[str]:
    """Return the orders that `make test` tries on a pair: some always, others in turn, so that no order is left out."""
    first = number * kind.more_orders
    return {*SOME, *(OTHERS[(first + i) % len(OTHERS)] for i in range(kind.more_orders))}


ORDERED = [
    pytest.param(
        kind,
        check,
        ORDERS[order],
        id=f"{kind.name}-{check.__name__}-{order}",
        marks=() if order in fast_orders(kind, number) else pytest.mark.slow,
    )
    for number, (kind, check) in enumerate(pair for pair in PAIRS if takes_order(pair[1]))
    for order in ORDERS
]
ONCE = [
    pytest.param(kind, check, id=f"{kind.name}-{check.__name__}") for kind, check in PAIRS if not takes_order(check)
]


@pytest.mark.parametrize(("kind", "check", "order"), ORDERED)
def test_on_every_order(kind: Kind, check: Callable[..., None], order: Order, rng: np.random.Generator) -> None:
    check(kind, order, rng)


@pytest.mark.parametrize(("kind", "check"), ONCE)
def test_once(kind: Kind, check: Callable[..., None], rng: np.random.Generator) -> None:
    check(kind, rng)
