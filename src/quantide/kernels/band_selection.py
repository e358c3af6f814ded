"""Selection of one rank among values in several arrays: only values of a narrow band around it are moved.

The band comes from a sample. If the rank lies outside of it all the same, the caller selects among all values, so a
band never changes the result.
"""

import numpy as np

from quantide.kernels.jit import compiled, freeze
from quantide.typing import Array

GROUP = 32  # values that are counted together
SAMPLE = 1 << 10  # values of the sample, about
SHARE, ROOM = 8, 1 << 12  # the band has at most a share of the values, or so many
DEVIATIONS, LEAST_MARGIN = 4.0, 8.0  # ranks of the sample on either side: standard deviations, at least so many


@compiled
def gather_band(values: Array, band: Array, size: int, out: Array) -> tuple[int, int]:
    """Write the values from band[0] to band[1] to `out` from `size` on; return how many are below, and the new size.

    It stops when there is no room for GROUP more. Most groups of values have none in the band, and counting them takes
    vector instructions.
    """
    least, most = band[0], band[1]
    n, room = len(values), len(out) - GROUP
    below = start = 0
    while start + GROUP <= n and size <= room:
        inside = 0
        for i in range(start, start + GROUP):
            below += int(values[i] < least)
            inside += int((values[i] >= least) & (values[i] <= most))
        if inside:
            for i in range(start, start + GROUP):
                out[size] = values[i]
                size += int((values[i] >= least) & (values[i] <= most))
        start += GROUP
    if size <= room:
        for i in range(start, n):  # fewer than GROUP
            out[size] = values[i]
            below += int(values[i] < least)
            size += int((values[i] >= least) & (values[i] <= most))
    return below, size


def select_rank(runs: list[Array], rank: int) -> Array:
    """Return the value of a rank, counted from 1, among the values of all runs, as an array of length 1."""
    n = sum(map(len, runs))
    band = _find_band(runs, rank, n)
    out = np.empty(max(ROOM, n // SHARE) + GROUP, band.dtype)
    below = size = 0
    for run in runs:
        smaller, size = gather_band(freeze(run), band, size, out)
        below += smaller
    at = rank - 1 - below
    if 0 <= at < size <= len(out) - GROUP:
        return np.partition(out[:size], at)[at : at + 1]
    return np.partition(np.concatenate(runs), rank - 1)[rank - 1 : rank]


def _find_band(runs: list[Array], rank: int, n: int) -> Array:
    """Return the least and the highest value among which that of the rank most likely is."""
    step = max(1, n // SAMPLE)
    sample = np.sort(np.concatenate([run[::step] for run in runs]))
    share, size = rank / n, len(sample)
    margin = max(LEAST_MARGIN, DEVIATIONS * np.sqrt(share * (1 - share) * size)) + 1
    low, high = int(share * size - margin), int(share * size + margin)
    limits = np.iinfo(sample.dtype) if sample.dtype.kind == "i" else None
    least, most = (-np.inf, np.inf) if limits is None else (limits.min, limits.max)
    return np.array([sample[low] if low > 0 else least, sample[high] if high < size else most], dtype=sample.dtype)
