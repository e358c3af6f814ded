"""Query intervals (QUERIES section 3.1): where a query (phi, eps_q) may be asked at the precision of the summary."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quantide.errors import InvalidArgumentError
from quantide.summary.ranks import check_phis, read_numbers

Floats = NDArray[np.float64]


def query_intervals(phis: Floats, epss: Floats, eps: float) -> Floats:
    """[phi - (eps_q - eps), phi + (eps_q - eps)] cut to [0, 1], a row for each query.

    An answer to (phi', eps) with phi' in the interval has a rank within (phi' -+ eps)*n, so within (phi -+ eps_q)*n.

    >>> query_intervals(np.array([0.5, 0.99]), np.array([0.05, 0.02]), 0.01).round(3).tolist()
    [[0.46, 0.54], [0.98, 1.0]]
    """
    reach = epss - eps
    return np.clip(np.stack((phis - reach, phis + reach), axis=1), 0.0, 1.0)


def read_queries(phis: ArrayLike, epss: ArrayLike, eps: float) -> tuple[Floats, Floats]:
    """phi and precision of each query; one precision for all, or one for each. Finer than eps is raised to eps."""
    wanted = np.atleast_1d(check_phis(phis))
    given = _precisions(epss)
    if wanted.ndim != 1 or given.ndim > 1 or (given.ndim == 1 and len(given) != len(wanted)):
        raise InvalidArgumentError(
            f"phis of shape {wanted.shape} do not fit precisions of shape {given.shape}; give one for each, or one"
        )
    return wanted, np.maximum(np.broadcast_to(given, wanted.shape), eps)


def _precisions(epss: ArrayLike) -> Floats:
    array = read_numbers("a query's eps must be a number in (0, 1)", epss)
    wrong = ~((array > 0) & (array < 1))
    if wrong.any():
        raise InvalidArgumentError(
            f"a query's eps must be in (0, 1), not {array[wrong].flat[0]}; one finer than the monitor's is raised to it"
        )
    return array
