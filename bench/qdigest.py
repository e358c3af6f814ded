"""q-digest, the baseline over a universe of 32 bits, compiled."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.kernels.jit import compiled

Ints = NDArray[np.int64]
Ordinals = NDArray[np.uint32]
Values = NDArray[np.float32]

BITS = 32  # log2 of the universe
FIRST_LEAF = 1 << BITS  # nodes are numbered as in a heap: root 1, children of i are 2i and 2i+1
SIGN = np.uint32(1 << 31)


class QDigest:
    """A q-digest of float32 values (Shrivastava, Buragohain, Agrawal, Suri: Medians and Beyond, SenSys 2004).

    The answer's rank is within `eps * n` of the target, `eps = log2(U) / k` with U = 2^32. The answer is the upper end
    of a node's range and need not be a value that arrived. Values enter the tree in batches of at least 3k.
    """

    def __init__(self, eps: float, batch: int | None = None) -> None:
        if not 0 < eps < 1:
            raise ValueError(f"eps must lie in (0, 1), not {eps}")
        self.eps, self.k, self.n, self._waiting = eps, int(np.ceil(BITS / eps)), 0, 0
        self._ids, self._counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self._batch = np.empty(batch or max(65_536, 3 * self.k), np.uint32)

    def update(self, values: ArrayLike) -> None:
        block, start = np.atleast_1d(np.asarray(values)), 0
        while start < len(block):
            room = self._batch[self._waiting :][: len(block) - start]
            room[:] = ordinals(block[start : start + len(room)])
            self._waiting, self.n, start = self._waiting + len(room), self.n + len(room), start + len(room)
            if self._waiting == len(self._batch):
                self._flush()

    def quantiles(self, phis: ArrayLike) -> Values:
        if self.n == 0:
            raise ValueError("an empty digest has no quantiles; update it first")
        self._flush()
        level = np.frexp(self._ids.astype(np.float64))[1].astype(np.int64) - 1
        sizes = np.int64(1) << (BITS - level)
        ends = (self._ids - (np.int64(1) << level) + 1) * sizes - 1  # the largest value of a node's range
        order = np.lexsort((sizes, ends))  # post-order: by upper end, smaller ranges first
        target = np.maximum(1.0, np.ceil(np.asarray(phis, np.float64) * self.n - 1e-9))
        return values_of(ends[order][np.searchsorted(np.cumsum(self._counts[order]), target)].astype(np.uint32))

    def quantile(self, phi: float) -> np.float32:
        return np.float32(self.quantiles([phi])[0])

    @property
    def nodes(self) -> int:
        self._flush()
        return len(self._ids)

    def _flush(self) -> None:
        if self._waiting:
            leaves, self._waiting = np.sort(self._batch[: self._waiting]), 0
            self._ids, self._counts = _compress(*_absorb(self._ids, self._counts, leaves), self.n // self.k)


def ordinals(values: Values) -> Ordinals:
    """Return 32-bit integers in the order of the values; -0.0 counts as 0.0."""
    if values.dtype != np.float32:
        raise TypeError(f"q-digest takes float32, not {values.dtype}")
    bits = (values + np.float32(0)).view(np.uint32)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def values_of(numbers: Ordinals) -> Values:
    """Return the values of ordinals."""
    return np.where(numbers >> 31, numbers ^ SIGN, ~numbers).astype(np.uint32).view(np.float32)


@compiled
def _absorb(ids: Ints, counts: Ints, leaves: Ordinals) -> tuple[Ints, Ints]:
    """Add sorted new values to the leaves, which are the last nodes, ordered by number."""
    out_ids, out_counts = np.empty((2, len(ids) + len(leaves)), np.int64)
    node, leaf, size = 0, 0, 0
    while node < len(ids) or leaf < len(leaves):
        fresh = FIRST_LEAF + np.int64(leaves[leaf]) if leaf < len(leaves) else np.int64(-1)
        if fresh < 0 or (node < len(ids) and ids[node] <= fresh):
            new, count = ids[node], counts[node]
            node += 1
        else:
            new, count = fresh, np.int64(1)
            leaf += 1
        if size and out_ids[size - 1] == new:
            out_counts[size - 1] += count
        else:
            out_ids[size], out_counts[size], size = new, count, size + 1
    return out_ids[:size].copy(), out_counts[:size].copy()


@compiled
def _compress(ids: Ints, counts: Ints, threshold: int) -> tuple[Ints, Ints]:
    """Move two siblings into their parent when the three together hold at most `threshold` = floor(n/k).

    Bottom-up; each level is walked from its largest number down.
    """
    if threshold == 0:
        return ids, counts
    out_ids, out_counts, moved_ids, moved_counts, level_ids, level_counts = np.empty((6, len(ids)), np.int64)
    free = end = len(ids)  # the result fills up from the end
    moved = 0
    for level in range(BITS, -1, -1):
        first = np.int64(1) << level
        size, a = 0, 0
        while a < moved or (end > 0 and ids[end - 1] >= first):
            own = ids[end - 1] if end > 0 and ids[end - 1] >= first else np.int64(-1)
            sent = moved_ids[a] if a < moved else np.int64(-1)
            level_ids[size], level_counts[size] = max(own, sent), 0
            if sent >= own:
                level_counts[size] += moved_counts[a]
                a += 1
            if own >= sent:
                level_counts[size] += counts[end - 1]
                end -= 1
            size += 1
        moved, above, i = 0, end - 1, 0  # `above` walks over the level of the parents
        while i < size:
            pair = 2 if i + 1 < size and level_ids[i + 1] == level_ids[i] ^ 1 else 1
            total = level_counts[i] + (level_counts[i + 1] if pair == 2 else 0)
            parent = level_ids[i] >> 1
            while above >= 0 and ids[above] > parent:
                above -= 1
            in_parent = counts[above] if above >= 0 and ids[above] == parent else 0
            if level > 0 and total + in_parent <= threshold:
                moved_ids[moved], moved_counts[moved], moved = parent, total, moved + 1
            else:
                for j in range(i, i + pair):
                    free -= 1
                    out_ids[free], out_counts[free] = level_ids[j], level_counts[j]
            i += pair
    return out_ids[free:].copy(), out_counts[free:].copy()
