"""What every sketch and window must keep; `tests/test_checks.py` crosses the checks with the classes.

A check is a function `check_*(kind, rng)`, or `check_*(kind, order, rng)` to be run on every order.
`@needs("merge")` keeps a check to the kinds that promise that much.
"""

from __future__ import annotations

import inspect
from array import array
from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quantide import Answer, Summary, errors
from tests import oracle
from tests.orders import ORDERS, Floats, Order, uniform

TINY = 1e-12  # what floating point may lose in an error that is a fraction
PHIS = np.concatenate([[1e-12, 1e-4], np.linspace(0.01, 1, 100)])
Rng = np.random.Generator


class Sketch(Protocol):
    """The verbs of every sketch."""

    @property
    def n(self) -> int: ...
    @property
    def eps(self) -> float: ...
    @property
    def error(self) -> float: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def nulls(self) -> int: ...
    @property
    def nans(self) -> int: ...
    def update(self, values: Any, nan: Any = None) -> Any: ...
    def update_summary(self, summary: Summary) -> Any: ...
    def merge(self, other: Self) -> Any: ...
    def quantile(self, phi: float) -> Any: ...
    def quantiles(self, phis: Any) -> Any: ...
    def answer(self, phi: float) -> Answer: ...
    def rank(self, value: Any) -> tuple[Any, Any]: ...
    def cdf(self, values: Any) -> Any: ...
    def summary(self) -> Summary: ...
    def to_bytes(self) -> bytes: ...
    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...


@dataclass(frozen=True)
class Kind:
    """A class under test: how to make one, and what it promises beyond what all promise.

    promises: "merge", "any number of merges" (in bounded memory), "update_summary",
    "same bytes whatever the blocks", "the ends are exact".
    covers: the part of everything fed that its answers speak of (a window: the last of it).
    max_nbytes: the documented bound, of (eps, n, itemsize).
    orders: those that `make test` tries; `make test-all` tries all.
    """

    name: str
    make: Callable[..., Any]
    promises: frozenset[str] = frozenset()
    covers: Callable[[Floats], Floats] = field(default=lambda fed: fed)
    max_nbytes: Callable[[float, int, int], int] | None = None
    orders: Container[str] = tuple(ORDERS)


Check = TypeVar("Check", bound=Callable[..., None])


def needs(promise: str) -> Callable[[Check], Check]:
    """Run a check only on kinds that promise this."""

    def mark(check: Check) -> Check:
        check.needs = promise  # type: ignore[attr-defined]
        return check

    return mark


def applies(check: Callable[..., None], kind: Kind) -> bool:
    """Whether a kind must pass a check."""
    promise = getattr(check, "needs", None)
    return promise is None or promise in kind.promises


def takes_order(check: Callable[..., None]) -> bool:
    """Whether a check is to be run on every order."""
    return "order" in inspect.signature(check).parameters


# --- what is verified at one moment -------------------------------------------------------------------------


def verify(kind: Kind, sketch: Sketch, fed: Floats, rng: Rng, deep: bool = False) -> None:
    """Everything a sketch says now, against everything it was fed."""
    data = np.sort(kind.covers(fed))
    assert sketch.n == len(data)
    assert sketch.error <= sketch.eps + TINY
    phis = np.concatenate([PHIS, rng.random(20), rng.integers(1, len(data) + 1, 20) / len(data)])
    phis = np.clip(phis, 1e-12, 1)
    assert oracle.wrong_answers(data, sketch.quantiles(phis), phis, sketch.eps) == []
    for phi in rng.choice(phis, 4):
        answer = sketch.answer(phi)
        assert oracle.bound_faults(data, answer) == []
        assert answer.error <= sketch.error + TINY
    verify_ranks(sketch, data, rng)
    if deep:
        summary = sketch.summary()
        assert oracle.summary_faults(summary, data, _lifted(kind)) == []
        assert summary.error <= sketch.eps + TINY


def _lifted(kind: Kind) -> bool:
    """Whether summaries may speak of elements that they know by number only."""
    return "the ends are exact" not in kind.promises


def verify_ranks(sketch: Sketch | Summary, data: Floats, rng: Rng) -> None:
    """Ranks are bounded by what is certified, and fractions are within the certified error."""
    some = rng.choice(data, 5)
    probes = np.concatenate([some, np.nextafter(some, -np.inf), some + 0.5, [-np.inf, 0.0, np.inf, data[0], data[-1]]])
    true = np.searchsorted(data, probes, side="right")
    low, high = sketch.rank(probes)
    assert np.all(low <= true)
    assert np.all(true <= high)
    assert np.all(high - low <= 2 * sketch.error * sketch.n + oracle.SLACK)
    assert np.all(np.abs(sketch.cdf(probes) - true / len(data)) <= sketch.error + TINY)
    one = sketch.rank(probes[0])
    assert (int(one[0]), int(one[1])) == (int(low[0]), int(high[0]))


def chop(values: npt.NDArray[Any], rng: Rng, largest: int) -> Iterator[npt.NDArray[Any]]:
    """The values in blocks of many sizes: ones, a few, an empty one, up to the largest."""
    start = 0
    while start < len(values):
        size = int(rng.choice([0, 1, 1, 2, 7, 100, largest // 3, largest]))
        yield values[start : start + size]
        start += size


def feed(sketch: Sketch, block: npt.NDArray[Any]) -> None:
    """A block as it is; short ones value by value, as numbers of Python or of numpy."""
    if len(block) > 7:
        sketch.update(block)
    for i, value in enumerate(block[:8] if len(block) <= 7 else []):
        sketch.update(value.item() if i % 2 else value)


def fed(kind: Kind, eps: float, values: Floats) -> Sketch:
    """A sketch that was given these values."""
    sketch: Sketch = kind.make(eps)
    sketch.update(values)
    return sketch


# --- the error stays within its bound -----------------------------------------------------------------------


def check_every_prefix(kind: Kind, order: Order, rng: Rng) -> None:
    """One value at a time, asked for every rank after each."""
    values = order(rng, 160)
    for eps in (0.3, 0.06):
        sketch: Sketch = kind.make(eps)
        for n, value in enumerate(values, start=1):
            sketch.update(value)
            data = np.sort(kind.covers(values[:n]))
            phis = np.arange(1, len(data) + 1) / len(data)
            assert sketch.n == len(data)
            assert sketch.error <= eps + TINY
            assert oracle.wrong_answers(data, sketch.quantiles(phis), phis, eps) == []
            if n % 16 == 1:
                verify(kind, sketch, values[:n], rng, deep=True)


def check_leaf_edges(kind: Kind, order: Order, rng: Rng) -> None:
    """Just before, at and just after every moment when blocks of 1024 close, and half way through them."""
    eps, values = 0.15, order(rng, 8 * 1024 + 2)
    sketch: Sketch = kind.make(eps)
    done = 0
    for edge in range(512, len(values), 512):
        for moment in (edge - 1, edge, edge + 1):
            sketch.update(values[done:moment])
            done = moment
            verify(kind, sketch, values[:done], rng, deep=edge % 1024 == 0)


def check_random_moments(kind: Kind, order: Order, rng: Rng) -> None:
    """Long streams in blocks of all sizes, so that many levels fill; asked at moments that fit no block."""
    for eps, n in ((0.2, 90_000), (0.05, 60_000), (0.02, 40_000)):
        values = order(rng, n)
        sketch: Sketch = kind.make(eps)
        moments = np.unique(rng.integers(1, n, 6))
        done = 0
        for moment in [*moments, n]:
            for block in chop(values[done:moment], rng, 12_000):
                feed(sketch, block)
            done = int(moment)
            verify(kind, sketch, values[:done], rng, deep=done == n)


def check_tiny_eps(kind: Kind, rng: Rng) -> None:
    """Any eps in (0, 1) is served, exactly if need be."""
    for eps in (1e-5, 1e-6, 1e-9, 1e-15, 2.0**-53):
        values = uniform(rng, 500)
        sketch = fed(kind, eps, values)
        assert sketch.error == 0
        assert sketch.quantile(0.5) == oracle.exact_quantile(kind.covers(values), 0.5)


def check_adversary(kind: Kind, rng: Rng) -> None:
    """An adversary reads the summary and puts the next values into its widest gap."""
    for eps, size in ((0.2, 1024), (0.1, 300), (0.05, 700)):
        sketch: Sketch = kind.make(eps)
        values = rng.integers(-(2**50), 2**50, 50).astype(np.float64)
        sketch.update(values)
        while len(values) < 40 * size:
            block = rng.permutation(_in_widest_gap(sketch.summary(), size))
            sketch.update(block)
            values = np.concatenate([values, block])
            if rng.random() < 0.2:
                verify(kind, sketch, values, rng)
        verify(kind, sketch, values, rng, deep=True)


def _in_widest_gap(s: Summary, size: int) -> Floats:
    """Values strictly between two neighbours of the summary, where it knows least and numbers are left."""
    wide = np.diff(s.values) / (size + 1) >= np.spacing(np.abs(s.values[1:]))
    for i in np.flatnonzero(wide)[np.argsort((s.rmin[:-1] - s.rmax[1:])[wide], kind="stable")]:
        block = np.linspace(s.values[i], s.values[i + 1], size + 2)[1:-1]
        if len(np.unique(block)) == size and s.values[i] < block[0] and block[-1] < s.values[i + 1]:
            return block
    return np.linspace(s.values[-1] + 1, s.values[-1] * 2 + 2 * size, size)


# --- merging and mixing -------------------------------------------------------------------------------------


@needs("merge")
def check_merge_trees(kind: Kind, order: Order, rng: Rng) -> None:
    """Sketches of parts of all sizes, merged in a random tree, speak of the whole; then life goes on."""
    for eps, n, parts in ((0.1, 3_000, 12), (0.2, 30_000, 9), (0.05, 40_000, 5)):
        values = order(rng, n)
        cuts = np.sort(rng.integers(0, n, parts))
        grove = [(fed(kind, eps, part), part) for part in np.split(values, cuts)]
        while len(grove) > 1:
            (left, ours), (right, theirs) = (grove.pop(int(rng.integers(len(grove)))) for _ in range(2))
            before = right.to_bytes()
            left.merge(right)
            assert right.to_bytes() == before
            right.update(values[:3000])
            grove.append((left, np.concatenate([ours, theirs])))
            if len(grove[-1][1]):
                verify(kind, left, grove[-1][1], rng)
        sketch, data = grove[0]
        verify(kind, sketch, data, rng, deep=True)
        more = order(rng, n // 3)
        sketch.update(more)
        verify(kind, sketch, np.concatenate([data, more]), rng, deep=True)
        _verify_memory(kind, sketch, eps)


@needs("merge")
def check_merge_chain(kind: Kind, rng: Rng) -> None:
    """One by one into the same sketch, many small ones into a large one and a large one into a small one."""
    eps, whole = 0.1, uniform(rng, 20_000)
    sketch = fed(kind, eps, whole[:5000])
    for start in range(5000, 15_000, 500):
        sketch.merge(fed(kind, eps, whole[start : start + 500]))
        verify(kind, sketch, whole[: start + 500], rng)
    small = fed(kind, eps, whole[15_000:])
    small.merge(sketch)
    verify(kind, small, whole, rng, deep=True)
    small.merge(small)
    verify(kind, small, np.concatenate([whole, whole]), rng, deep=True)
    empty: Sketch = kind.make(eps)
    empty.merge(small)
    small.merge(kind.make(eps))
    assert empty.n == small.n == 40_000
    verify(kind, empty, np.concatenate([whole, whole]), rng, deep=True)


@needs("any number of merges")
def check_merged_to_the_largest_count(kind: Kind, rng: Rng) -> None:
    """Merged with itself and with what it began as until 2^53 is near: every level that can ever be is reached."""
    for eps in (0.3, 0.05):
        data = np.sort(uniform(rng, 9_700))
        sketch, times = fed(kind, eps, data), 1
        while (2 * times + 1) * len(data) <= 2**53:
            sketch.merge(sketch)
            sketch.merge(fed(kind, eps, data))
            times = 2 * times + 1
            n = times * len(data)
            assert sketch.n == n
            assert sketch.error <= eps + TINY
            _verify_memory(kind, sketch, eps)
            for phi, value in zip(PHIS, sketch.quantiles(PHIS), strict=True):
                first, last = oracle.occupied(data, value)
                assert first <= last
                assert last * times >= (phi - eps - TINY) * n
                assert (first - 1) * times + 1 <= oracle.target_rank(phi, n) + (eps + TINY) * n


@needs("update_summary")
def check_summaries_mixed_in(kind: Kind, order: Order, rng: Rng) -> None:
    """Values, tiny summaries, coarse and large ones, other sketches' summaries, in any sequence."""
    for eps, n in ((0.2, 30_000), (0.05, 30_000)):
        values = order(rng, n)
        sketch: Sketch = kind.make(eps)
        done = 0
        while done < n:
            size = int(rng.choice([1, 3, 40, 900, 5000]))
            block = values[done : done + size]
            _mix_in(kind, sketch, eps, block, rng)
            done += len(block)
            if rng.random() < 0.15:
                verify(kind, sketch, values[:done], rng)
        verify(kind, sketch, values, rng, deep=True)
        _verify_memory(kind, sketch, eps)


def _mix_in(kind: Kind, sketch: Sketch, eps: float, block: Floats, rng: Rng) -> None:
    exact, coarse = Summary.of(block), Summary.of(block).compress(int(np.ceil(1.01 / eps)))
    way = int(rng.integers(5))
    if way == 0:
        sketch.update(block)
    elif way == 1:
        sketch.update_summary(exact)
    elif way == 2 and coarse.error <= eps / 2:
        sketch.update_summary(coarse)
    elif way == 3:
        sketch.update_summary(fed(kind, eps / 2, block).summary())
    else:
        for part in np.array_split(block, min(len(block), 40)):
            sketch.update_summary(Summary.of(part))


@needs("update_summary")
def check_lifted_summaries(kind: Kind, rng: Rng) -> None:
    """A lifted summary speaks of elements it does not know: its error counts like any other."""
    eps, values = 0.1, uniform(rng, 24_000) * np.repeat(np.arange(1, 21), 1200)
    sketch: Sketch = kind.make(eps)
    for start in range(0, len(values), 1200):
        late = int(rng.integers(0, 40))
        sketch.update_summary(Summary.of(values[start + late : start + 1100]).lift(late))
        sketch.update(values[start + 1100 : start + 1200])
        data = np.sort(values[: start + 1200])
        assert sketch.n == len(data)
        assert type(sketch).from_bytes(sketch.to_bytes()).to_bytes() == sketch.to_bytes()
        assert sketch.error <= eps + TINY
        assert oracle.wrong_answers(data, sketch.quantiles(PHIS), PHIS, eps) == []
        assert oracle.bound_faults(data, sketch.answer(0.5)) == []
        assert oracle.summary_faults(sketch.summary(), data, lifted=True) == []
        verify_ranks(sketch, data, rng)


@needs("update_summary")
def check_too_coarse(kind: Kind, rng: Rng) -> None:
    """A summary certified to exactly eps/2 is taken; one above it is refused, and nothing changes."""
    sketch = fed(kind, 0.1, uniform(rng, 100))
    before = sketch.to_bytes()
    coarse = Summary.of(np.arange(10_000.0)).compress(9)
    assert coarse.error > 0.05
    _refused(sketch, errors.TooCoarseError, sketch.update_summary, coarse)
    assert sketch.to_bytes() == before
    just = Summary.of(np.arange(38.0)).lift(2)
    assert just.error == 0.05
    sketch.update_summary(just)
    assert sketch.n == 140


# --- the same whatever the way it came in -------------------------------------------------------------------


def check_blocks_and_singles(kind: Kind, order: Order, rng: Rng) -> None:
    """One block, many blocks, or one by one: all within bound; the same bytes where that is promised."""
    for eps, n in ((0.1, 2_100), (0.3, 9_500)):
        values = order(rng, n)
        singles: Sketch = kind.make(eps)
        for value in values:
            singles.update(value)
        blocks: Sketch = kind.make(eps)
        for block in chop(values, rng, 1500):
            blocks.update(block)
        whole = fed(kind, eps, values)
        for sketch in (singles, blocks, whole):
            verify(kind, sketch, values, rng, deep=True)
        if "same bytes whatever the blocks" in kind.promises:
            assert singles.to_bytes() == blocks.to_bytes() == whole.to_bytes()


@needs("same bytes whatever the blocks")
def check_long_streams_have_the_same_bytes(kind: Kind, order: Order, rng: Rng) -> None:
    """At every level, also when asked in between, and after going through bytes."""
    eps, values = 0.05, order(rng, 70_000)
    reference = fed(kind, eps, values).to_bytes()
    for largest in (200, 3_000, 65_000):
        sketch: Sketch = kind.make(eps)
        for block in chop(values, rng, largest):
            feed(sketch, block)
            if rng.random() < 0.02 and sketch.n:
                sketch.quantile(0.5)
                sketch = type(sketch).from_bytes(sketch.to_bytes())
        assert sketch.to_bytes() == reference


def check_same_input_same_bytes(kind: Kind, order: Order, rng: Rng) -> None:
    """Two sketches fed alike are the same bytes at every moment, whatever one of them was asked."""
    eps, values = 0.08, order(rng, 6_000)
    asked, quiet = kind.make(eps), kind.make(eps)
    for block in chop(values, rng, 2500):
        feed(asked, block)
        feed(quiet, block)
        assert asked.to_bytes() == quiet.to_bytes()
        if asked.n:
            before = asked.to_bytes()
            (
                asked.quantiles(PHIS),
                asked.answer(0.5),
                asked.rank(0.0),
                asked.cdf([0.0]),
                asked.summary(),
                asked.error,
            )
            assert asked.to_bytes() == before
    assert np.array_equal(asked.quantiles(PHIS), quiet.quantiles(PHIS))


def check_bytes_round_trip(kind: Kind, order: Order, rng: Rng) -> None:
    """A restored sketch is the same and goes on the same, from any moment."""
    for eps in (0.3, 0.04):
        values = order(rng, 9_000)
        sketch: Sketch = kind.make(eps)
        for block in chop(values, rng, 2000):
            feed(sketch, block)
            blob = sketch.to_bytes()
            restored = type(sketch).from_bytes(blob)
            assert restored.to_bytes() == blob
            assert (restored.n, restored.eps, restored.error) == (sketch.n, sketch.eps, sketch.error)
            if sketch.n:
                assert np.array_equal(restored.quantiles(PHIS), sketch.quantiles(PHIS))
                assert restored.summary() == sketch.summary()
            sketch = restored if rng.random() < 0.5 else sketch
        straight: Sketch = kind.make(eps)
        restored = type(sketch).from_bytes(sketch.to_bytes())
        more = order(rng, 5_000)
        for straight in (sketch, restored):
            for block in np.split(more, [1, 700, 701, 3000]):
                straight.update(block)
        assert sketch.to_bytes() == restored.to_bytes()
        verify(kind, restored, np.concatenate([values, more]), rng, deep=True)


def check_input_is_left_alone(kind: Kind, order: Order, rng: Rng) -> None:
    """The caller's arrays are neither changed nor kept: what he does to them later changes nothing."""
    for n in (50, 1024, 5000):
        values = order(rng, n)
        kept = values.copy()
        sketch = fed(kind, 0.1, values)
        sketch.quantiles(PHIS)
        assert values.tobytes() == kept.tobytes()
        before = sketch.to_bytes()
        values[:] = 1e9
        assert sketch.to_bytes() == before
        verify(kind, sketch, kept, rng, deep=True)
        frozen = kept.copy()
        frozen.setflags(write=False)
        sketch.update(frozen)
        verify(kind, sketch, np.concatenate([kept, kept]), rng)


@needs("update_summary")
def check_summaries_are_left_alone(kind: Kind, rng: Rng) -> None:
    """Neither a summary put in nor one taken out is changed by what the sketch does later."""
    given = Summary.of(uniform(rng, 3000))
    blob = given.to_bytes()
    sketch: Sketch = kind.make(0.1)
    sketch.update_summary(given)
    taken = sketch.summary()
    taken_blob = taken.to_bytes()
    sketch.update(uniform(rng, 8000))
    sketch.quantile(0.5)
    assert given.to_bytes() == blob
    assert taken.to_bytes() == taken_blob


def check_forms_of_input(kind: Kind, rng: Rng) -> None:
    """numpy, strided, foreign byte order, lists, arrow, chunked, pandas, polars: the same bytes."""
    import pandas as pd
    import polars as pl

    values = rng.normal(size=2500)
    reference = fed(kind, 0.1, values).to_bytes()
    backwards = values[::-1].copy()[::-1]
    forms: list[Any] = [
        list(values),
        tuple(values.tolist()),
        backwards,
        np.repeat(values, 2)[::2],
        values.astype(">f8"),
        pa.array(values),
        pa.chunked_array([values[:1000], values[1000:1000], values[1000:]]),
        pa.array(np.concatenate([[1.0], values])).slice(1),
        pd.Series(values),
        pd.Series(values, index=range(5000, 7500)),
        pl.Series(values),
        pl.Series(values).append(pl.Series([], dtype=pl.Float64)),
    ]
    for form in forms:
        sketch: Sketch = kind.make(0.1)
        sketch.update(form)
        assert sketch.to_bytes() == reference, type(form)


# --- answers fit together -----------------------------------------------------------------------------------


def check_monotone(kind: Kind, order: Order, rng: Rng) -> None:
    """A larger phi never has a smaller value, nor a larger value a smaller rank."""
    for n in (7, 900, 30_000):
        sketch = fed(kind, 0.1, order(rng, n))
        found = sketch.quantiles(np.linspace(1e-9, 1, 2001))
        assert np.all(found[:-1] <= found[1:])
        probes = np.sort(np.concatenate([found[::50], found[::50] + 1e-7]))
        low, high = sketch.rank(probes)
        assert np.all(low[:-1] <= low[1:])
        assert np.all(high[:-1] <= high[1:])
        fractions = sketch.cdf(probes)
        assert np.all(fractions[:-1] <= fractions[1:])
        assert np.all((fractions >= 0) & (fractions <= 1))


def check_quantiles_are_quantile(kind: Kind, order: Order, rng: Rng) -> None:
    """Many asked at once are the same as each asked alone, of the sketch and of its summary."""
    for n in (1, 2, 1300, 20_000):
        sketch = fed(kind, 0.07, order(rng, n))
        phis = np.concatenate([[1.0, 1e-12], rng.random(40)])
        many = sketch.quantiles(phis)
        assert len(many) == len(phis)
        assert list(many) == [sketch.quantile(phi) for phi in phis]
        assert list(many) == [sketch.answer(phi).value for phi in phis]
        assert list(many) == list(sketch.summary().quantiles(phis))
        assert list(sketch.quantiles([])) == []


def check_exact_while_small(kind: Kind, order: Order, rng: Rng) -> None:
    """Below 1/(2 eps) values nothing may be lost: E is a whole number of ranks below one."""
    for eps in (0.1, 0.01, 0.001):
        n = int(0.49 / eps)
        data = np.sort(order(rng, n))
        sketch = fed(kind, eps, data)
        data = kind.covers(data)
        phis = np.arange(1, len(data) + 1) / len(data)
        assert sketch.error == 0
        assert np.array_equal(sketch.quantiles(phis), data)


# --- memory -------------------------------------------------------------------------------------------------


def check_memory(kind: Kind, order: Order, rng: Rng) -> None:
    """`nbytes` counts every array the sketch holds on to, and stays within the documented bound."""
    for eps, n in ((0.1, 50_000), (0.02, 30_000)):
        sketch: Sketch = kind.make(eps)
        _verify_memory(kind, sketch, eps)
        for block in chop(order(rng, n), rng, 9000):
            feed(sketch, block)
            _verify_memory(kind, sketch, eps)
            if sketch.n and rng.random() < 0.3:
                sketch.quantile(0.5)
                sketch.summary()
                _verify_memory(kind, sketch, eps)
        _verify_memory(kind, type(sketch).from_bytes(sketch.to_bytes()), eps)


def _verify_memory(kind: Kind, sketch: Sketch, eps: float) -> None:
    assert sketch.nbytes >= held_nbytes(sketch)
    if kind.max_nbytes is not None:
        assert sketch.nbytes <= kind.max_nbytes(eps, sketch.n, 8)


def held_nbytes(root: object) -> int:
    """The bytes of all arrays reachable from an object, each owner counted once and in full."""
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


# --- types and bad input ------------------------------------------------------------------------------------


TYPES = [
    *("float64", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("datetime64[D]", "datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns]"),
    *("timedelta64[s]", "timedelta64[ms]", "timedelta64[us]", "timedelta64[ns]"),
]


def check_types_come_out(kind: Kind, rng: Rng) -> None:
    """The type that went in comes out of every question, also after bytes and merges."""
    for name in TYPES:
        values = rng.integers(0, 120, 3000).astype("int64").astype(name)
        sketch = fed(kind, 0.1, values)
        if "merge" in kind.promises:
            sketch.merge(fed(kind, 0.1, values))
            values = np.concatenate([values, values])
        values = kind.covers(values)
        for one in (sketch, type(sketch).from_bytes(sketch.to_bytes())):
            answer = one.answer(0.3)
            assert type(answer.value) is values.dtype.type, name
            assert answer.value.dtype == values.dtype == one.quantiles(PHIS).dtype, name
            assert one.quantile(0.3) == answer.value
            assert one.summary().values.dtype == values.dtype, name
            assert oracle.bound_faults(values, answer) == []
            assert oracle.wrong_answers(values, one.quantiles(PHIS), PHIS, 0.1) == []
            low, high = one.rank(values[:9])
            true = np.searchsorted(np.sort(values), values[:9], side="right")
            assert np.all((low <= true) & (true <= high))


def check_extreme_values(kind: Kind, rng: Rng) -> None:
    """The ends of every type are values like others."""
    for name in ("int8", "int64", "uint32", "uint8"):
        info = np.iinfo(name)
        values = rng.choice(np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype=name), 2000)
        sketch = fed(kind, 0.1, values)
        values = kind.covers(values)
        assert (sketch.quantile(1e-9), sketch.quantile(1.0)) == (info.min, info.max)
        assert oracle.wrong_answers(values, sketch.quantiles(PHIS), PHIS, 0.1) == []
        assert oracle.summary_faults(sketch.summary(), values, _lifted(kind)) == []
    for float_name in ("float64", "float32"):
        top = np.finfo(float_name)
        tops = np.array([-np.inf, top.min, -top.tiny, 0, top.smallest_subnormal, top.max, np.inf], dtype=float_name)
        values = rng.choice(tops, 2000)
        sketch = fed(kind, 0.1, values)
        assert (sketch.quantile(1e-9), sketch.quantile(1.0)) == (-np.inf, np.inf)
        assert oracle.summary_faults(sketch.summary(), kind.covers(values), _lifted(kind)) == []


def check_decimals(kind: Kind, rng: Rng) -> None:
    """Decimals come out as decimals, of the same scale."""
    everything = [Decimal(int(cents)).scaleb(-2) for cents in rng.integers(-5000, 5000, 2600)]
    values = kind.covers(np.array(everything)).tolist()
    for form in (everything, pa.array(everything, pa.decimal128(9, 2))):
        sketch: Sketch = kind.make(0.1)
        sketch.update(form)
        restored = type(sketch).from_bytes(sketch.to_bytes())
        for phi in (1e-9, 0.25, 0.5, 1.0):
            answer = restored.answer(phi)
            assert type(answer.value) is Decimal
            assert answer.value.as_tuple().exponent == -2
            assert oracle.bound_faults(values, answer) == []
        low, high = sketch.rank(values[7])
        assert low <= oracle.count_at_most(values, values[7]) <= high


def check_signed_zero(kind: Kind, rng: Rng) -> None:
    """-0.0 is stored as 0.0."""
    for name in ("float64", "float32"):
        zeros = rng.choice(np.array([-0.0, 0.0], dtype=name), 1500)
        sketch = fed(kind, 0.1, zeros)
        assert sketch.to_bytes() == fed(kind, 0.1, np.abs(zeros)).to_bytes()
        assert not np.any(np.signbit(sketch.quantiles(PHIS)))
        sketch.update(-0.0)
        assert not np.signbit(sketch.quantile(1.0))


def check_widening(kind: Kind, rng: Rng) -> None:
    """A narrower block that fits is widened; the sketch keeps its type."""
    del rng
    sketch: Sketch = kind.make(0.1)
    sketch.update(np.array([1.5, 2.5]))
    sketch.update(np.array([3], dtype=np.int32))
    sketch.update(np.array([0.25], dtype=np.float32))
    sketch.update([4, 5.5])
    sketch.update(6)
    assert sketch.n == 7
    assert sketch.quantile(0.5).dtype == np.float64
    assert list(sketch.quantiles(np.arange(1, 8) / 7)) == [0.25, 1.5, 2.5, 3.0, 4.0, 5.5, 6.0]
    typed: Sketch = kind.make(0.1, value_type="float32")
    typed.update([1, 2.5])
    assert typed.quantile(1.0).dtype == np.float32


def bad_values() -> dict[str, tuple[Any, type[Exception]]]:
    """Inputs that a sketch of float64 must refuse, with the error each deserves."""
    huge = np.arange(200_000.0)
    middle, end = huge.copy(), huge.copy()
    middle[100_000] = np.nan
    end[-1] = np.nan
    return {
        "NaN": (np.nan, errors.NaNError),
        "NaN in a list": ([1.0, float("nan"), 2.0], errors.NaNError),
        "NaN in the middle of a huge block": (middle, errors.NaNError),
        "NaN at the end of a huge block": (end, errors.NaNError),
        "NaN of another type": (np.array([1, np.nan], dtype=np.float32), errors.NaNError),
        "NaN in arrow": (pa.array([1.0, float("nan")]), errors.NaNError),
        "NaN in the last chunk": (pa.chunked_array([huge, [float("nan")]]), errors.NaNError),
        "bool": (True, errors.TypeMismatchError),
        "bools": (np.array([True, False]), errors.TypeMismatchError),
        "a list with a bool": ([1.0, True], errors.TypeMismatchError),
        "str": ("word", errors.TypeMismatchError),
        "strs": (["a", "b"], errors.TypeMismatchError),
        "a list that ends in a str": ([1.0, 2.0, "word"], errors.TypeMismatchError),
        "arrow strings": (pa.array(["a"]), errors.TypeMismatchError),
        "bytes": (b"1234", errors.TypeMismatchError),
        "complex": (1 + 2j, errors.TypeMismatchError),
        "complexes": (np.array([1j]), errors.TypeMismatchError),
        "uint64": (np.array([1], dtype=np.uint64), errors.TypeMismatchError),
        "objects": (np.array([object()], dtype=object), errors.TypeMismatchError),
        "an object": (object(), errors.TypeMismatchError),
        "a dict": ({"a": 1}, errors.TypeMismatchError),
        "times among floats": (np.array(["2026-01-01"], dtype="datetime64[us]"), errors.TypeMismatchError),
        "spans among floats": (np.array([5], dtype="timedelta64[s]"), errors.TypeMismatchError),
        "an int64 that no float64 is": (np.array([2**53 + 1]), errors.TypeMismatchError),
        "two dimensions": (np.zeros((2, 3)), errors.TypeMismatchError),
        "no columns": (np.zeros((5, 0)), errors.TypeMismatchError),
        "a nested list": ([[1.0, 2.0]], errors.TypeMismatchError),
    }


FINE_AT_FIRST = {"times among floats", "spans among floats", "an int64 that no float64 is"}


def check_unchanged_after_bad_input(kind: Kind, rng: Rng) -> None:
    """Every kind of bad input is refused by name, and the sketch is as it was, to the byte, and goes on."""
    for n in (0, 500, 1023, 3000):
        values = rng.normal(size=n)
        sketch = fed(kind, 0.1, values)
        sketch.update(np.empty(0))
        twin = type(sketch).from_bytes(sketch.to_bytes())
        before = _state(sketch)
        for name, (bad, error) in bad_values().items():
            if n or name not in FINE_AT_FIRST:
                _refused(sketch, error, sketch.update, bad, what=name)
                assert _state(sketch) == before, name
        more = rng.normal(size=1500)
        sketch.update(more)
        twin.update(more)
        assert sketch.to_bytes() == twin.to_bytes()
        verify(kind, sketch, np.concatenate([values, more]), rng, deep=True)


def check_bad_input_among_singles(kind: Kind, rng: Rng) -> None:
    """Refused right after values that came one by one, and before anything was asked: nothing is lost."""
    values = rng.normal(size=1030)
    for name, (bad, error) in bad_values().items():
        sketch, twin = fed(kind, 0.1, values[:1020]), fed(kind, 0.1, values[:1020])
        for value in values[1020:].tolist():
            sketch.update(value)
            twin.update(value)
        try:
            sketch.update(bad)
        except error:
            pass
        else:
            raise AssertionError(f"not refused: {name}")
        sketch.update(1.5)
        twin.update(1.5)
        assert sketch.n == twin.n == len(kind.covers(np.zeros(1031)))
        assert sketch.to_bytes() == twin.to_bytes(), name


def check_unchanged_after_bad_questions(kind: Kind, rng: Rng) -> None:
    """A bad phi or probe is refused by name and changes nothing."""
    sketch = fed(kind, 0.1, uniform(rng, 2000))
    before = _state(sketch)
    for phi in (0, 0.0, -0.5, 1.0000001, 2, float("nan"), float("inf"), -float("inf")):
        for ask, asked in ((sketch.quantile, phi), (sketch.answer, phi), (sketch.quantiles, [0.5, phi])):
            message = _refused(sketch, errors.InvalidArgumentError, ask, asked)
            assert str(float(phi)) in message or str(phi) in message
    for wrong in ("0.5", None, 0.5j, [[0.5]], object(), b"1"):
        _refused(sketch, errors.QuantideError, sketch.quantile, wrong)
        _refused(sketch, errors.QuantideError, sketch.quantiles, [0.5, wrong])
    for probe in (float("nan"), "word", 1j):
        _refused(sketch, errors.QuantideError, sketch.rank, probe)
        _refused(sketch, errors.QuantideError, sketch.cdf, [probe])
    assert _state(sketch) == before


@needs("merge")
def check_unchanged_after_bad_merge(kind: Kind, rng: Rng) -> None:
    """Sketches of another eps or type are refused, and both stay as they were."""
    sketch = fed(kind, 0.1, uniform(rng, 2000))
    times = np.arange(3000).astype("datetime64[s]")
    others: list[tuple[Any, type[Exception]]] = [
        (fed(kind, 0.11, uniform(rng, 2000)), errors.MergeError),
        (fed(kind, 0.1, times), errors.TypeMismatchError),
        (Summary.of([1.0]), errors.QuantideError),
        (None, errors.QuantideError),
    ]
    before = _state(sketch)
    for other, error in others:
        kept = other.to_bytes() if other is not None else b""
        _refused(sketch, error, sketch.merge, other)
        assert _state(sketch) == before
        assert (other.to_bytes() if other is not None else b"") == kept
    if "update_summary" in kind.promises:
        _refused(sketch, errors.TypeMismatchError, sketch.update_summary, Summary.of(times))
        assert _state(sketch) == before


def check_skipping(kind: Kind, rng: Rng) -> None:
    """Nulls, and NaN where that is asked, are left out and counted; the rest is as if there were none."""
    values = rng.normal(size=3000)
    holes = values.copy()
    holes[::7] = np.nan
    clean = holes[~np.isnan(holes)]
    quiet: Sketch = kind.make(0.1, nan="skip")
    quiet.update(holes)
    once: Sketch = kind.make(0.1)
    once.update(holes, nan="skip")
    nulls: Sketch = kind.make(0.1)
    nulls.update(pa.array(values, mask=np.isnan(holes)))
    listed: Sketch = kind.make(0.1)
    listed.update([None if np.isnan(value) else float(value) for value in holes])
    for sketch in (quiet, once, nulls, listed):
        verify(kind, sketch, clean, rng, deep=True)
    missing = len(values) - len(clean)
    assert (quiet.nans, quiet.nulls, once.nans, once.nulls) == (missing, 0, missing, 0)
    assert (nulls.nans, nulls.nulls, listed.nans, listed.nulls) == (0, missing, 0, missing)
    restored = type(nulls).from_bytes(nulls.to_bytes())
    assert (restored.nulls, restored.nans) == (missing, 0)
    once.update(None)
    assert (once.nulls, once.nans, once.n) == (1, missing, len(kind.covers(clean)))
    _refused(once, errors.NaNError, once.update, np.nan)
    _refused(quiet, errors.NaNError, partial(quiet.update, nan="refuse"), np.nan)
    if "merge" in kind.promises:
        once.merge(nulls)
        assert (once.nulls, once.nans) == (1 + missing, missing)


def check_empty(kind: Kind, rng: Rng) -> None:
    """An empty sketch answers no question, by name; it goes through bytes, and takes empty input."""
    del rng
    sketch: Sketch = kind.make(0.1)
    empties: list[Any] = [[], np.empty(0), np.empty(0, dtype=np.float32), pa.array([], pa.float64()), [None]]
    for empty in empties:
        sketch.update(empty)
        assert sketch.n == 0
        _refused(sketch, errors.EmptyError, sketch.quantile, 0.5)
        _refused(sketch, errors.EmptyError, sketch.answer, 0.5)
        _refused(sketch, errors.EmptyError, sketch.quantiles, [0.5])
        assert sketch.summary().n == 0
        assert sketch.error == 0
        sketch = type(sketch).from_bytes(sketch.to_bytes())
    sketch.update([2.0])
    assert sketch.quantile(0.5) == 2.0


def _state(sketch: Sketch) -> tuple[object, ...]:
    return sketch.to_bytes(), sketch.n, sketch.nulls, sketch.nans, sketch.error


def _refused(sketch: Sketch, error: type[Exception], act: Callable[..., object], *args: object, what: str = "") -> str:
    """The message of the named error that an act must raise, leaving the sketch as it was."""
    before = _state(sketch)
    try:
        act(*args)
    except errors.QuantideError as raised:
        caught: Exception = raised
    else:
        raise AssertionError(f"not refused: {what or args}")
    assert isinstance(caught, error), what or args
    assert str(caught)
    assert _state(sketch) == before, what or args
    return str(caught)


def all_checks() -> list[Callable[..., None]]:
    """Every check of this file."""
    return [check for name, check in sorted(globals().items()) if name.startswith("check_")]
