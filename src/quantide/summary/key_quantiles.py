"""Key quantiles: one quantile of many keys, as columns, with proved bounds of its rank and of its value."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from quantide.errors import InvalidArgumentError
from quantide.kernels.compression import find_nearest_tuples
from quantide.summary.summaries import Summaries
from quantide.summary.value_types import ValueType
from quantide.typing import Array, Ints


@dataclass(frozen=True)
class KeyQuantiles:
    """One row for each key, in the order of the keys; values are carried numbers.

    The true quantile, the value at rank `target` of `n`, is proved to be at least `low` and at most `high`; the rank of
    `value` is proved to lie between `rank_lo` and `rank_hi`.
    """

    kind: ValueType
    keys: pa.Array
    n: Ints
    target: Ints
    value: Array
    low: Array
    high: Array
    rank_lo: Ints
    rank_hi: Ints

    @classmethod
    def of(cls, summaries: Summaries, phi: float) -> "KeyQuantiles":
        """Compute the quantile of every key, which must have a value."""
        tuples = summaries.tuples
        if not len(summaries):
            none = np.empty(0, dtype=np.int64)
            return cls(tuples.type, summaries.keys, none, none, *(tuples.values[:0],) * 3, none, none)
        first, last = tuples.bounds[:-1], tuples.bounds[1:] - 1
        if (tuples.rmax[first] > 1).any() or (tuples.rmin[last] < tuples.n).any():
            raise InvalidArgumentError(
                "a summary has values that it has not seen, and so no proved smallest or largest one; keys are ranked "
                "by summaries of Summaries.of(), summarize() or a store"
            )
        targets, low, high = (column[:, 0] for column in summaries.brackets(phi))
        nearest = find_nearest_tuples(tuples.rmin, tuples.rmax, tuples.bounds, targets[:, None])[:, 0]
        rank_lo, rank_hi = tuples.rank_bounds(nearest, targets)
        return cls(tuples.type, summaries.keys, tuples.n, targets, tuples.values[nearest], low, high, rank_lo, rank_hi)

    @classmethod
    def concatenate(cls, parts: "Sequence[KeyQuantiles]", keys: pa.Array) -> "KeyQuantiles":
        """Join consecutive ranges of keys; those of the parts are indexes of `keys`."""
        names = [field.name for field in fields(cls)][2:]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(parts[0].kind, keys.take(pa.concat_arrays([part.keys for part in parts])), **columns)

    def take(self, indexes: Ints) -> "KeyQuantiles":
        """Return the rows at these indexes."""
        columns = {field.name: getattr(self, field.name)[indexes] for field in fields(self)[2:]}
        return KeyQuantiles(self.kind, self.keys.take(pa.array(indexes)), **columns)

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + sum(getattr(self, field.name).nbytes for field in fields(self)[2:]))

    def __len__(self) -> int:
        return len(self.keys)
