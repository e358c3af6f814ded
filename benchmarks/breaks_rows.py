"""How an answer is judged, the same for everyone: by the ranks that it has among all values."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.report import Row
from quantide import StreamSketch

PHIS = np.arange(1, 1_000) / 1_000
OURS = "StreamSketch"


def exact(ordered: Sequence[Any], phi: float) -> Any:
    return ordered[max(1, math.ceil(phi * len(ordered) - 1e-9)) - 1]


def rank_error(ordered: Sequence[Any], phi: float, answer: Any) -> float:
    """As `data.rank_error`, for one answer, and by comparing Python numbers: integers are not rounded to floats."""
    below, upto = bisect_left(ordered, answer), bisect_right(ordered, answer)
    low, high = (below + 1, upto) if upto > below else (below, below + 1)
    target = max(1, math.ceil(phi * len(ordered) - 1e-9))
    return max(low - target, target - high, 0) / len(ordered)


def judged(
    case: str, method: str, ordered: Sequence[Any], phi: float, answer: Any, promised: str, bound: float | None = None
) -> Row:
    """`bound`: the largest rank error that the method promises, None where it promises none. One rank more is
    allowed: definitions of a quantile differ by that."""
    error = rank_error(ordered, phi, answer)
    return {
        "case": case,
        "method": method,
        "phi": phi,
        "value": _kept(answer),
        "true": _kept(exact(ordered, phi)),
        "rank_error": error,
        "promised": promised,
        "bound": bound,
        "certified": None,
        "held": None if bound is None else error <= bound + 1 / len(ordered) + 1e-12,
    }


def ours(case: str, values: Any, ordered: Sequence[Any], phi: float, eps: float) -> Row:
    """Ours is held to the error that it proves for this very answer, which is below eps."""
    sketch = StreamSketch(eps)
    sketch.update(values)
    answer = sketch.answer(phi)
    value = answer.value.item() if hasattr(answer.value, "item") else answer.value
    row = judged(case, OURS, ordered, phi, value, f"eps = {eps:g}", eps)
    return {**row, "certified": answer.error, "held": row["rank_error"] <= answer.error + 1e-12}


def _kept(value: Any) -> int | float | str:
    """JSON has no infinities, and dates are told as text."""
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
