"""Every class, crossed with every check and every order. A new class is tested by being listed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantide import GKSketch, StreamSketch
from quantide.queries.source import MarkedSketch
from tests.checks import Kind, all_checks, applies, takes_order
from tests.orders import ORDERS

pytestmark = pytest.mark.usefixtures("no_hang")

WHOLE_STREAM = frozenset({"merge", "update_summary", "the ends are exact"})

KINDS = [
    Kind(
        "StreamSketch",
        StreamSketch,
        WHOLE_STREAM | {"same bytes whatever the blocks", "any number of merges"},
        max_nbytes=StreamSketch.max_nbytes,
    ),
    Kind("GKSketch", GKSketch, WHOLE_STREAM),
    Kind("MarkedSketch", MarkedSketch, WHOLE_STREAM - {"merge"}),
]
PAIRS = [(kind, check) for kind in KINDS for check in all_checks() if applies(check, kind)]


def _named(pairs: list[tuple[Kind, Callable[..., None]]]) -> list[object]:
    return [pytest.param(kind, check, id=f"{kind.name}-{check.__name__}") for kind, check in pairs]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("kind", "check"), _named([pair for pair in PAIRS if takes_order(pair[1])]))
def test_on_every_order(kind: Kind, check: Callable[..., None], order: str, rng: np.random.Generator) -> None:
    check(kind, ORDERS[order], rng)


@pytest.mark.parametrize(("kind", "check"), _named([pair for pair in PAIRS if not takes_order(pair[1])]))
def test_once(kind: Kind, check: Callable[..., None], rng: np.random.Generator) -> None:
    check(kind, rng)
