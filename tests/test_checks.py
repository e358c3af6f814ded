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
from tests.windows.small import BucketWindow, SmallRecentWindow

WHOLE_STREAM = frozenset({"merge", "update_summary", "the ends are exact"})

ANY_BLOCKS = frozenset({"same bytes whatever the blocks"})
ALL = 100_000  # more than any check feeds
# The orders that are tried by `make test` on kinds whose parts others try in full; `make test-all` tries all.
SOME = ("uniform", "few_distinct", "nested")
MORE = (*SOME, "infinities", "descending", "zigzag", "beside_samples")


def newest(size: int) -> Callable[[Floats], Floats]:
    """What a window of a number of values covers."""
    return lambda fed: fed[-size:]


# Those that promise update_summary cover everything the checks feed: no block lies across their start.
WINDOWS = [
    Kind(
        "SlidingWindow",
        partial(SlidingWindow, ALL),
        ANY_BLOCKS | {"update_summary", "the ends are exact"},
        orders=SOME,
    ),
    Kind(
        "SlidingWindow of 130",
        partial(SlidingWindow, 130),
        ANY_BLOCKS | {"the ends are exact"},
        newest(130),
        orders=SOME,
    ),
    Kind("BucketWindow", partial(BucketWindow, ALL), ANY_BLOCKS | {"update_summary"}, orders=SOME),
    Kind("BucketWindow of 2300", partial(BucketWindow, 2300), ANY_BLOCKS, newest(2300), orders=MORE),
    Kind("RecentWindow", RecentWindow, ANY_BLOCKS | {"update_summary"}, orders=SOME),
    Kind("SmallRecentWindow", SmallRecentWindow, ANY_BLOCKS | {"update_summary"}, orders=SOME),
    Kind("SmallRecentWindow of 130", partial(SmallRecentWindow, max_items=130), ANY_BLOCKS, newest(130), orders=SOME),
    Kind(
        "SmallRecentWindow of 2300",
        partial(SmallRecentWindow, max_items=2300),
        ANY_BLOCKS,
        newest(2300),
        orders=MORE,
    ),
]

KINDS = [
    Kind(
        "StreamSketch",
        StreamSketch,
        WHOLE_STREAM | {"same bytes whatever the blocks", "any number of merges"},
        max_nbytes=StreamSketch.max_nbytes,
    ),
    Kind("GKSketch", GKSketch, WHOLE_STREAM),
    *WINDOWS,
    Kind("MarkedSketch", MarkedSketch, WHOLE_STREAM - {"merge"}, orders=SOME),
]
PAIRS = [(kind, check) for kind in KINDS for check in all_checks() if applies(check, kind)]


ORDERED = [
    pytest.param(
        kind,
        check,
        ORDERS[order],
        id=f"{kind.name}-{check.__name__}-{order}",
        marks=() if order in kind.orders else pytest.mark.slow,
    )
    for order in ORDERS
    for kind, check in PAIRS
    if takes_order(check)
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
