"""Bytes of a monitor: everything except its listeners, so that it continues exactly as if never stopped."""

from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.queries.cluster_evaluators import DeadlineEvaluator, PassEvaluator
from quantide.queries.conditions import CERTAIN, UNPUBLISHED, Conditions
from quantide.queries.evaluator import UPDATES, Evaluator
from quantide.queries.marked_sketch import MarkedSketch
from quantide.queries.query_clusters import CLUSTERINGS, QueryClusters
from quantide.queries.query_registry import DROPPED, MAX_USES, UNCLUSTERED, QueryRegistry, finest_precisions
from quantide.queries.query_sources import Pull, PulledSource, WindowSource
from quantide.sketches.byte_frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.windows.recent_window import RecentWindow
from quantide.windows.sliding_window import SlidingWindow

MAGIC, VERSION = b"QTM", 3
MAX_NUMBER = 2**62
SOURCES = (MarkedSketch, WindowSource, PulledSource)

SLOT_ARRAYS = ("value", "published", "is_published", "due", "root", "members", "sizes", "newest")


def write(evaluator: DeadlineEvaluator | PassEvaluator, conditions: Conditions) -> bytes:
    source = evaluator.source
    frame = FrameWriter(MAGIC, source.type, source.eps, False, source.nulls, source.nans, VERSION)
    frame.tail(source.tail)
    frame.array(np.array([evaluator.least]))
    frame.number(evaluator.least_n)
    _write_source(frame, evaluator)
    choices = CLUSTERINGS.index(evaluator.clustering), UPDATES.index(evaluator.updates), evaluator.recluster_after or 0
    first_due = evaluator.first_due if isinstance(evaluator, DeadlineEvaluator) else -1
    for number in (*choices, evaluator.stale, evaluator.changes, first_due + 1, *evaluator.counts.values()):
        frame.number(int(number))
    for registry in (evaluator.queries, conditions):
        _write_registry(frame, registry, source.kind.carrier)
    frame.number(len(conditions.raw_limits))
    for index, limit in conditions.raw_limits.items():
        frame.number(index)
        frame.text(_format_limit(limit))
    frame.number(evaluator.clusters is not None)
    if evaluator.clusters is not None:
        _write_clusters(frame, evaluator.clusters)
    frame.number(source.summary_count)
    if isinstance(source, MarkedSketch):
        marks = source.marks()
        frame.number(source.marked_n)
        frame.summaries([] if marks is None else [marks])
    return frame.finish()


def read(data: bytes, pull: Pull | None, grows: bool) -> tuple[DeadlineEvaluator | PassEvaluator, Conditions]:
    """Return an evaluator and conditions; `pull` and `grows` are those of a pulled source."""
    frame = FrameReader(MAGIC, data, VERSION)
    tail, least, least_n = None, frame.eps, 0
    if frame.version >= 2:
        tail = frame.tail()
        least, least_n = float(frame.finite(np.dtype(np.float64), 1)[0]), frame.number(MAX_N)
        frame.require(0 < least <= frame.eps)
    source, evaluated_at, reserve = _read_source(frame, pull, grows, tail)
    frame.require(source.tail == tail)
    clustering, updates = CLUSTERINGS[frame.number(len(CLUSTERINGS) - 1)], UPDATES[frame.number(len(UPDATES) - 1)]
    recluster_after, conditions = frame.number(MAX_NUMBER) or None, Conditions()
    stale, changes, first_due = bool(frame.number(1)), frame.number(MAX_NUMBER), frame.number(MAX_NUMBER + 1) - 1
    evaluator: DeadlineEvaluator | PassEvaluator
    if isinstance(source, MarkedSketch):
        evaluator = DeadlineEvaluator(source, clustering, updates, recluster_after)
        evaluator.first_due = first_due
    else:
        evaluator = PassEvaluator(source, clustering, updates, recluster_after)
        evaluator.evaluated_at, evaluator.reserve = evaluated_at, reserve
    evaluator.stale, evaluator.changes = stale, changes
    evaluator.least, evaluator.least_n = least, least_n
    evaluator.counts = {name: frame.number(MAX_NUMBER) for name in evaluator.counts}
    for registry in (evaluator.queries, conditions):
        _read_registry(frame, registry, tail)
    for _ in range(frame.number(len(conditions))):
        index, text = frame.number(conditions.used - 1), frame.text()
        try:
            conditions.raw_limits[index] = int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            frame.require(False)
    if frame.number(1):
        evaluator.clusters = _read_clusters(frame, evaluator)
    frame.require(evaluator.clusters is not None or bool((evaluator.queries.slot < 0).all()))
    source.summary_count = frame.number(MAX_NUMBER)
    if isinstance(source, MarkedSketch):
        source.marked_n = frame.number(MAX_N)
        for marks in frame.summaries():
            frame.require(marks.n == source.n and len(marks) > 1)
            source.set_marks(marks, source.marked_n)
    frame.finish()
    return evaluator, conditions


def _write_source(frame: FrameWriter, evaluator: DeadlineEvaluator | PassEvaluator) -> None:
    """Write the source of the queries; nothing of a pulled one."""
    source = evaluator.source
    frame.number(SOURCES.index(type(source)))
    if isinstance(source, MarkedSketch):
        frame.blob(source.to_bytes())
    elif isinstance(source, WindowSource):
        assert isinstance(evaluator, PassEvaluator)
        frame.number(isinstance(source.window, RecentWindow))
        frame.blob(source.window.to_bytes())
        frame.number(source.last or 0)
        frame.fraction(source.within)
        frame.number(evaluator.evaluated_at + 1)
        frame.number(evaluator.reserve)
        frame.number(source.member)


def _read_source(
    frame: FrameReader, pull: Pull | None, grows: bool, tail: float | None
) -> tuple[MarkedSketch | WindowSource | PulledSource, int, int]:
    """Return the source of the queries; for a window, `evaluated_at` and `reserve` of its evaluator too."""
    source = SOURCES[frame.number(len(SOURCES) - 1)]
    if (source is PulledSource) != (pull is not None):
        advice = "follows its source: give pull=" if pull is None else "does not follow a source: leave out pull="
        raise InvalidArgumentError(f"the monitor that wrote these bytes {advice}")
    if pull is not None:
        return PulledSource(pull, frame.eps, frame.kind, grows, tail), -1, 0
    if source is MarkedSketch:
        sketch = MarkedSketch.from_bytes(frame.blob())
        frame.require(sketch.eps == frame.eps and sketch.type == frame.kind)
        return sketch, -1, 0
    kind = RecentWindow if frame.number(1) else SlidingWindow
    window, last, within = kind.from_bytes(frame.blob()), frame.number(MAX_N) or None, frame.fraction()
    evaluated_at, reserve = frame.number(MAX_N + 1) - 1, frame.number(MAX_N)
    member = frame.version > 2 and bool(frame.number(1))
    frame.require(evaluated_at <= window.arrived and window.type == frame.kind and not (member and reserve))
    try:
        return WindowSource(window, frame.eps, last, within, member), evaluated_at, reserve
    except InvalidArgumentError as error:
        raise CorruptBytesError(f"these bytes are not a monitor: {error}") from error


def _write_registry(frame: FrameWriter, r: QueryRegistry, carrier: np.dtype[Any]) -> None:
    r.published = r.published.astype(carrier, copy=False)  # before anything is published it is only capacity
    frame.number(r.used)
    for name in r.FIELDS:
        frame.array(getattr(r, name)[: r.used])
    frame.number(len(r.free))
    frame.array(np.array(r.free, dtype=np.int64))


def _read_registry(frame: FrameReader, r: QueryRegistry, tail: float | None) -> None:
    r.used = frame.number(MAX_NUMBER)
    carrier = frame.kind.carrier if frame.kind else np.dtype(np.float64)
    limit_type = np.dtype(np.float64) if carrier.kind == "f" else carrier
    for name in r.FIELDS:
        dtype = {"published": carrier, "limit": limit_type}.get(name, getattr(r, name).dtype)
        setattr(r, name, _read_array(frame, dtype, r.used))
    r.free = frame.array(np.dtype(np.int64), frame.number(r.used)).tolist()
    dropped, retired = r.slot == DROPPED, r.uses > MAX_USES
    r.retired = int(np.count_nonzero(retired))
    frame.require(sorted(r.free) == np.flatnonzero(dropped & ~retired).tolist() and bool(dropped[retired].all()))
    frame.require(bool((r.slot >= DROPPED).all() and (r.uses >= 0).all() and (r.uses <= MAX_USES + 1).all()))
    finest = finest_precisions(r.phi, frame.eps, tail)
    frame.require(bool(((r.phi >= 0) & (r.phi <= 1) & (r.eps >= finest) & (r.eps < 1))[~dropped].all()))
    if isinstance(r, Conditions):
        frame.require(bool((r.slot <= UNCLUSTERED).all() and (r.state >= 0).all() and (r.state <= CERTAIN).all()))
        frame.require(bool((r.published_state >= UNPUBLISHED).all() and (r.published_state <= CERTAIN).all()))


def _write_clusters(frame: FrameWriter, c: QueryClusters) -> None:
    frame.number(c.used)
    frame.number(len(c))
    frame.array(c.span[: c.used])
    frame.array(c.ranks[: c.used])
    for name in SLOT_ARRAYS:
        frame.array(getattr(c, name)[: c.used])
    frame.array(c.ordered)


def _read_clusters(frame: FrameReader, evaluator: Evaluator) -> QueryClusters:
    """Return the clusters; raise if an index is out of range or the order does not match them."""
    frame.require(frame.kind is not None)
    c, ints, slots = QueryClusters(evaluator.source.kind.carrier), np.dtype(np.int64), evaluator.queries.slot
    used, k = frame.number(MAX_NUMBER), frame.number(MAX_NUMBER)
    frame.require(k <= used)
    c.used = used
    c.span = frame.array(np.dtype(np.float64), 2 * used).reshape(-1, 2)
    c.ranks = frame.array(ints, 4 * used).reshape(-1, 4)
    for name in SLOT_ARRAYS:
        setattr(c, name, _read_array(frame, getattr(c, name).dtype, used))
        if name == "due" and frame.version < 3:
            frame.array(ints, used)  # indexes in a heap of deadlines
    c.order = np.concatenate(([k], frame.array(ints, k), np.zeros(used - k, ints)))
    if frame.version < 3:
        frame.array(ints, k)  # the heap
    frame.require(bool((slots < used).all()) and all(_all_below(a, used) for a in (c.root, c.newest, c.ordered)))
    is_cluster = np.bincount(c.ordered, minlength=used)
    frame.require(bool((is_cluster <= 1).all()))
    c.unevaluated[0] = (c.due[c.ordered] < 0).any()
    spans = c.span[c.ordered]
    frame.require(bool((spans >= 0).all() and (spans <= 1).all() and (spans[:, 0] <= spans[:, 1]).all()))
    frame.require(bool((np.diff(spans, axis=0) > 0).all()) and _all_below(c.ranks[:, 2:], MAX_N + 1))
    frame.require(_all_below(c.ranks[:, :2] + MAX_N, 3 * MAX_N))  # with a reserve, ranks may be below 1
    frame.require(np.array_equal(np.bincount(slots[slots >= 0], minlength=used), c.sizes))
    for _ in range(used.bit_length()):  # every slot leads to a cluster: there are no cycles
        c.root = c.root[c.root]
    frame.require(bool((c.root[c.root] == c.root).all() and (is_cluster[c.root[c.sizes > 0]] > 0).all()))
    members = np.bincount(c.root, weights=c.sizes, minlength=used).astype(np.int64)
    frame.require(np.array_equal(members[c.ordered], c.members[c.ordered]) and bool((members[c.ordered] > 0).all()))
    return c


def _read_array(frame: FrameReader, dtype: np.dtype[Any], count: int) -> Any:
    """Return an array; raise on NaN, and on flags other than 0 and 1."""
    flags = dtype.kind == "b"
    array = frame.array(np.dtype(np.uint8) if flags else dtype, count)
    frame.require(bool((array <= 1).all() if flags else (array == array).all()))
    return array.astype(dtype)


def _all_below(numbers: Any, end: int) -> bool:
    return bool((numbers >= 0).all() and (numbers < end).all())


def _format_limit(limit: Any) -> str:
    number = limit.item() if isinstance(limit, np.generic) else limit
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise InvalidArgumentError(
            f"the limit {limit!r} was given before the type of values was known, and only numbers can be stored so; "
            "feed a value first, or give value_type to the monitor"
        )
    return repr(number)
