"""q-digest, the baseline over a universe of 32 bits, compiled."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.kernels.jit import compiled

Ints = NDArray[np.int64]

BITS = 32  # log2 of the universe
FIRST_LEAF = 1 << BITS  # nodes are numbered as in a heap: root 1, children of i are 2i and 2i+1


class QDigest:
    """A q-digest of 32-bit integers or float32 values.

    Guarantee: the answer's rank is within `eps * n` of the target, `eps = log2(U) / k` with
    U = 2^32; at most 3k nodes after a compress. The answer is the upper end of a node's range
    and need not be a value that arrived.

    New values are collected and enter the tree in batches of at least 3k: a compress costs
    O(1) passes of the tree over a batch of the tree's size, which is the amortised form of the
    paper's "compress after every so many arrivals".

    Shrivastava, Buragohain, Agrawal, Suri: Medians and Beyond, SenSys 2004, sections 3 and 4.

    >>> digest = QDigest(eps=0.01)
    >>> digest.update(np.arange(100_000, dtype=np.uint32))
    >>> bool(abs(digest.quantile(0.5) - 50_000) <= 1_000)
    True
    """

    def __init__(self, eps: float, batch: int | None = None) -> None:
        if not 0 < eps < 1:
            raise ValueError(f"eps must lie in (0, 1), not {eps}")
        self.eps = eps
        self.k = int(np.ceil(BITS / eps))
        self.n = 0
        self.dtype: np.dtype[Any] | None = None
        self._ids: Ints = np.empty(0, np.int64)
        self._counts: Ints = np.empty(0, np.int64)
        self._batch = np.empty(batch or max(65_536, 3 * self.k), np.uint32)
        self._waiting = 0

    def update(self, values: ArrayLike) -> None:
        block = np.atleast_1d(np.asarray(values))
        if self.dtype is None:
            self.dtype = block.dtype
        elif block.dtype != self.dtype:
            raise TypeError(f"this digest holds {self.dtype}, not {block.dtype}")
        start = 0
        while start < len(block):
            taken = min(len(self._batch) - self._waiting, len(block) - start)
            room = self._batch[self._waiting : self._waiting + taken]
            room[:] = ordinals(block[start : start + taken])
            self._waiting += taken
            self.n += taken
            start += taken
            if self._waiting == len(self._batch):
                self._flush()

    def quantiles(self, phis: ArrayLike) -> NDArray[Any]:
        if self.n == 0 or self.dtype is None:
            raise ValueError("an empty digest has no quantiles; update it first")
        self._flush()
        ends, sizes = _ranges(self._ids)
        order = np.lexsort((sizes, ends))  # post-order: by upper end, smaller ranges first
        upto = np.cumsum(self._counts[order])
        target = np.maximum(1.0, np.ceil(np.asarray(phis, np.float64) * self.n - 1e-9))
        return values_of(ends[order][np.searchsorted(upto, target)].astype(np.uint32), self.dtype)

    def quantile(self, phi: float) -> Any:
        return self.quantiles([phi])[0]

    @property
    def nodes(self) -> int:
        self._flush()
        return len(self._ids)

    @property
    def nbytes(self) -> int:
        """Memory now, with the batch."""
        return self._ids.nbytes + self._counts.nbytes + self._batch.nbytes

    def _flush(self) -> None:
        if not self._waiting:
            return
        leaves = np.sort(self._batch[: self._waiting])
        self._waiting = 0
        ids, counts = _absorb(self._ids, self._counts, leaves)
        self._ids, self._counts = _compress(ids, counts, self.n // self.k)


def ordinals(values: NDArray[Any]) -> NDArray[np.uint32]:
    """32-bit integers in the order of the values; -0.0 counts as 0.0."""
    if values.dtype == np.uint32:
        return values
    if values.dtype == np.int32:
        return values.view(np.uint32) ^ np.uint32(1 << 31)
    if values.dtype == np.float32:
        return _float_ordinals((values + np.float32(0)).view(np.uint32))
    raise TypeError(f"q-digest takes uint32, int32 and float32, not {values.dtype}")


def values_of(numbers: NDArray[np.uint32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The inverse of `ordinals`."""
    if dtype == np.uint32:
        return numbers
    if dtype == np.int32:
        return (numbers ^ np.uint32(1 << 31)).view(np.int32)
    bits = np.where(numbers >> 31, numbers ^ np.uint32(1 << 31), ~numbers)
    return bits.astype(np.uint32).view(np.float32)


def _ranges(ids: Ints) -> tuple[Ints, Ints]:
    """Upper end and size of each node's range."""
    level = np.frexp(ids.astype(np.float64))[1].astype(np.int64) - 1
    size = np.int64(1) << (BITS - level)
    return (ids - (np.int64(1) << level) + 1) * size - 1, size


@compiled
def _float_ordinals(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    out = np.empty_like(bits)
    for i in range(len(bits)):
        out[i] = ~bits[i] if bits[i] >> np.uint32(31) else bits[i] | np.uint32(1 << 31)
    return out


@compiled
def _absorb(ids: Ints, counts: Ints, leaves: NDArray[np.uint32]) -> tuple[Ints, Ints]:
    """Add sorted new values to the leaves, which are the last nodes, ordered by number."""
    out_ids = np.empty(len(ids) + len(leaves), np.int64)
    out_counts = np.empty(len(ids) + len(leaves), np.int64)
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
            out_ids[size] = new
            out_counts[size] = count
            size += 1
    return out_ids[:size].copy(), out_counts[:size].copy()


@compiled
def _compress(ids: Ints, counts: Ints, threshold: int) -> tuple[Ints, Ints]:
    """Bottom-up: two siblings move into their parent when the three together hold at most
    `threshold` = floor(n/k). Each level is walked from its largest number down."""
    if threshold == 0:
        return ids, counts
    out_ids, out_counts = np.empty_like(ids), np.empty_like(counts)
    moved_ids, moved_counts = np.empty_like(ids), np.empty_like(counts)
    level_ids, level_counts = np.empty_like(ids), np.empty_like(counts)
    free = len(ids)  # the result fills up from the end
    moved = 0
    end = len(ids)
    for level in range(BITS, -1, -1):
        first = np.int64(1) << level
        size, a = 0, 0
        while a < moved or (end > 0 and ids[end - 1] >= first):
            own = ids[end - 1] if end > 0 and ids[end - 1] >= first else np.int64(-1)
            sent = moved_ids[a] if a < moved else np.int64(-1)
            level_ids[size] = max(own, sent)
            level_counts[size] = 0
            if sent >= own:
                level_counts[size] += moved_counts[a]
                a += 1
            if own >= sent:
                level_counts[size] += counts[end - 1]
                end -= 1
            size += 1
        moved = 0
        above = end - 1  # walks over the level of the parents
        i = 0
        while i < size:
            pair = 2 if i + 1 < size and level_ids[i + 1] == level_ids[i] ^ 1 else 1
            total = level_counts[i] + (level_counts[i + 1] if pair == 2 else 0)
            parent = level_ids[i] >> 1
            while above >= 0 and ids[above] > parent:
                above -= 1
            with_parent = total
            if above >= 0 and ids[above] == parent:
                with_parent += counts[above]
            if level > 0 and with_parent <= threshold:
                moved_ids[moved] = parent
                moved_counts[moved] = total
                moved += 1
            else:
                for j in range(i, i + pair):
                    free -= 1
                    out_ids[free] = level_ids[j]
                    out_counts[free] = level_counts[j]
            i += pair
    return out_ids[free:].copy(), out_counts[free:].copy()
