"""Arrival counts: a summary stays valid because every later arrival is counted against its tuples.

Tuples are (values, rmin, rmax) with the minimum and the maximum at the ends. An arrival x raises by one both ranks of
every tuple whose element is ordered after it, and nothing else. Elements equal to a tuple's value are ordered before
the last tuple of that value.
"""

from quantide.kernels.jit import compiled
from quantide.typing import Array, Ints

FEW_ARRIVALS = 8  # up to here arrivals are counted one by one


@compiled
def count_arrivals(arrived: Array, values: Array, rmin: Ints, rmax: Ints) -> None:
    """Turn tuples of n elements into tuples of n + len(arrived); `arrived` is sorted."""
    m, total = len(values), len(arrived)
    if total <= FEW_ARRIVALS:
        for x in arrived:
            first, last = 1, m - 1
            while first < last:  # the first inner tuple above x
                middle = (first + last) // 2
                if values[middle] <= x:
                    first = middle + 1
                else:
                    last = middle
            if first > 1 and values[first - 1] == x:
                first -= 1
            for i in range(first, m - 1):
                rmin[i] += 1
                rmax[i] += 1
    else:
        at = 0  # arrivals before the tuple
        usual = 1  # about the number of further arrivals before the next tuple
        while 2 * usual * m <= total:
            usual *= 2
        for i in range(1, m - 1):
            value = values[i]
            step = usual
            while at + step <= total and arrived[at + step - 1] < value:
                at += step
                step *= 2
            while step > 1:
                step //= 2
                if at + step <= total and arrived[at + step - 1] < value:
                    at += step
            before = at
            if values[i + 1] != value:
                while before < total and arrived[before] == value:
                    before += 1
            rmin[i] += before
            rmax[i] += before
    rmin[m - 1] += total
    rmax[m - 1] += total
    if total > 0:
        values[0], values[m - 1] = min(values[0], arrived[0]), max(values[m - 1], arrived[total - 1])
