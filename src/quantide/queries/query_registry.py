"""Query registry: phi and precision of every query, as flat arrays that grow together. An id is never used twice."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import InvalidArgumentError, UnknownQueryError
from quantide.summary.ranks import check_phis, read_numbers
from quantide.typing import Array, Bools, Floats, Ints

INDEX_BITS = 32  # bits of an id that are the query's index; the bits above count earlier uses of that index
MAX_USES = (1 << 30) - 1  # an index used so often is retired: ids stay below 2**62, the bit of a condition
DROPPED, UNCLUSTERED = -2, -1  # slots of a query that was dropped, and of one that is in no cluster
ALMOST_ONE = float(np.nextafter(1, 0))
MIN_CAPACITY = 64  # entries of arrays that are allocated first


class QueryRegistry:
    """Arrays of all queries: `slot` leads to a query's cluster; `published` is the last published value without one."""

    FIELDS: tuple[str, ...] = ("phi", "eps", "slot", "uses", "published", "is_published")  # in the order of the bytes

    def __init__(self) -> None:
        self.phi: Floats = np.empty(0)
        self.eps: Floats = np.empty(0)
        self.slot: Ints = np.empty(0, dtype=np.int64)
        self.uses: Ints = np.empty(0, dtype=np.int64)
        self.published: Array = np.empty(0)
        self.is_published: Bools = np.empty(0, dtype=bool)
        self.used = 0  # indices that were ever used
        self.free: list[int] = []
        self.retired = 0  # indices that are neither in use nor free

    def __len__(self) -> int:
        """Number of queries."""
        return self.used - len(self.free) - self.retired

    def add(self, phis: Floats, epss: Floats) -> Ints:
        """Add queries; return their indices, those of dropped queries first."""
        count = len(phis)
        recycled = min(count, len(self.free))
        new = np.arange(self.used, self.used + count - recycled, dtype=np.int64)
        reused = np.array(self.free[len(self.free) - recycled :][::-1], dtype=np.int64)
        del self.free[len(self.free) - recycled :]
        indices = np.concatenate((reused, new)) if recycled else new
        self.used += len(new)
        reserve(self, dict.fromkeys(self.FIELDS, 0), self.used)
        self.phi[indices], self.eps[indices], self.slot[indices] = phis, epss, UNCLUSTERED
        self.is_published[indices] = False
        return indices

    def remove(self, indices: Ints) -> None:
        self.slot[indices] = DROPPED
        self.uses[indices] += 1
        reusable = indices[self.uses[indices] <= MAX_USES]
        self.free.extend(reusable.tolist())
        self.retired += len(indices) - len(reusable)

    def active(self) -> Ints:
        """Indices of all queries."""
        return np.flatnonzero(self.slot[: self.used] != DROPPED)

    def ids(self, indices: Ints) -> Ints:
        return (self.uses[indices] << INDEX_BITS) | indices

    def find(self, id: Any) -> int:
        """Return the index of a query; raise UnknownQueryError if there is none."""
        if isinstance(id, bool) or not isinstance(id, (int, np.integer)):
            raise InvalidArgumentError(f"the id of a query is the number that register() returned, not {id!r}")
        index = int(id) & ((1 << INDEX_BITS) - 1)
        if id < 0 or index >= self.used or self.slot[index] == DROPPED or self.uses[index] != int(id) >> INDEX_BITS:
            raise unknown_query_error(int(id), len(self))
        return index

    def find_many(self, ids: ArrayLike) -> Ints:
        """Return the indices of many queries."""
        array = np.asarray(ids)
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise InvalidArgumentError(f"ids are a list of the numbers that register() returned, not {ids!r}")
        numbers = array.astype(np.int64)
        indices = indices_of(numbers)
        wrong = (numbers < 0) | (indices >= self.used)
        inside = np.where(wrong, 0, indices)
        if self.used:
            wrong |= (self.slot[inside] == DROPPED) | (self.uses[inside] != numbers >> INDEX_BITS)
        if wrong.any():
            raise unknown_query_error(int(numbers[wrong][0]), len(self))
        return indices


def indices_of(ids: Ints) -> Ints:
    """Return the indices in ids."""
    return ids & ((1 << INDEX_BITS) - 1)


def unknown_query_error(id: int, count: int) -> UnknownQueryError:
    return UnknownQueryError(f"no query has the id {id}; it was dropped, or never registered here ({count} are)")


def reserve(owner: object, fields: Mapping[str, int], size: int) -> None:
    """Grow the arrays of a structure until all of them have a capacity of `size` entries; new rows are zeros.

    `fields` maps their names to the rows that each has beside the entries, such as one for a count in front.
    Kernels write to several arrays with one index and check nothing. An array that grew by its own rule would be
    shorter than its neighbours at some sizes, and a kernel would write past its end.
    """
    capacity = min(len(getattr(owner, name)) - beside for name, beside in fields.items())
    if capacity >= size:
        return
    capacity = max(size, 2 * capacity, MIN_CAPACITY)
    for name, beside in fields.items():
        old = getattr(owner, name)
        larger = np.zeros((capacity + beside, *old.shape[1:]), dtype=old.dtype)
        larger[: len(old)] = old
        setattr(owner, name, larger)


def finest_precisions(phis: Floats, eps: float, tail: float | None) -> Floats:
    """Return the finest precision that a query can have at each phi: min(eps, tail * phi, tail * (1 - phi)).

    >>> finest_precisions(np.array([0.5, 0.999, 1.0]), 0.001, 0.01).round(9).tolist()
    [0.001, 1e-05, 0.0]
    """
    if tail is None:
        return np.full(np.shape(phis), eps)
    finest: Floats = np.minimum(eps, tail * np.minimum(phis, 1 - phis))
    return finest


def lowest_phis(shares: Floats, eps: float, tail: float, least: float) -> Floats:
    """Return the phi for each of these shares of n so that phi, less the finest precision there, is that share.

    phi less its precision is the largest of three increasing functions, so its inverse is the smallest of theirs.
    """
    lower = np.maximum(shares + least, shares / (1 - tail))
    upper = np.maximum(shares + least, (shares + tail) / (1 + tail))
    lowest: Floats = np.minimum(shares + eps, np.minimum(lower, upper))
    return lowest


def compute_intervals(phis: Floats, epss: Floats, eps: float, tail: float | None = None, least: float = 0.0) -> Floats:
    """Return the interval of each query (QUERIES section 3.1), cut to [0, 1]; a query with none begins after its end.

    An answer to phi' in the interval with the finest precision there, e(phi') = min(eps, max(least, tail * phi', tail *
    (1 - phi'))), has a rank within (phi' -+ e(phi'))*n, and so within (phi -+ eps_q)*n. Without a tail that is
    [phi - (eps_q - eps), phi + (eps_q - eps)].

    >>> compute_intervals(np.array([0.5, 0.99]), np.array([0.05, 0.02]), 0.01).round(3).tolist()
    [[0.46, 0.54], [0.98, 1.0]]
    """
    if tail is None:
        slack = epss - eps
        return np.clip(np.stack((phis - slack, phis + slack), axis=1), 0.0, 1.0)
    left = lowest_phis(phis - epss, eps, tail, least)
    right = 1 - lowest_phis(1 - (phis + epss), eps, tail, least)
    inside = epss >= np.minimum(eps, np.maximum(least, tail * np.minimum(phis, 1 - phis)))
    left[inside], right[inside] = np.minimum(left, phis)[inside], np.maximum(right, phis)[inside]  # but for rounding
    return np.clip(np.stack((left, right), axis=1), 0.0, 1.0)


def read_queries(
    phis: ArrayLike, epss: ArrayLike | None, eps: float, tail: float | None = None, factor: int = 1
) -> tuple[Floats, Floats]:
    """Return phi and precision of each query; `epss` is one for all, or one for each.

    A precision that is finer than `factor` times the finest one at its phi is raised to that; None stands for that.
    """
    checked_phis = np.atleast_1d(check_phis(phis))
    finest = np.minimum(factor * finest_precisions(checked_phis, eps, tail), ALMOST_ONE)
    if epss is None and checked_phis.ndim == 1:
        return checked_phis, finest
    precisions = _read_precisions(0.5 if epss is None else epss)
    if checked_phis.ndim != 1 or precisions.ndim > 1 or (precisions.ndim == 1 and len(precisions) != len(checked_phis)):
        raise InvalidArgumentError(
            f"phis of shape {checked_phis.shape} do not fit precisions of shape {precisions.shape}; give one for each, "
            "or one"
        )
    return checked_phis, np.maximum(np.broadcast_to(precisions, checked_phis.shape), finest)


def _read_precisions(epss: ArrayLike) -> Floats:
    array = read_numbers("a query's eps must be a number in (0, 1)", epss)
    wrong = ~((array > 0) & (array < 1))
    if wrong.any():
        raise InvalidArgumentError(
            f"a query's eps must be in (0, 1), not {array[wrong].flat[0]}; one finer than the monitor's is raised to it"
        )
    return array
