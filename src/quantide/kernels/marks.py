"""Marks: a summary that is kept true by counting every later arrival against its values.

Tuples are (values, rmin, rmax) with the smallest and the largest value at the ends. An arrival x raises by one both
ranks of every tuple whose element comes after it, and nothing else. Elements equal to a tuple's value are placed
before the last tuple of that value.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantide.kernels.compiled import compiled

Ints = NDArray[np.int64]
Values = NDArray[Any]

FEW = 8  # arrivals that are counted one by one


@compiled
def count(arrived: Values, values: Values, rmin: Ints, rmax: Ints) -> None:
    """Make tuples of n elements those of n + len(arrived); `arrived` is sorted."""
    m, total = len(values), len(arrived)
    if total <= FEW:
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
        at = 0  # arrivals that come before the tuple
        usual = 1  # about so many more come before the next one
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
