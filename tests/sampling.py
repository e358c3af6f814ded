"""Parameters of which `make test` tries some, in turn over all combinations, and `make test-all` tries every one."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, cases: Iterable[Any]) -> list[Any]:
    """Mark all but every `step`-th case slow. Of a product, choose a step without a factor of the sizes of its factors.

    >>> [bool(case.marks) for case in one_in(3, "abcdef")]
    [False, True, True, False, True, True]
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow if number % step else ())
        for number, case in enumerate(cases)
    ]
