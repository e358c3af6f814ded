"""A monitor as bytes: everything but its listeners, so that it goes on exactly as if never stopped."""

from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.queries.board import TOGETHER, UPDATES, Board
from quantide.queries.clusters import CLUSTERINGS, Clusters
from quantide.queries.conditions import CERTAIN, UNTOLD, Conditions
from quantide.queries.deadlines import DeadlineBoard
from quantide.queries.passes import PassBoard
from quantide.queries.pulled import Pull, PulledSource
from quantide.queries.registry import GONE, LAST_USE, NEW, Registry
from quantide.queries.source import MarkedSketch
from quantide.queries.windowed import WindowSource
from quantide.sketches.frame import FrameReader, FrameWriter
from quantide.summary.ranks import MAX_N
from quantide.windows.recent import RecentWindow
from quantide.windows.sliding import SlidingWindow

MAGIC = b"QTM"
MOST = 2**62
SOURCES = (MarkedSketch, WindowSource, PulledSource)

SLOTS = ("value", "told", "told_known", "due", "place", "root", "members", "sizes", "newest")


def write(board: DeadlineBoard | PassBoard, conditions: Conditions) -> bytes:
    stream = board.stream
    frame = FrameWriter(MAGIC, stream.type, stream.eps, False, stream.nulls, stream.nans)
    _write_source(frame, board)
    choices = CLUSTERINGS.index(board.clustering), UPDATES.index(board.updates), board.recluster_after or 0
    first_due = board.first_due if isinstance(board, DeadlineBoard) else -1
    for number in (*choices, board.stale, board.changed, first_due + 1, *board.counts.values()):
        frame.number(int(number))
    for held in (board.queries, conditions):
        _write_registry(frame, held, stream.kind.carrier)
    frame.number(len(conditions.raw))
    for place, limit in conditions.raw.items():
        frame.number(place)
        frame.text(_limit_text(limit))
    frame.number(board.clusters is not None)
    if board.clusters is not None:
        _write_clusters(frame, board.clusters)
    frame.number(stream.marked)
    if isinstance(stream, MarkedSketch):
        marks = stream.marks()
        frame.number(stream.marked_at)
        frame.summaries([] if marks is None else [marks])
    return frame.finish()


def read(data: bytes, pull: Pull | None, grows: bool) -> tuple[DeadlineBoard | PassBoard, Conditions]:
    """A board and conditions; `pull` and `grows` are about what a monitor that follows is to follow now."""
    frame = FrameReader(MAGIC, data)
    stream, looked_at, reserve = _read_source(frame, pull, grows)
    clustering, updates = CLUSTERINGS[frame.number(len(CLUSTERINGS) - 1)], UPDATES[frame.number(len(UPDATES) - 1)]
    often, conditions = frame.number(MOST) or None, Conditions()
    stale, changed, first_due = bool(frame.number(1)), frame.number(MOST), frame.number(MOST + 1) - 1
    board: DeadlineBoard | PassBoard
    if isinstance(stream, MarkedSketch):
        board = DeadlineBoard(stream, clustering, updates, often)
        board.first_due = first_due
    else:
        board = PassBoard(stream, clustering, updates, often)
        board.looked_at, board.reserve = looked_at, reserve
    board.stale, board.changed = stale, changed
    board.counts = {name: frame.number(MOST) for name in board.counts}
    for held in (board.queries, conditions):
        _read_registry(frame, held)
    for _ in range(frame.number(len(conditions))):
        place, text = frame.number(conditions.used - 1), frame.text()
        try:
            conditions.raw[place] = int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            frame.require(False)
    if frame.number(1):
        board.clusters = _read_clusters(frame, board)
    frame.require(board.clusters is not None or bool((board.queries.slot < 0).all()))
    stream.marked = frame.number(MOST)
    if isinstance(stream, MarkedSketch):
        stream.marked_at = frame.number(MAX_N)
        for marks in frame.summaries():
            frame.require(marks.n == stream.n and len(marks) > 1)
            stream.set_marks(marks, stream.marked_at)
    frame.finish()
    return board, conditions


def _write_source(frame: FrameWriter, board: DeadlineBoard | PassBoard) -> None:
    """What the queries are over; of what is followed, nothing."""
    source = board.stream
    frame.number(SOURCES.index(type(source)))
    if isinstance(source, MarkedSketch):
        frame.blob(source.to_bytes())
    elif isinstance(source, WindowSource):
        assert isinstance(board, PassBoard)
        frame.number(isinstance(source.window, RecentWindow))
        frame.blob(source.window.to_bytes())
        frame.number(source.last or 0)
        frame.fraction(source.within)
        frame.number(board.looked_at + 1)
        frame.number(board.reserve)


def _read_source(
    frame: FrameReader, pull: Pull | None, grows: bool
) -> tuple[MarkedSketch | WindowSource | PulledSource, int, int]:
    """What the queries are over; for a window, how many had arrived when it was looked at, and the reserve."""
    source = SOURCES[frame.number(len(SOURCES) - 1)]
    if (source is PulledSource) != (pull is not None):
        follows = "follows its source: give pull=" if pull is None else "does not follow a source: leave out pull="
        raise InvalidArgumentError(f"the monitor that wrote these bytes {follows}")
    if pull is not None:
        return PulledSource(pull, frame.eps, frame.kind, grows), -1, 0
    if source is MarkedSketch:
        sketch = MarkedSketch.from_bytes(frame.blob())
        frame.require(sketch.eps == frame.eps and sketch.type == frame.kind)
        return sketch, -1, 0
    kind = RecentWindow if frame.number(1) else SlidingWindow
    window, last, within = kind.from_bytes(frame.blob()), frame.number(MAX_N) or None, frame.fraction()
    looked_at, reserve = frame.number(MAX_N + 1) - 1, frame.number(MAX_N)
    frame.require(looked_at <= window.arrived and window.type == frame.kind)
    try:
        return WindowSource(window, frame.eps, last, within), looked_at, reserve
    except InvalidArgumentError as error:
        raise CorruptBytesError(f"these bytes are not a monitor: {error}") from error


def _write_registry(frame: FrameWriter, held: Registry, carrier: np.dtype[Any]) -> None:
    held.told = held.told.astype(carrier, copy=False)  # before anything is told it is just room
    frame.number(held.used)
    for name in held.FIELDS:
        frame.array(getattr(held, name)[: held.used])
    frame.number(len(held.free))
    frame.array(np.array(held.free, dtype=np.int64))


def _read_registry(frame: FrameReader, held: Registry) -> None:
    held.used = frame.number(MOST)
    carrier = frame.kind.carrier if frame.kind else np.dtype(np.float64)
    wide = np.dtype(np.float64) if carrier.kind == "f" else carrier
    for name in held.FIELDS:
        dtype = {"told": carrier, "limit": wide}.get(name, getattr(held, name).dtype)
        setattr(held, name, _array(frame, dtype, held.used))
    held.free = frame.array(np.dtype(np.int64), frame.number(held.used)).tolist()
    gone, worn = held.slot == GONE, held.uses > LAST_USE
    held.retired = int(np.count_nonzero(worn))
    frame.require(sorted(held.free) == np.flatnonzero(gone & ~worn).tolist() and bool(gone[worn].all()))
    frame.require(bool((held.slot >= GONE).all() and (held.uses >= 0).all() and (held.uses <= LAST_USE + 1).all()))
    frame.require(bool(((held.phi > 0) & (held.phi <= 1) & (held.eps >= frame.eps) & (held.eps < 1)).all()))
    if isinstance(held, Conditions):
        frame.require(bool((held.slot <= NEW).all() and (held.state >= 0).all() and (held.state <= CERTAIN).all()))
        frame.require(bool((held.said >= UNTOLD).all() and (held.said <= CERTAIN).all()))


def _write_clusters(frame: FrameWriter, c: Clusters) -> None:
    frame.number(c.used)
    frame.number(len(c))
    frame.array(c.span[: c.used])
    frame.array(c.ranks[: c.used])
    for name in SLOTS:
        frame.array(getattr(c, name)[: c.used])
    frame.array(c.ordered)
    frame.array(c.heap[1 : len(c) + 1])


def _read_clusters(frame: FrameReader, board: Board) -> Clusters:
    """The clusters, refused when a number leads out of them or the order and the heap are of other clusters."""
    frame.require(frame.kind is not None)
    c, ints, slots = Clusters(board.stream.kind.carrier), np.dtype(np.int64), board.queries.slot
    used, k = frame.number(MOST), frame.number(MOST)
    frame.require(k <= used)
    c.used = used
    c.span = frame.array(np.dtype(np.float64), 2 * used).reshape(-1, 2)
    c.ranks = frame.array(ints, 4 * used).reshape(-1, 4)
    for name in SLOTS:
        setattr(c, name, _array(frame, getattr(c, name).dtype, used))
    c.order, c.heap = (np.concatenate(([k], frame.array(ints, k), np.zeros(used - k, ints))) for _ in range(2))
    heap = c.heap[1 : k + 1]
    frame.require(bool((slots < used).all()) and all(_within(a, used) for a in (c.root, c.newest, c.ordered, heap)))
    frame.require(bool((c.place >= 0).all()) and np.array_equal(np.sort(c.ordered), np.flatnonzero(c.place)))
    frame.require(np.array_equal(c.place[heap], np.arange(1, k + 1)))
    early = board.updates == TOGETHER or bool((c.due[heap[(np.arange(2, k + 1) // 2) - 1]] <= c.due[heap[1:]]).all())
    frame.require(early)
    spans = c.span[c.ordered]
    frame.require(bool((spans >= 0).all() and (spans <= 1).all() and (spans[:, 0] <= spans[:, 1]).all()))
    frame.require(bool((np.diff(spans, axis=0) > 0).all()) and _within(c.ranks[:, 2:], MAX_N + 1))
    frame.require(_within(c.ranks[:, :2] + MAX_N, 3 * MAX_N))  # a reserve may put ranks below the first
    frame.require(np.array_equal(np.bincount(slots[slots >= 0], minlength=used), c.sizes))
    for _ in range(used.bit_length()):  # every slot leads to a cluster, not round in circles
        c.root = c.root[c.root]
    frame.require(bool((c.root[c.root] == c.root).all() and (c.place[c.root[c.sizes > 0]] > 0).all()))
    members = np.bincount(c.root, weights=c.sizes, minlength=used).astype(np.int64)
    frame.require(np.array_equal(members[c.ordered], c.members[c.ordered]) and bool((members[c.ordered] > 0).all()))
    return c


def _array(frame: FrameReader, dtype: np.dtype[Any], count: int) -> Any:
    """An array as it was written; no NaN, and flags that are 0 or 1."""
    flags = dtype.kind == "b"
    array = frame.array(np.dtype(np.uint8) if flags else dtype, count)
    frame.require(bool((array <= 1).all() if flags else (array == array).all()))
    return array.astype(dtype)


def _within(numbers: Any, end: int) -> bool:
    return bool((numbers >= 0).all() and (numbers < end).all())


def _limit_text(limit: Any) -> str:
    plain = limit.item() if isinstance(limit, np.generic) else limit
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise InvalidArgumentError(
            f"the limit {limit!r} was given before the type of values was known, and only numbers can be stored so; "
            "feed a value first, or give value_type to the monitor"
        )
    return repr(plain)
