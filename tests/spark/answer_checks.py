"""Checks of answers against a sort of all values."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests import oracle
from tests.spark.query_driver import KEYS, PHIS, rows_of


def check(answers: pa.Table, data: pa.Table, eps: float) -> None:
    """Check that every quantile of v, by k or of all, is within its own error, and the error within eps."""
    rows = rows_of(answers)
    if "k" not in answers.column_names:
        _check(rows, data, eps)
        return
    assert [row["k"] for row in rows] == [key for key in range(KEYS) for _ in PHIS]
    for key in range(KEYS):
        _check(rows[key * len(PHIS) : (key + 1) * len(PHIS)], data.filter(pc.field("k") == key), eps)


def _check(rows: list[dict[str, Any]], data: pa.Table, eps: float) -> None:
    ordered = np.sort(data["v"].drop_null().to_numpy())
    n = len(ordered)
    assert [row["phi"] for row in rows] == PHIS
    for row in rows:
        assert row["n"] == n
        assert row["error"] <= eps
        first = int(np.searchsorted(ordered, row["value"], "left")) + 1
        last = int(np.searchsorted(ordered, row["value"], "right"))
        assert first <= last, "an answer is an element"
        assert first <= row["rank_hi"]
        assert last >= row["rank_lo"]
        target = oracle.target_rank(row["phi"], n)
        assert max(first - target, target - last, 0) <= row["error"] * n + oracle.SLACK
