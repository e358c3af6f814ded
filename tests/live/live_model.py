"""Model of a LiveStream: all rows in plain arrays, and an exact answer to every question.

Nothing here knows how recent rows are kept. `small` makes files and blocks so small that little data has many.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from quantide.errors import EmptyError, SpanError, UnknownKeyError
from quantide.history import History, appended_rows, compaction_plan, compactor
from quantide.history import recent_writer as written
from quantide.live import LiveStream, pane_rows, recent_snapshot
from quantide.store import recent_file as stored
from quantide.store import recent_manifest, section_file
from tests import oracle
from tests.history import history_model
from tests.history.history_model import BY_NAME, Kind

Rng = np.random.Generator
Array = Any  # of any dtype; of objects for decimals
Key = tuple[Any, ...]
Bools = NDArray[np.bool_]

MODES = ("quick", "accurate", "exact")
YEAR = Fraction(365 * 86400)
TINY = 1e-12  # what floating point may lose in an error that is a fraction


@contextmanager
def small(**sizes: Any) -> Iterator[None]:
    """Recent files of few rows that are compacted early, with blocks and summaries; history in small blocks, too."""
    with pytest.MonkeyPatch.context() as patch, history_model.small():
        shrink(patch.setattr, **sizes)
        yield


def shrink(
    change: Callable[[Any, str, Any], None],
    fan: int = 3,
    few: int = 16,
    block: int = 8,
    heavy: float = 0.3,
    most: int = 60,
    later_rows: int = 1 << 20,
    page: int = 64,
) -> None:
    """Change all constants of the sizes of recent files, of their blocks, and of the number of chunks."""
    for module in (compaction_plan, compactor):
        change(module, "FANOUT", 4)
    change(written, "FANOUT", fan)
    change(written, "SMALLEST_CLASS", 4)
    for module in (written, appended_rows):
        change(module, "MAX_FILE_ROWS", most)
    change(recent_snapshot, "BLOCK_ROWS", block)
    change(recent_snapshot, "FEW_ROWS", few)
    change(pane_rows, "PANE_BLOCK", block)
    change(stored, "HEAVY", heavy)
    change(recent_manifest, "MIN_LATER_ROWS", later_rows)
    change(section_file, "PAGE", page)


# --- times --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Times:
    """A kind of times, made out of whole numbers in a way that keeps their order; `number` is how they compare."""

    name: str
    unit: Fraction  # seconds that a whole number stands for

    @property
    def exact(self) -> bool:
        """Return True if times are counted in nanoseconds; otherwise they are float64."""
        return self.name != "seconds"

    def numbers(self, whole: Array) -> Array:
        """Numbers to compare."""
        if not self.exact:
            return np.asarray(whole, dtype=np.float64) * float(self.unit)
        return np.asarray(whole, dtype=np.int64) * int(self.unit * 10**9)

    def to_input(self, numbers: Array) -> Any:
        """Times as a user has them."""
        if self.name == "seconds":
            return numbers
        if self.name == "date":
            return numbers.astype("M8[ns]").astype("M8[D]")
        if self.name == "naive":
            return numbers.astype("M8[ns]")
        return pa.array(numbers, pa.timestamp("ns", "Europe/Oslo"))

    def threshold(self, now: Any, within: Fraction) -> Any:
        """Return the time that all times within a span of now are above."""
        if self.exact:
            return math.floor(int(now) - within * 10**9)
        return min(float(now) - float(within), float(np.nextafter(now, -np.inf)))


TIMES = {
    times.name: times
    for times in (
        Times("seconds", Fraction(1, 4)),
        Times("naive", Fraction(1, 1000)),
        Times("zoned", Fraction(7)),
        Times("date", Fraction(86400)),
    )
}


# --- all rows -----------------------------------------------------------------------------------------------


@dataclass
class Batch:
    """Rows of an append in arrival order. Rows without times were loaded in a way that leaves no recent rows."""

    values: Array
    keys: list[Key]
    times: Array | None
    filters: dict[str, Bools] = field(default_factory=dict)


class Beyond(Exception):
    """The question is about rows that are no longer available, or that may or may not belong to its window."""


class Model:
    """All rows, of ended steps and the open one."""

    def __init__(self, kind: Kind, times: Times, filters: Sequence[str] = (), span: Fraction = YEAR) -> None:
        self.kind, self.times, self.filters, self.span = kind, times, tuple(filters), span
        self.nothing = kind.of(np.empty(0, dtype=np.int64))
        self.batches: list[Batch] = []
        self.ends: list[int] = []  # how many batches there were when each step ended

    def append(self, batch: Batch) -> None:
        if len(batch.values):
            self.batches.append(batch)

    def end_step(self) -> None:
        self.ends.append(len(self.batches))

    @property
    def n(self) -> int:
        return sum(len(batch.values) for batch in self.batches)

    @property
    def newest(self) -> Any:
        """The newest time; None when there is none."""
        known = [batch.times.max() for batch in self.batches if batch.times is not None]
        return max(known) if known else None

    def keys(self) -> list[Key]:
        return sorted({key for batch in self.batches for key in batch.keys}, key=repr)

    def steps(self, last_steps: int | None, key: Key | None) -> Array:
        """The values of the last steps and the open one."""
        first = 0
        if last_steps is not None and last_steps < len(self.ends):
            first = self.ends[len(self.ends) - last_steps - 1]
        return self._joined([self._of(batch, key) for batch in self.batches[first:]])

    def window(
        self, key: Key | None, last: int | None, within: Fraction | None, filter: str | None, now: Any = None
    ) -> Array:
        """Values of a window, row by row; a filter alone is about all recent rows. `now` is a number."""
        above, newest = None, self.newest
        if last is None and within is None:
            within = self.span
        if within is not None and newest is not None:
            above = self.times.threshold(newest if now is None else now, within)
            if within > self.span or above < self.times.threshold(newest, self.span):
                raise Beyond
        out, left = [], last
        for batch in reversed(self.batches):
            if left == 0:
                break
            if batch.times is None:
                if left is not None:
                    raise Beyond
                continue
            rows = np.flatnonzero([key is None or own == key for own in batch.keys])
            if left is not None:
                rows = rows[max(0, len(rows) - left) :]
                left -= len(rows)
            if above is not None:
                rows = rows[(batch.times[rows] > above) & (batch.times[rows] <= (newest if now is None else now))]
            if filter is not None:
                rows = rows[batch.filters[filter][rows]]
            out.append(batch.values[rows])
        return self._joined(out)

    def _of(self, batch: Batch, key: Key | None) -> Array:
        return batch.values if key is None else batch.values[[own == key for own in batch.keys]]

    def _joined(self, arrays: list[Array]) -> Array:
        return np.concatenate([self.nothing, *arrays])


# --- a store and its model, grown together ------------------------------------------------------------------


class Grown:
    """A history and its model; every method changes both."""

    def __init__(
        self,
        path: Any,
        kind: str = "float64",
        times: str | None = "seconds",
        keys: Sequence[str] = (),
        filters: Sequence[str] = (),
        window: Fraction = YEAR,
        eps: float = 0.05,
        kappa: int = 2,
    ) -> None:
        names: Any = list(keys) if keys else None
        self.history = History(
            path, eps=eps, kappa=kappa, keys=names, value_type=kind, window=window, filters=list(filters) or None
        )
        self.path, self.columns, self.timed, self.eps = str(path), tuple(keys), times is not None, eps
        self.model = Model(BY_NAME[kind], TIMES[times or "zoned"], filters, window)
        self._files = 0

    def append(self, whole: Array, when: Array | None, keys: Sequence[Key] = (), **filters: Bools) -> None:
        """Append whole numbers as values and times (one, or one for each); without times the store's clock is used."""
        values, row_keys = self.model.kind.of(np.asarray(whole)), list(keys) or [()] * len(whole)
        given: dict[str, Any] = {"filters": filters} if self.model.filters else {}
        given |= {"key": self._key_column(row_keys)} if self.columns else {}
        if when is not None:
            assert self.timed
            numbers = self.model.times.numbers(np.atleast_1d(when))
            times = self.model.times.to_input(numbers)
            given["times"] = times[0] if np.ndim(when) == 0 else times
            numbers = np.broadcast_to(numbers, len(values))
        self.history.append(self.model.kind.to_input(values), **given)
        if when is None:
            entries = self.history.table.load_manifest(self.history.table.manifest_number).entries
            numbers = np.full(len(values), entries[-1].newest if entries else 0)
        self.model.append(Batch(values, row_keys, numbers, filters))

    def append_files(self, whole: Array, keys: Sequence[Key] = ()) -> None:
        """Rows that leave nothing for windows."""
        values, row_keys = self.model.kind.of(np.asarray(whole)), list(keys) or [()] * len(whole)
        columns = {name: [key[i] for key in row_keys] for i, name in enumerate(self.columns)}
        self._files += 1
        path = f"{self.path}-{self._files}.parquet"
        pq.write_table(pa.table({**columns, "value": self.model.kind.to_input(values)}), path)
        self.history.append_files(path, "value")
        self.model.append(Batch(values, row_keys, None))

    def end_step(self, wait: bool = True) -> None:
        self.history.end_step(wait)
        self.model.end_step()

    def settle(self) -> None:
        """Wait for merges and compactions."""
        self.history._writer.join()

    def _key_column(self, keys: Sequence[Key]) -> Any:
        if len(self.columns) == 1:
            return [key[0] for key in keys]
        return [tuple(key) for key in keys]


# --- checks at one moment -----------------------------------------------------------------------------------


def check(live: LiveStream, model: Model, rng: Rng, questions: int = 2, windows: int = 6, steps: bool = True) -> None:
    """Check all answers of a stream: about everything, steps, and windows of every kind, of all keys and of some."""
    assert live.n == live.stats()["values"] == model.n
    newest = model.newest
    assert (live.newest is None) == (newest is None)
    if not model.n:
        return
    keys: list[Key | None] = [None]
    if len(model.batches[0].keys[0]):
        known = model.keys()
        assert sorted(map(_as_key, live.keys()), key=repr) == known
        keys += [known[i] for i in rng.permutation(len(known))[:2]]
    for key in keys:
        for last_steps in [None, *(span.last_steps for span in live.spans() if steps)][:3]:
            check_question(live, model, rng, {"key": key, "last_steps": last_steps}, questions)
        for _ in range(windows):
            check_question(live, model, rng, some_window(model, rng, key), questions)


def some_window(model: Model, rng: Rng, key: Key | None, now: bool = True) -> dict[str, Any]:
    """Return last, within, filter or any combination, near the edges of the data."""
    scope: dict[str, Any] = {"key": key}
    kinds = int(rng.integers(1, 8))
    if kinds & 1:
        scope["last"] = int(rng.choice([1, 2, int(rng.integers(1, model.n + 3)), model.n, model.n + 5]))
    if kinds & 2 and model.newest is not None:
        scope["within"], scope["now"] = some_span(model, rng, now)
    if kinds & 4 and model.filters:
        scope["filter"] = str(rng.choice(model.filters))
    if len(scope) == 1:
        scope["last"] = 3
    return {name: value for name, value in scope.items() if value is not None}


def some_span(model: Model, rng: Rng, now: bool) -> tuple[Any, Any]:
    """A span that begins at, just before or just after a row's time, or anywhere; up to the newest time or another."""
    known = np.concatenate([batch.times for batch in model.batches if batch.times is not None])
    newest, edge = model.newest, rng.choice(known)
    moment = rng.choice(known) if now and rng.random() < 0.3 else None
    until = newest if moment is None else moment
    each = Fraction(1, 10**9) if model.times.exact else Fraction(1)
    far = (Fraction(int(until)) - int(edge)) * each if model.times.exact else Fraction(float(until) - float(edge))
    step = rng.choice([-1, 0, 0, 1]) * (each if model.times.exact else Fraction(1, 16))
    span = max(abs(far + step), each / 1000)
    return min(span, model.span), moment


def check_question(live: LiveStream, model: Model, rng: Rng, scope: dict[str, Any], questions: int = 2) -> None:
    """Check one window or span in every mode: certificates are true, and as good as promised."""
    arguments = scope_arguments(model, scope)
    try:
        data = data_of(model, scope)
    except Beyond:
        with pytest.raises(SpanError):
            live.answer(0.5, **arguments)
        return
    if not len(data):
        with pytest.raises((EmptyError, UnknownKeyError)):
            live.answer(0.5, **arguments)
        return
    data = np.sort(data)
    some = rng.integers(1, len(data) + 1, questions) / len(data)
    phis = [1e-9, 1.0, *some.tolist()]
    probes = rng.choice(data, questions)
    for mode in MODES:
        for phi, answer in zip(phis, live.answers(phis, mode=mode, **arguments), strict=True):
            check_answer(live, data, answer, mode, phi)
        for band in live.bands([rng.choice(phis)], mode=mode, **arguments):
            check_band(live, data, band)
        check_ranks(live, model, data, probes, mode, arguments)
    summary = live.summary(**arguments)
    assert summary.n == len(data)
    assert summary.error <= live.eps + TINY


def check_answer(live: LiveStream, data: Array, answer: Any, mode: str, phi: float) -> None:
    assert oracle.bound_faults(data, answer) == []
    assert (answer.mode, answer.version) == (mode, live.version)
    promised = live.eps if answer.last_steps is not None else live.eps / 2
    assert answer.error <= (0 if mode == "exact" else promised + TINY)
    if mode == "exact":
        assert answer.value == oracle.exact_quantile(data, phi)


def check_band(live: LiveStream, data: Array, band: Any) -> None:
    """The true quantile lies in its band, and so does the answer; an end is as near as twice the promised error."""
    answer, low, high = band.answer, band.low, band.high
    assert low <= data[answer.target - 1] <= high
    assert low <= answer.value <= high
    promised = live.eps if answer.last_steps is not None else live.eps / 2
    far = 0 if answer.mode == "exact" else 2 * promised * len(data) + oracle.SLACK
    last_low, first_high = bisect_right(data, low), bisect_left(data, high) + 1
    assert data[last_low - 1] == low, "the low end is no value that was appended"
    assert data[first_high - 1] == high, "the high end is no value that was appended"
    assert answer.target - far <= last_low
    assert first_high <= answer.target + far


def check_ranks(
    live: LiveStream, model: Model, data: Array, probes: Array, mode: str, arguments: dict[str, Any]
) -> None:
    given = model.kind.to_input(probes)
    true = np.searchsorted(data, probes, side="right")
    low, high = live.rank(given, mode=mode, **arguments)
    assert np.all(low <= true)
    assert np.all(true <= high)
    below = np.searchsorted(data, probes, side="left")
    strict_low, strict_high = live.rank(given, mode=mode, inclusive=False, **arguments)
    assert np.all((strict_low <= below) & (below <= strict_high) & (strict_high <= high))
    allowed = 0 if mode == "exact" else 2 * live.eps * len(data)
    assert np.all(high - low <= allowed + oracle.SLACK)
    assert np.all(np.abs(live.cdf(given, mode=mode, **arguments) - true / len(data)) <= allowed / 2 / len(data) + TINY)


def data_of(model: Model, scope: dict[str, Any]) -> Array:
    """Scope of a question."""
    key, last, within, filter, now = (scope.get(name) for name in ("key", "last", "within", "filter", "now"))
    if last is None and within is None and filter is None:
        return model.steps(scope.get("last_steps"), key)
    return model.window(key, last, within, filter, now)


def scope_arguments(model: Model, scope: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a question as a user writes them: keys without a tuple where possible, times, spans."""
    arguments = dict(scope)
    key, within, now = scope.get("key"), scope.get("within"), scope.get("now")
    if key is not None and len(key) == 1 and key[0] is not None:
        arguments["key"] = key[0]
    if within is not None:
        arguments["within"] = timedelta(seconds=int(within)) if within.denominator == 1 and within < 10**6 else within
    if now is not None:
        arguments["now"] = model.times.to_input(np.array([now]))[0]
    return arguments


def _as_key(key: Any) -> Key:
    return key if isinstance(key, tuple) else (key,)
