"""What docs/spark.md says a task holds at most, in bytes, given the tables that it reads.

Which arrays there are is in the code; how many of them live at once was found by measuring.
"""

from collections.abc import Iterable

import pyarrow as pa

from quantide import StreamSketch
from quantide.spark.partials import FAN, ROWS, TASK
from quantide.summary.summaries import Summaries

READ = 4  # times a table: the one before, this one, and what it is decoded from
GROUPED = 6  # times the rows that are grouped together
MERGED = 6  # times the eight summaries that are merged
VALUE, KEY = 16, 40  # bytes of a kept value, of a key
LITTLE = 50_000_000  # bytes that allocators keep for later
MET = 200  # bytes of a value kept by the summaries that meet in a merging task
KEPT = 4  # values that a key keeps, times 1/eps


def stated(tables: Iterable[pa.Table], keys: int, eps: float) -> int:
    """For a question by so many keys, 0 for none."""
    sizes: list[tuple[int, int]] = [(len(table), table.nbytes) for table in tables]
    if not keys:
        sketch = StreamSketch.max_nbytes(TASK * eps, sum(n for n, _ in sizes))
        return LITTLE + READ * max(size for _, size in sizes) + sketch
    groups = _grouped(sizes)
    kept = [min(n // 2, int(KEPT * keys / eps)) for n, _ in groups]  # a group that keeps more leaves at once
    held = [VALUE * values + KEY * min(n, keys) for values, (n, _) in zip(kept, groups, strict=True)]
    eights = [sum(held[i : i + FAN]) for i in range(0, len(held) - FAN + 1, FAN)]
    return LITTLE + max(GROUPED * max(size for _, size in groups) + sum(held), MERGED * max(eights, default=0))


def stated_merge(parts: Iterable[Summaries]) -> int:
    """For a task that merges these."""
    return LITTLE + sum(MET * len(part.rmin) + KEY * len(part) for part in parts)


def _grouped(sizes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rows and bytes of the tables that are grouped together: until there are ROWS rows."""
    groups = [(0, 0)]
    for n, size in sizes:
        if groups[-1][0] >= ROWS:
            groups.append((0, 0))
        groups[-1] = (groups[-1][0] + n, groups[-1][1] + size)
    return groups
