"""Ids of queries and alarms."""

from typing import Any

import numpy as np

from quantide.errors import InvalidArgumentError


def check_id(id: Any) -> int:
    if isinstance(id, (bool, np.bool_)) or not isinstance(id, (int, np.integer)) or not 0 < id < 2**63:
        raise InvalidArgumentError(f"{id!r} is not an id; give a number as register() or alarm() returned it")
    return int(id)


def ids_of(ids: Any) -> list[int]:
    """One id or several, as a list.

    >>> ids_of(7), ids_of(range(3, 5)), ids_of(())
    ([7], [3, 4], [])
    """
    return [check_id(id) for id in (ids if hasattr(ids, "__iter__") else [ids])]
