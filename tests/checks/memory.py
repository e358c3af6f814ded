"""Memory is counted in full, and bounded."""

from __future__ import annotations

from array import array
from collections import deque
from typing import Any

import numpy as np

from tests.checks.kind import Kind, Rng, Sketch
from tests.checks.verify import chop, feed
from tests.orders import Order


def check_memory(kind: Kind, order: Order, rng: Rng) -> None:
    """`nbytes` counts every array the sketch references, and stays within the documented bound."""
    for eps, n in ((0.1, 50_000), (0.02, 30_000)):
        sketch: Sketch = kind.make(eps)
        verify_memory(kind, sketch, eps)
        for block in chop(order(rng, n), rng, 9000):
            feed(sketch, block)
            verify_memory(kind, sketch, eps)
            if sketch.n and rng.random() < 0.3:
                sketch.quantile(0.5)
                sketch.summary()
                verify_memory(kind, sketch, eps)
        verify_memory(kind, type(sketch).from_bytes(sketch.to_bytes()), eps)


def verify_memory(kind: Kind, sketch: Sketch, eps: float, merged: bool = False) -> None:
    assert sketch.nbytes >= held_nbytes(sketch)
    if kind.max_nbytes is not None:
        assert sketch.nbytes <= kind.max_nbytes(eps, sketch.n, 8, merged)


def held_nbytes(root: object) -> int:
    """Return the bytes of all arrays reachable from an object; each owner counts once and in full."""
    seen: set[int] = set()
    todo: list[Any] = [root]
    total = 0
    while todo:
        thing = todo.pop()
        while isinstance(thing, np.ndarray) and isinstance(thing.base, np.ndarray):
            thing = thing.base
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            total += thing.nbytes
        elif isinstance(thing, dict):
            todo += thing.values()
        elif isinstance(thing, list | tuple | set | deque):
            todo += thing
        elif isinstance(thing, array):
            total += thing.itemsize * len(thing)
        elif any(cls.__module__.startswith("quantide") for cls in type(thing).__mro__):
            slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
            todo += [getattr(thing, name) for name in slots if hasattr(thing, name)]
            todo += list(getattr(thing, "__dict__", {}).values())
    return total
