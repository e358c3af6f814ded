"""Target ranks, and checks of phi, eps and counts."""

import re
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quantide.errors import CountOverflowError, EmptyError, InvalidArgumentError
from quantide.typing import Floats, Ints

MIN_EPS = 2.0**-53  # eps * n is below one rank for every possible n
MAX_N = 2**53  # up to this every rank is exact in float64, and so is phi * n
DEFAULT: Any = "10 * eps, up to an eps of 0.01"  # the tail of structures that are made without one
PERCENTILE = re.compile(r"(p?)([0-9]{1,3}(?:\.[0-9]{1,12})?)(%?)", re.IGNORECASE | re.ASCII)
ROUNDING = 1e-9  # 0.07 * 100 is slightly above 7 in floating point


def target_ranks(phis: ArrayLike, n: Any) -> Ints:
    """Return the target rank of each phi: max(1, ceil(phi*n - 1e-9)); n may be an array that broadcasts.

    >>> target_ranks([0, 0.07, 0.5, 1], 100).tolist()
    [1, 7, 50, 100]
    """
    real = np.asarray(phis, dtype=np.float64) * n - ROUNDING
    ranks: Ints = np.clip(np.ceil(real), 1, n).astype(np.int64)
    return ranks


def check_phis(phis: ArrayLike) -> Floats:
    """Return phis as an array; raise unless each is in [0, 1]. 0 is the minimum, and 1 the maximum."""
    if isinstance(phis, str):
        raise InvalidArgumentError(describe_invalid_phi(phis))
    array = read_numbers("phi must be a number in [0, 1]", phis)
    invalid = ~((array >= 0) & (array <= 1))
    if invalid.any():
        raise InvalidArgumentError(describe_invalid_phi(float(array[invalid].flat[0])))
    return array + 0.0  # -0.0 is 0.0


def describe_invalid_phi(phi: float | str) -> str:
    """Return the message for a phi outside of [0, 1], or for text that is none; for a percentile, it names the phi.

    >>> describe_invalid_phi(99.9)
    'phi must be in [0, 1], not 99.9; for p99.9 write 0.999'
    >>> describe_invalid_phi("p99")
    "phi must be a number in [0, 1], not 'p99'; for p99 write 0.99"
    """
    rule = "phi must be a number in [0, 1]" if isinstance(phi, str) else "phi must be in [0, 1]"
    return f"{rule}, not {phi!r}; {suggest_phi(phi) or 'the median is phi=0.5'}"


def suggest_phi(phi: float | str) -> str | None:
    """Return which phi to write for a percentile: a number above 1 and up to 100, or text such as p99 or 99%."""
    match = PERCENTILE.fullmatch(str(phi).strip())
    if match is None:
        return None
    percent, is_marked = Decimal(match[2]), bool(match[1] or match[3])
    if not (0 if is_marked else 1) < percent <= 100:
        return None
    return f"for p{percent.normalize():f} write {(percent / 100).normalize():f}"


def read_numbers(rule: str, numbers: ArrayLike) -> Floats:
    """Return numbers as an array of any shape; the message of the error starts with `rule`."""
    try:
        array = np.asarray(numbers)
    except ValueError as error:
        raise InvalidArgumentError(f"{rule}, not {numbers!r}") from error
    if array.dtype.kind not in "iuf" and array.size:
        raise InvalidArgumentError(f"{rule}, not {numbers!r}")
    return array.astype(np.float64)


def check_phi(phi: Any) -> float:
    array = check_phis(phi)
    if array.ndim:
        raise InvalidArgumentError(f"phi must be one number, not an array of shape {array.shape}; use quantiles()")
    return float(array)


def check_eps(eps: Any) -> float:
    """Return eps as a float; raise unless it is in (0, 1)."""
    if isinstance(eps, bool) or not isinstance(eps, (int, float, np.floating, np.integer)):
        raise InvalidArgumentError(f"eps must be a number in (0, 1), not {eps!r}")
    if not MIN_EPS <= eps < 1:
        raise InvalidArgumentError(
            f"eps must be in (0, 1), not {eps}; 0.001 allows an error of 0.1% of all ranks, and nothing below "
            f"{MIN_EPS:.2g} differs from exact"
        )
    return float(eps)


def check_tail(tail: Any, eps: float) -> float | None:
    """Return the tail as a float, or None; by default 10 * eps for eps up to 0.01, and None above."""
    if tail is DEFAULT:
        return 10 * eps if eps <= 0.01 else None
    if tail is not None and check_tail_share(tail) < MIN_EPS:
        raise InvalidArgumentError(f"tail must be at least {MIN_EPS:.2g}, not {tail}; that is exact already")
    return None if tail is None else float(tail)


def check_tail_share(tail: Any) -> float:
    """Return a tail, or a part of one, as a float; raise unless it is in (0, 1)."""
    if isinstance(tail, bool) or not isinstance(tail, (int, float, np.floating, np.integer)) or not 0 < tail < 1:
        raise InvalidArgumentError(
            f"tail must be a number in (0, 1) or None, not {tail!r}; 0.01 allows an error of 1% of the distance from "
            "either end, None any error up to eps"
        )
    return float(tail)


def check_size(name: str, number: Any, minimum: int, maximum: int | None = None) -> int:
    """Return a whole number; raise if it is below the minimum or above the maximum."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise InvalidArgumentError(f"{name} must be a whole number, not {number!r}")
    if number < minimum:
        raise InvalidArgumentError(f"{name} must be at least {minimum}, not {number}")
    if maximum is not None and number > maximum:
        raise InvalidArgumentError(f"{name} must be at most {maximum:,}; write a smaller number")
    return int(number)


def check_count(n: int) -> int:
    """Return n; raise if it is above MAX_N, where ranks are no longer exact."""
    if n > MAX_N:
        raise CountOverflowError(
            f"{n} values are more than the {MAX_N} whose ranks are exact; start another sketch and keep both"
        )
    return n


def check_not_empty(n: int) -> None:
    if n == 0:
        raise EmptyError("there are no values yet, so no value has a rank; feed some with update() first")
