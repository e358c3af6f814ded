"""How many values each level of a StreamSketch keeps, so that its error stays below a budget for ever.

A row of level l stands for leaf * FAN**l values. It keeps every `spacing[l]`-th value of a sorted order, so the
value at place i (from 1) has rank at least i * spacing. Its rank is at most i * spacing + slack; what matters is

    loose[l] = G - 1 = spacing + slack - 1          (G as in Summary)

because that number simply adds up when rows are merged, and thinning a row q-fold adds (q - 1) * spacing:

    loose[0]   = spacing[0] - 1                      a sorted block, every spacing-th value: ranks are exact
    loose[l+1] = FAN * loose[l] + (q - 1) * spacing[l],     spacing[l+1] = q * spacing[l]

The proof is in docs/guarantees/stream.md.
"""

from dataclasses import dataclass
from functools import lru_cache

from quantide.summary.ranks import MAX_N

FAN = 8  # rows of one level that make one of the next
DENSITY = (2, 4, 8, 8, 8, 8, 16, 16, 32, 32, 64)  # values a row keeps at level 0, 1, ..., in units; the last goes on
LEAF_LEAST, LEAF_MOST = 1 << 10, 1 << 18


@dataclass(frozen=True)
class Schedule:
    """For each level: values behind a row, distance between kept values, and how loose their ranks are."""

    size: tuple[int, ...]
    spacing: tuple[int, ...]
    loose: tuple[int, ...]

    @property
    def leaf(self) -> int:
        """Values of a block that is sorted at once."""
        return self.size[0]

    def thinning(self, level: int) -> int:
        """How many merged values of a level make one of the next."""
        return self.spacing[level + 1] // self.spacing[level]

    def length(self, level: int) -> int:
        """How many values a row of this level keeps."""
        kept = self.leaf // self.spacing[0]
        for below in range(level):
            kept = FAN * kept // self.thinning(below)
        return kept

    def within(self, eps: float) -> bool:
        """Whether any mixture of rows, with a sampled open block beside them, is exact or has G <= 2*eps*n."""
        first = self.spacing[0]
        return all(
            (loose == 0 and first == 1) or loose + first <= 2 * eps * size
            for loose, size in zip(self.loose, self.size, strict=True)
        )


@lru_cache(maxsize=256)
def schedule_for(eps: float, leaf: int) -> Schedule:
    """The schedule with the fewest kept values whose error is within eps at every level up to MAX_N."""
    sparse, dense = 1.0 / 64, 4.0 * leaf
    while not _schedule(dense, leaf).within(eps):
        dense *= 4
    while dense / sparse > 1.001:
        middle = (sparse * dense) ** 0.5
        if _schedule(middle, leaf).within(eps):
            dense = middle
        else:
            sparse = middle
    return _schedule(dense, leaf)


def leaf_for(eps: float) -> int:
    """The block to sort at once: large beside what is kept of it, small beside a processor's cache."""
    leaf = LEAF_LEAST
    while leaf < LEAF_MOST and leaf * eps < 64:
        leaf *= 2
    return leaf


def _schedule(unit: float, leaf: int) -> Schedule:
    size, spacing, loose = [leaf], [max(1, int(leaf / (DENSITY[0] * unit)))], [0]
    loose[0] = spacing[0] - 1
    while size[-1] * FAN <= MAX_N:
        level = len(size)
        density = DENSITY[min(level, len(DENSITY) - 1)]
        q = max(1, int(size[-1] * FAN / (density * unit) / spacing[-1]))
        size.append(size[-1] * FAN)
        loose.append(FAN * loose[-1] + (q - 1) * spacing[-1])
        spacing.append(q * spacing[-1])
    return Schedule(tuple(size), tuple(spacing), tuple(loose))
