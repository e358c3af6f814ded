"""Checks of a window against the exact data, independent of the implementation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tests import oracle

Array: TypeAlias = npt.NDArray[Any]
Rng: TypeAlias = np.random.Generator

TINY = 1e-12
ENDS = np.array([1e-12, 1.0])


def answer_faults(answer: Any, data: Array, eps: float) -> list[str]:
    """Return what is wrong in an answer over a window of exactly this data."""
    ordered = np.sort(data)
    n, first, last = len(data), *oracle.occupied(ordered, answer.value)
    target = oracle.target_rank(answer.phi, n)
    away = max(0, first - target, target - last)
    far = max(answer.target - answer.rank_lo, answer.rank_hi - answer.target)
    claims = {
        "the value is in the window": first <= last,
        "n_lo <= n <= n_hi": 0 < answer.n_lo <= n <= answer.n_hi,
        "n is n_hi": answer.n == answer.n_hi,
        "the target is that of n_hi": answer.target == oracle.target_rank(answer.phi, answer.n_hi),
        "some rank of the value is certified": answer.rank_lo <= last and first <= answer.rank_hi,
        "the error is that of the ranks, of n_lo": abs(answer.error - far / answer.n_lo) < TINY,
        "the error is within eps": answer.error <= eps + TINY,
        f"the value is no farther ({away}) than certified": away <= answer.error * answer.n_lo + oracle.SLACK,
        "what is covered is in the window": answer.missing >= 0 and answer.n_hi - answer.missing <= n,
    }
    return [
        f"not true that {claim}: {answer!r}, {n=}, {first=}, {last=}" for claim, holds in claims.items() if not holds
    ]


def verify(window: Any, data: Array, rng: Rng, phis: Array | None = None, /, **scope: Any) -> Any:
    """Check every query over one window; return an answer for further checks."""
    eps = window.eps
    if phis is None:
        phis = np.concatenate([ENDS, rng.random(12), rng.integers(1, len(data) + 1, 4) / len(data)])
    phis = np.clip(phis, TINY, 1)
    ordered = np.sort(data)
    values = window.quantiles(phis, **scope)
    assert oracle.wrong_answers(ordered, values, phis, eps) == [], scope
    some = int(rng.integers(len(phis)))
    answer = window.answer(phis[some], **scope)
    assert answer_faults(answer, ordered, eps) == [], scope
    assert answer.value == values[some] == window.quantile(phis[some], **scope)
    summary = window.summary(**scope)
    assert oracle.shape_faults(summary) == []
    assert summary.n == answer.n_hi
    assert summary.rank_error <= eps * answer.n_lo + oracle.SLACK
    probes = np.concatenate([rng.choice(ordered, 3), ordered[[0, -1]]])
    true = np.searchsorted(ordered, probes, side="right")
    low, high = window.rank(probes, **scope)
    assert np.all((low <= true) & (true <= high)), scope
    assert np.all(np.abs(window.cdf(probes, **scope) - true / len(data)) <= summary.error + TINY), scope
    return answer


def every_rank(n: int) -> Array:
    """Return the phis of each of n ranks."""
    return np.arange(1, n + 1) / n


def inside(times: Array, now: float, span: float | Fraction) -> npt.NDArray[np.bool_]:
    """Return a mask of the times above now - span, in float64; now is within every span."""
    mask: npt.NDArray[np.bool_] = (times > float(now) - float(span)) | (times >= now)
    return mask
