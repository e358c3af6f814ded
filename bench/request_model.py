"""Requests to an object store, by formulas that are checked against counts.

A formula returns the requests of one kind of work. `stream_requests` adds them up for a table over some time.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bench.cost_measure import open_step
from bench.cost_model import DAY, Use, made_runs, run_steps
from bench.report import Row
from bench.request_prices import RequestCounts
from quantide.history.compaction_plan import file_count
from quantide.history.recent_writer import FANOUT
from quantide.store.data_file import BLOCK
from quantide.store.location import READ_BYTES
from quantide.store.log_maintenance import TRIM_INTERVAL, checkpoint_interval
from quantide.store.object_lease import RENEW_SECONDS
from quantide.store.object_storage import FOOTER_BYTES, PART_BYTES, ObjectStorage

REQUEST_TOLERANCE = 0.1  # of all requests of a work: a formula further away from a count is off
VACUUM_SECONDS = 600.0  # between two vacuums of `quantide ingest`
PAGE = 1000  # names in an answer to a list request


def uploads(size: float, files: float = 1) -> float:
    """Return the PUT requests of files with so many bytes together: parts of 8 MiB, with a begin and an end.

    >>> uploads(1_000), uploads(9 << 20), uploads(18 << 20, files=2)
    (1, 4, 8)
    """
    each = size / files
    return files * (1 if each <= PART_BYTES else math.ceil(each / PART_BYTES) + 2)


def append(data: float, side: float, recent: float, files: float, values: float = 0) -> RequestCounts:
    """Write data and index files, recent rows with their manifest, and an entry of the log; read the index files."""
    written = uploads(data, files) + uploads(side, files) + (uploads(recent) + 1 if recent else 0)
    return RequestCounts(put=written + 1, get=files)


def follow(files: float, recent: float, values: float = 0) -> RequestCounts:
    """Read an entry, find no next one, read index files and recent rows."""
    return RequestCounts(get=2 + files + bool(recent))


def merge(
    values: float, data: float, side: float, inputs: float, outputs: float, merges: float, ends: float
) -> RequestCounts:
    """Read every input twice: in large pieces for its checksum, block by block for its rows; write the outputs.

    The end of a file comes with its footer. `ends`: steps that end, each with an entry of the log.
    """
    each, blocks = data / inputs, max(1.0, values / inputs / BLOCK)
    read = math.ceil(max(0.0, each - FOOTER_BYTES) / (each / blocks)) + math.ceil(
        max(0.0, each - FOOTER_BYTES) / READ_BYTES
    )
    written = uploads(data, outputs) + uploads(side, outputs) + merges + ends
    return RequestCounts(put=written, get=inputs * (2 + read) + outputs)


def checkpoint(entries: float) -> RequestCounts:
    """List the log, read the last checkpoint and the entries after it; write a checkpoint and its hint."""
    return RequestCounts(put=2, get=1 + entries, list=1)


def opening(files: float, entries: float) -> RequestCounts:
    """List the log, read the checkpoint, the entries after it, and all index files."""
    return RequestCounts(get=1 + entries + files, list=1)


def vacuum(files: float) -> RequestCounts:
    """List data, index, recent and retired files and the log; read the end of the log."""
    return RequestCounts(get=3, list=3 + 2 * math.ceil(files / PAGE))


FORMULAS: Mapping[str, Callable[..., RequestCounts]] = {
    "append": append,
    "follow": follow,
    "poll": lambda: RequestCounts(get=1),
    "merge": merge,
    "checkpoint": checkpoint,
    "open": opening,
    "cold query": lambda runs: RequestCounts(get=2 * runs),  # the end of a file and a block, of each run
    "warm query": lambda runs: RequestCounts(get=runs),
    "vacuum": vacuum,
}


def predicted(row: Row) -> RequestCounts:
    """Return the requests of a counted row by the formula of its work."""
    sizes = {name: value for name, value in row.items() if name not in ("work", *RequestCounts._fields)}
    return FORMULAS[row["work"]](**sizes)


@dataclass(frozen=True)
class StreamLoad:
    """Steps of one table with equal appends; `data`, `side` and `recent` return bytes of so many rows.

    `window`: appends whose rows are recent; `polls`: of all live readers; `seconds`: for which a writer has the lease.
    """

    steps: int
    appends: int
    rows: int
    kappa: int
    window: float
    data: Callable[[float], float]
    side: Callable[[float], float]
    recent: Callable[[float], float]
    readers: int = 1
    polls: float = 0
    seconds: float = 0
    vacuums: float = 0
    files: int = 0


def stream_requests(load: StreamLoad) -> dict[str, RequestCounts]:
    """Return the requests of a stream by kind of work."""
    rows, appends, files = load.rows, load.steps * load.appends, file_count(load.rows, 0)
    merges = list(planned_merges(load))
    merged, number = sum(one.count * one.rows for one in merges), sum(one.count for one in merges)
    outputs, side = sum(one.files for one in merges), sum(one.count * load.side(one.rows) for one in merges)
    inputs = appends * files + outputs
    compactions = appends * sum(FANOUT**-k for k in range(1, 10) if FANOUT**k <= load.window)
    compacted = RequestCounts(put=uploads(load.recent(FANOUT * rows)) + 2, get=FANOUT)
    commits, interval = appends + number + load.steps + compactions, checkpoint_interval(load.files)
    trims = RequestCounts(get=1, list=1).times(commits // TRIM_INTERVAL)
    follows = load.polls + load.readers * (commits + appends * (files + 1) + outputs + compactions)
    return {
        "appends": append(load.data(rows), load.side(rows), load.recent(rows), files).times(appends),
        "merges": merge(merged, load.data(merged), side, inputs, max(1, outputs), number, load.steps),
        "recent rows": compacted.times(compactions),
        "checkpoints": checkpoint(interval).times(commits / interval).plus(trims),
        "vacuums": vacuum(load.files).times(load.vacuums),
        "the lease": RequestCounts(put=load.seconds / RENEW_SECONDS),
        "live readers": RequestCounts(get=follows),
    }


@dataclass(frozen=True)
class PlannedMerges:
    """Merges into runs of a level: their number and the rows of each run."""

    count: float
    rows: float
    level: int

    @property
    def files(self) -> float:
        return self.count * file_count(math.ceil(self.rows), self.level)


def planned_merges(load: StreamLoad) -> Iterator[PlannedMerges]:
    """Yield the merges within steps, and those of each level."""
    step, rows = open_step(load.appends, load.rows), load.appends * load.rows
    if step["merges"]:
        yield PlannedMerges(load.steps * step["merges"], rows * step["rewritten"] / step["merges"], 0)
    for level, count in list(enumerate(made_runs(load.steps, load.kappa)))[1:]:
        yield PlannedMerges(count, rows * run_steps(level, load.kappa), level)


def small_stream(row: Row) -> StreamLoad:
    """Return the load of a counted stream: its files are small, and a reader polls once after each append."""
    appends = row["steps"] * row["appends"]
    return StreamLoad(
        steps=row["steps"],
        appends=row["appends"],
        rows=row["values"],
        kappa=row["kappa"],
        window=appends,
        data=lambda rows: 8 * rows,
        side=lambda rows: 8 * rows,
        recent=lambda rows: 8 * rows,
        polls=appends,
    )


def day_requests(use: Use) -> dict[str, RequestCounts]:
    """Return the requests of all tables of a size, in an average day of its year."""
    t, tables = use.target, use.tables
    f, keys = {name: one.predict for name, one in use.fits.items()}, t.keys / tables
    load = StreamLoad(
        steps=use.steps,
        appends=t.step // t.every,
        rows=math.ceil(t.values * t.every / DAY / tables),
        kappa=t.kappa,
        window=t.window / t.every,
        data=lambda rows: f["data"](values=rows, touched=min(keys, rows)),
        side=lambda rows: f["side"](values=rows, touched=min(keys, rows), eps=use.run_eps),
        recent=lambda rows: f["recent"](values=rows, touched=min(keys, rows)),
        polls=t.days * DAY / ObjectStorage.poll_seconds,
        seconds=t.days * DAY,
        vacuums=t.days * DAY / VACUUM_SECONDS,
        files=use.files // tables,
    )
    return {name: counts.times(tables / t.days) for name, counts in stream_requests(load).items()}


def total(works: Mapping[str, RequestCounts]) -> RequestCounts:
    return RequestCounts(*map(sum, zip(*works.values(), strict=True)))
