"""Partials, inside a task: tables go in, one summary for each column (and key) comes out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from quantide.sketches.stream import StreamSketch
from quantide.summary.summaries import Summaries

FAN = 8  # Summaries of one rung that are merged into one of the next
RUNGS = 4  # 8^4 tables of a million rows in one task
ROWS = 1 << 22  # rows that are grouped together: the memory of a task with keys is some ten times their size
# Shares of eps: what a task may use (sketches; or groups and rungs), and each merge of partials after it.
TASK, GROUP, RUNG, MERGE = 1 / 2, 1 / 4, 1 / 16, 1 / 4
ALL = "all"  # the one key of a question without keys


@dataclass(frozen=True)
class Request:
    """What is asked of every task."""

    columns: tuple[str, ...]
    types: tuple[str, ...]  # of the columns, by name
    by: tuple[str, ...]
    eps: float
    nan: str


def summarise(tables: Iterable[pa.Table], request: Request) -> Iterator[tuple[str, Summaries]]:
    """For each column Summaries by key, several that may share keys, each certified within TASK * eps."""
    return _by_key(tables, request) if request.by else _of_all(tables, request)


def _of_all(tables: Iterable[pa.Table], request: Request) -> Iterator[tuple[str, Summaries]]:
    share = TASK * request.eps
    sketches = {
        name: StreamSketch(share, request.nan, kind) for name, kind in zip(request.columns, request.types, strict=True)
    }
    for table in tables:
        for name, sketch in sketches.items():
            sketch.update(table[name])
    for name, sketch in sketches.items():
        yield name, Summaries.from_binary(pa.array([ALL]), [sketch.summary().to_bytes()])


def _by_key(tables: Iterable[pa.Table], request: Request) -> Iterator[tuple[str, Summaries]]:
    rungs: dict[str, Rungs] = {name: Rungs(RUNG * request.eps) for name in request.columns}
    for table in _gathered(tables):
        keys = keys_of(table, request.by)
        for name in request.columns:
            held = Summaries.of(keys, table[name], GROUP * request.eps, request.nan)
            if 2 * len(held.rmin) > len(table):  # so many keys that merging would not make it smaller: let it go
                yield name, held
            else:
                rungs[name].add(held)
    for name, climbed in rungs.items():
        for rung in climbed.held:
            yield from ((name, held) for held in rung)


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Tables of about ROWS rows."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= ROWS:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


class Rungs:
    """Summaries merged FAN at a time; every climb of a rung adds at most `share` to the error."""

    def __init__(self, share: float) -> None:
        self.width = -int(-1 // (2 * share))
        self.held: list[list[Summaries]] = [[]]

    def add(self, summaries: Summaries) -> None:
        rung = 0
        self.held[0].append(summaries)
        while len(self.held[rung]) >= FAN and rung < RUNGS:
            climbing = Summaries.merge(*self.held[rung]).compress(self.width)
            self.held[rung] = []
            rung += 1
            if rung == len(self.held):
                self.held.append([])
            self.held[rung].append(climbing)


def keys_of(table: pa.Table, by: Sequence[str]) -> Any:
    """The keys of a table's rows, as Summaries takes them."""
    if not by:
        return pa.repeat(ALL, len(table))
    if len(by) == 1:
        return table[by[0]]
    return table.select(list(by)).rename_columns([f"key{i}" for i in range(len(by))])


def key_columns(keys: pa.Array, by: Sequence[str]) -> list[pa.Array]:
    """The keys of Summaries, a column for each of `by`."""
    return [keys.field(i) for i in range(len(by))] if len(by) > 1 else [keys] * len(by)


def merge_within(parts: Summaries, eps: float, share: float) -> Summaries:
    """As few tuples as adding share * eps to the error allows; all of them when that would pass eps (or eps is 0)."""
    if eps == 0:
        return parts
    small = parts.compress(-int(-1 // (2 * share * eps)))
    return small if not len(small) or float(small.error.max()) <= eps else parts
