"""Capacity: the arrays of one structure grow together, so that an index that fits one of them fits all.

Kernels write to several arrays with one index and check nothing. An array that grew by a rule of its own would be
shorter than its neighbours at some sizes, and a kernel would write past its end.
"""

from collections.abc import Mapping

import numpy as np

LEAST = 64  # entries that arrays have room for at first


def reserve(owner: object, fields: Mapping[str, int], size: int) -> None:
    """Grow the arrays of a structure until all of them have room for `size` entries; new rows are zeros.

    `fields` names them, each with its rows beside the entries, such as one for a count in front of a heap.
    """
    capacity = min(len(getattr(owner, name)) - beside for name, beside in fields.items())
    if capacity >= size:
        return
    capacity = max(size, 2 * capacity, LEAST)
    for name, beside in fields.items():
        old = getattr(owner, name)
        larger = np.zeros((capacity + beside, *old.shape[1:]), dtype=old.dtype)
        larger[: len(old)] = old
        setattr(owner, name, larger)
