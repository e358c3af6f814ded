"""How recent data is laid out: the sizes of blocks, how long each size is kept, and how coarse a block may be.

Arrivals stand at positions 0, 1, 2, ... The newest `raw` of them are kept as they are. Older ones lie in aligned
blocks of every power-of-two size s, each thinned to a few of its values. The *age* of a place is the number of
arrivals since it. After Arasu and Manku, "Approximate counts and quantiles over sliding windows", PODS 2004; proof in
docs/guarantees/windows.md. In short, for a window of n:

- a block whose end has age a is in use while a < s * (4/eps + 2). So there is a boundary at most eps*n/2 late;
- from there to now, at most one block of each size lies on the rising side, `L + 1` of them, L = log2(4/eps + 3),
  and one of each size on the falling side, whose ages together are below 3n;
- a block that began age a ago may be loose by `room * a` ranks, room = BLOCKS * eps / (L + 4).

So all blocks together are loose by at most BLOCKS * eps * n. The newest values, sorted, are sampled with a step of at
most RAW * eps * n, the late boundary costs eps*n/2, and one rank is left over: together within 2 * eps * n, which is
what an error of eps * n needs.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

CHUNK = 1 << 16  # at least so many arrivals leave the newest ones together, and are sorted together
BLOCKS, RAW, LATE = 1.40, 0.08, 0.50  # of eps * n; two are allowed, and 0.02 * eps * n is at least the one rank left
FEW = 1 << 10  # arrivals that are kept as they are in any case
LEAST = 256  # eps * raw is at least this
STEADY, SPARSE = 12, 104  # the first levels above a chunk may use 1/16 of their room each, later ones 1/SPARSE


@dataclass(frozen=True)
class Layout:
    """The numbers above for one eps."""

    eps: float
    raw: int  # newest arrivals that are kept as they are, at least
    chunk: int  # arrivals that become blocks together
    smallest: int  # the smallest size of a block
    room: float  # ranks that a block may be loose by, for each arrival since its start

    @property
    def most_raw(self) -> int:
        """How many arrivals are kept as they are, at most."""
        return self.raw + self.chunk

    def outlived(self, size: int) -> int:
        """The age of a block's end from which on blocks of this size are not needed."""
        return math.ceil(size * (4 / self.eps + 2))

    def chain_room(self, level: int) -> float:
        """What a block of size chunk * 2**level may be loose by before it is thinned for its age.

        Blocks are made of smaller ones, and each making thins: the room is given out level by level.
        """
        steady, later = min(level + 1, STEADY), max(0, level + 1 - STEADY)
        return min(1.0, steady / 16 + later / SPARSE) * self.room * (self.chunk << level)

    def raw_step(self, n: int) -> int:
        """The step at which the newest values are sampled in an answer about n."""
        return max(1, int(RAW * self.eps * n))


@lru_cache(maxsize=256)
def layout_for(eps: float, most: int | None = None, chunk: int = CHUNK, least: int = LEAST) -> Layout:
    """The layout that keeps every answer about at most `most` arrivals within eps.

    If the newest ones are as many, no more of them are kept. `least` may be as low as 50, for the one rank left over.
    """
    raw = max(chunk, 1 << math.ceil(math.log2(least / eps)))
    if most is not None and most <= raw:
        raw = chunk = max(FEW, 1 << most.bit_length())
    smallest = 1 << max(0, int(math.log2(eps * raw / 2)))
    return Layout(eps, raw, max(chunk, raw // 4), smallest, BLOCKS * eps / blocks_of(eps))


def blocks_of(eps: float) -> float:
    """How many times the room of its oldest block a window's blocks can be loose by together."""
    return math.log2(4 / eps + 3) + 4
