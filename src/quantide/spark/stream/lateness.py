"""Lateness: the time that rows are compared with, where late ones go into quarantine.

One wrong time must not make all later rows late. Where times are of the wall clock, implausible ones do not count, and
no row is late that is not so by the clock, too. Elsewhere the median of several batches decides.
"""

from fractions import Fraction
from statistics import median_low

from quantide.store.ledger import Ledger

BATCHES = 9  # whose newest times the median is of


def reference_time(ledger: Ledger, ahead: Fraction | None, now: float) -> float | None:
    """Seconds since 1970, or of another clock where `ahead` is None; None before the first time."""
    times = list(ledger.newest_times)
    if ahead is None:
        return median_low([newest for _, newest in times[-BATCHES:]]) if times else None
    plausible = [newest for at, newest in times if newest <= at + ahead]
    return min(max(plausible), now) if plausible else None
