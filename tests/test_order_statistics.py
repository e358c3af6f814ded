"""Order statistics beside a full sort."""

import numpy as np
import pytest

from quantide.summary.order_statistics import SORTED, order_statistics
from quantide.typing import Array


def make_columns(n: int) -> dict[str, Array]:
    rng = np.random.default_rng(n)
    ends = np.iinfo(np.int64)
    tiny, large = rng.normal(size=n // 2) * 1e-300, rng.normal(size=n - n // 2) * 1e300
    return {
        "lognormal": rng.lognormal(3, 1, n),
        "float32": rng.normal(size=n).astype(np.float32),
        "ties": rng.integers(-5, 5, n),
        "constant": np.full(n, 7.5),
        "sorted": np.arange(n),
        "reversed": -np.arange(n, dtype=np.float64),
        "wide": rng.integers(ends.min, ends.max, n),
        "two scales": np.concatenate([tiny, large]),
        "infinities": np.where(rng.random(n) < 0.3, np.inf, np.where(rng.random(n) < 0.3, -np.inf, 0.0)),
        "one far away": np.r_[ends.min, ends.max, rng.integers(0, 100, n)][:n],
        "subnormal": np.full(n, 5e-324) * rng.integers(-3, 3, n),
        "zeros": np.where(rng.random(n) < 0.5, 0.0, -0.0),
        "view": rng.normal(size=3 * n)[::3],
    }


@pytest.mark.parametrize("n", [1, 2, SORTED, SORTED + 1, 30_011])
def test_selected_values_are_those_of_a_sort(n: int) -> None:
    rng = np.random.default_rng(1)
    for name, values in make_columns(n).items():
        before = values.copy()
        expected = np.sort(values)
        for positions in (
            np.array([0]),
            np.array([n - 1, 0, n // 2, n // 2]),
            rng.integers(0, n, 400),
            np.empty(0, int),
        ):
            answers = order_statistics(values, positions)
            assert answers.dtype == values.dtype
            np.testing.assert_array_equal(answers, expected[positions], err_msg=name)
        np.testing.assert_array_equal(values, before)
