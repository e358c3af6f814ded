"""Number of values kept at each level of a StreamSketch, chosen so that the error stays within a budget at any n.

A row of level l stands for leaf * FAN**l values. It keeps every `spacing[l]`-th value of a sorted order, so the
value at index i (from 1) has rank at least i * spacing. Its rank is at most i * spacing + slack. The decisive number is

    loose[l] = G - 1 = spacing + slack - 1          (G as in Summary)

because it adds up when rows are merged, and thinning a row q-fold adds (q - 1) * spacing:

    loose[0]   = spacing[0] - 1                      a sorted block, every spacing-th value: ranks are exact
    loose[l+1] = FAN * loose[l] + (q - 1) * spacing[l],     spacing[l+1] = q * spacing[l]

The proof is in docs/guarantees/stream.md.
"""

from dataclasses import dataclass
from functools import lru_cache

from quantide.summary.ranks import MAX_N

FAN = 8  # rows of one level that make one of the next
DENSITY = (2, 4, 8, 8, 8, 8, 16, 16, 32, 32, 64)  # kept values per row at level 0, 1, ..., in units; the last repeats
MIN_LEAF, MAX_LEAF = 1 << 10, 1 << 18


@dataclass(frozen=True)
class LevelSchedule:
    """Sizes of each level: values behind a row, distance between kept values, and G - 1 of a row."""

    size: tuple[int, ...]
    spacing: tuple[int, ...]
    loose: tuple[int, ...]

    @property
    def leaf(self) -> int:
        """Number of values in a block that is sorted at once."""
        return self.size[0]

    def thinning(self, level: int) -> int:
        """Return how many merged values of a level make one of the next."""
        return self.spacing[level + 1] // self.spacing[level]

    def row_length(self, level: int) -> int:
        """Return how many values a row of this level keeps."""
        length = self.leaf // self.spacing[0]
        for below in range(level):
            length = FAN * length // self.thinning(below)
        return length

    def is_within(self, eps: float) -> bool:
        """Return True if any mix of rows, together with a sampled open block, is exact or has G <= 2*eps*n."""
        first = self.spacing[0]
        return all(
            (loose == 0 and first == 1) or loose + first <= 2 * eps * size
            for loose, size in zip(self.loose, self.size, strict=True)
        )


@lru_cache(maxsize=256)
def schedule_for(eps: float, leaf: int) -> LevelSchedule:
    """Return the schedule with the fewest kept values whose error is within eps at every level up to MAX_N."""
    sparse, dense = 1.0 / 64, 4.0 * leaf
    while not _schedule(dense, leaf).is_within(eps):
        dense *= 4
    while dense / sparse > 1.001:
        middle = (sparse * dense) ** 0.5
        if _schedule(middle, leaf).is_within(eps):
            dense = middle
        else:
            sparse = middle
    return _schedule(dense, leaf)


def leaf_for(eps: float) -> int:
    """Return the block size: large relative to the values kept of it, small relative to a processor's cache."""
    leaf = MIN_LEAF
    while leaf < MAX_LEAF and leaf * eps < 64:
        leaf *= 2
    return leaf


def _schedule(unit: float, leaf: int) -> LevelSchedule:
    size, spacing, loose = [leaf], [max(1, int(leaf / (DENSITY[0] * unit)))], [0]
    loose[0] = spacing[0] - 1
    while size[-1] * FAN <= MAX_N:
        level = len(size)
        density = DENSITY[min(level, len(DENSITY) - 1)]
        q = max(1, int(size[-1] * FAN / (density * unit) / spacing[-1]))
        size.append(size[-1] * FAN)
        loose.append(FAN * loose[-1] + (q - 1) * spacing[-1])
        spacing.append(q * spacing[-1])
    return LevelSchedule(tuple(size), tuple(spacing), tuple(loose))
