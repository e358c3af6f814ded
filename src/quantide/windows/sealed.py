"""Sealed summaries: those of a SlidingWindow, thinned as far as its bound allows."""

import math

from quantide.summary.summary import Summary

LOOSE = 1.25  # G - 1 of what is held, as a multiple of eps * n


def sealed(summary: Summary, eps: float) -> Summary:
    """With as few tuples as G - 1 <= LOOSE * eps * n allows."""
    room = LOOSE * eps * summary.n - (summary.gap - 1)
    return summary.compress(math.ceil(summary.n / room)) if room >= 1 else summary


def loose_within(summary: Summary, eps: float) -> bool:
    """Whether a summary is one that sealed() gives."""
    ends = max(int(summary.rmax[0]) - 1, summary.n - int(summary.rmin[-1]))
    return summary.gap - 1 <= LOOSE * eps * summary.n and ends <= eps / 2 * summary.n
