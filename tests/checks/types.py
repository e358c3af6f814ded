"""Answers have the type of the input."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from tests import oracle
from tests.checks.kind import Kind, Rng, Sketch
from tests.checks.verify import PHIS, fed, lifted

TYPES = [
    *("float64", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("datetime64[D]", "datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns]"),
    *("timedelta64[s]", "timedelta64[ms]", "timedelta64[us]", "timedelta64[ns]"),
]


def check_types_come_out(kind: Kind, rng: Rng) -> None:
    """Every answer has the type of the input, also after bytes and merges."""
    for name in TYPES:
        values = rng.integers(0, 120, 3000).astype("int64").astype(name)
        sketch = fed(kind, 0.1, values)
        if "merge" in kind.promises:
            sketch.merge(fed(kind, 0.1, values))
            values = np.concatenate([values, values])
        values = kind.covers(values)
        for one in (sketch, type(sketch).from_bytes(sketch.to_bytes())):
            answer = one.answer(0.3)
            assert type(answer.value) is values.dtype.type, name
            assert answer.value.dtype == values.dtype == one.quantiles(PHIS).dtype, name
            assert one.quantile(0.3) == answer.value
            assert one.summary().values.dtype == values.dtype, name
            assert oracle.bound_faults(values, answer) == []
            assert oracle.wrong_answers(values, one.quantiles(PHIS), PHIS, 0.1) == []
            low, high = one.rank(values[:9])
            true = np.searchsorted(np.sort(values), values[:9], side="right")
            assert np.all((low <= true) & (true <= high))


def check_extreme_values(kind: Kind, rng: Rng) -> None:
    """The extreme values of every type are ordinary values."""
    for name in ("int8", "int64", "uint32", "uint8"):
        info = np.iinfo(name)
        values = rng.choice(np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype=name), 2000)
        sketch = fed(kind, 0.1, values)
        values = kind.covers(values)
        assert (sketch.quantile(1e-9), sketch.quantile(1.0)) == (info.min, info.max)
        assert oracle.wrong_answers(values, sketch.quantiles(PHIS), PHIS, 0.1) == []
        assert oracle.summary_faults(sketch.summary(), values, lifted(kind)) == []
    for float_name in ("float64", "float32"):
        top = np.finfo(float_name)
        tops = np.array([-np.inf, top.min, -top.tiny, 0, top.smallest_subnormal, top.max, np.inf], dtype=float_name)
        values = rng.choice(tops, 2000)
        sketch = fed(kind, 0.1, values)
        assert (sketch.quantile(1e-9), sketch.quantile(1.0)) == (-np.inf, np.inf)
        assert oracle.summary_faults(sketch.summary(), kind.covers(values), lifted(kind)) == []


def check_decimals(kind: Kind, rng: Rng) -> None:
    """Decimals are returned as decimals of the same scale."""
    everything = [Decimal(int(cents)).scaleb(-2) for cents in rng.integers(-5000, 5000, 2600)]
    values = kind.covers(np.array(everything)).tolist()
    for form in (everything, pa.array(everything, pa.decimal128(9, 2))):
        sketch: Sketch = kind.make(0.1)
        sketch.update(form)
        restored = type(sketch).from_bytes(sketch.to_bytes())
        for phi in (1e-9, 0.25, 0.5, 1.0):
            answer = restored.answer(phi)
            assert type(answer.value) is Decimal
            assert answer.value.as_tuple().exponent == -2
            assert oracle.bound_faults(values, answer) == []
        low, high = sketch.rank(values[7])
        assert low <= oracle.count_at_most(values, values[7]) <= high


def check_signed_zero(kind: Kind, rng: Rng) -> None:
    """-0.0 is stored as 0.0."""
    for name in ("float64", "float32"):
        zeros = rng.choice(np.array([-0.0, 0.0], dtype=name), 1500)
        sketch = fed(kind, 0.1, zeros)
        assert sketch.to_bytes() == fed(kind, 0.1, np.abs(zeros)).to_bytes()
        assert not np.any(np.signbit(sketch.quantiles(PHIS)))
        sketch.update(-0.0)
        assert not np.signbit(sketch.quantile(1.0))


def check_widening(kind: Kind, rng: Rng) -> None:
    """A narrower block that fits is widened; the sketch keeps its type."""
    del rng
    sketch: Sketch = kind.make(0.1)
    sketch.update(np.array([1.5, 2.5]))
    sketch.update(np.array([3], dtype=np.int32))
    sketch.update(np.array([0.25], dtype=np.float32))
    sketch.update([4, 5.5])
    sketch.update(6)
    assert sketch.n == 7
    assert sketch.quantile(0.5).dtype == np.float64
    assert list(sketch.quantiles(np.arange(1, 8) / 7)) == [0.25, 1.5, 2.5, 3.0, 4.0, 5.5, 6.0]
    typed: Sketch = kind.make(0.1, value_type="float32")
    typed.update([1, 2.5])
    assert typed.quantile(1.0).dtype == np.float32
