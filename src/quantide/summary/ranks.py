"""Ranks and the arguments that name them: the one definition of a target, and the checks of phi and eps."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import CountOverflowError, EmptyError, InvalidArgumentError

MIN_EPS = 2.0**-53  # eps * n is below one rank for every n there can be
MAX_N = 2**53  # up to here every rank is a float64 exactly, so phi * n means what it says
ROUNDING = 1e-9  # 0.07 * 100 is a little above 7 in floating point, and means 7


def target_ranks(phis: ArrayLike, n: Any) -> NDArray[np.int64]:
    """The rank each phi asks for: max(1, ceil(phi*n - 1e-9)), for counts n of any shape that fits.

    >>> target_ranks([0.07, 0.5, 1], 100).tolist()
    [7, 50, 100]
    """
    real = np.asarray(phis, dtype=np.float64) * n - ROUNDING
    ranks: NDArray[np.int64] = np.clip(np.ceil(real), 1, n).astype(np.int64)
    return ranks


def check_phis(phis: ArrayLike) -> NDArray[np.float64]:
    """phis as an array, each within (0, 1]."""
    array = read_numbers("phi must be a number in (0, 1]", phis)
    wrong = ~((array > 0) & (array <= 1))
    if wrong.any():
        raise InvalidArgumentError(f"phi must be in (0, 1], not {array[wrong].flat[0]}; the median is phi=0.5")
    return array


def read_numbers(rule: str, given: ArrayLike) -> NDArray[np.float64]:
    """Numbers as an array of any shape; the rule is what the error says when they are none."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InvalidArgumentError(f"{rule}, not {given!r}") from error
    if array.dtype.kind not in "iuf" and array.size:
        raise InvalidArgumentError(f"{rule}, not {given!r}")
    return array.astype(np.float64)


def check_phi(phi: Any) -> float:
    array = check_phis(phi)
    if array.ndim:
        raise InvalidArgumentError(f"one phi is asked for here, not an array of shape {array.shape}; use quantiles()")
    return float(array)


def check_eps(eps: Any) -> float:
    """eps as a float within (0, 1)."""
    if isinstance(eps, bool) or not isinstance(eps, (int, float, np.floating, np.integer)):
        raise InvalidArgumentError(f"eps must be a number in (0, 1), not {eps!r}")
    if not MIN_EPS <= eps < 1:
        raise InvalidArgumentError(
            f"eps must be in (0, 1), not {eps}; 0.001 allows an error of 0.1% of all ranks, and nothing below "
            f"{MIN_EPS:.2g} differs from exact"
        )
    return float(eps)


def check_size(name: str, number: Any, least: int) -> int:
    """A whole number that is not below the least one allowed."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise InvalidArgumentError(f"{name} must be a whole number, not {number!r}")
    if number < least:
        raise InvalidArgumentError(f"{name} must be at least {least}, not {number}")
    return int(number)


def check_count(n: int) -> int:
    """A number of elements for which ranks are still exact."""
    if n > MAX_N:
        raise CountOverflowError(
            f"{n} values are more than the {MAX_N} whose ranks are exact; start another sketch and keep both"
        )
    return n


def check_not_empty(n: int) -> None:
    if n == 0:
        raise EmptyError("there are no values yet, so no value has a rank; feed some with update() first")
