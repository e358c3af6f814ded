"""DataSketches: what KLL promises is likely and not certain, a k of REQ that wraps, NaN."""

from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.breaks_rows import OURS, PHIS
from benchmarks.breaks_settings import Settings
from benchmarks.data import Values
from benchmarks.peers import NORMAL_99, REQ_SIGMA, load, load_required
from benchmarks.report import Row, say
from quantide import StreamSketch
from quantide.errors import QuantideError

KLL_K = 200
REQ_KS = (254, 256, 300, 1_024)
MEDIAN = len(PHIS) // 2


def run(settings: Settings) -> dict[str, list[Row]]:
    if load("datasketches") is None:
        return {}
    say("breaks: DataSketches")
    values = np.random.default_rng(99).permutation(min(settings.n, 100_000)).astype(np.float64)
    return {"kll": _kll(values, settings), "req": _req(values), "nan": _nan()}


def _kll(values: Values, settings: Settings) -> list[Row]:
    """The same values into new sketches, whose coins fall anew: how often is the bound passed?"""
    ds = load_required("datasketches")
    bound = float(ds.kll_doubles_sketch.get_normalized_rank_error(KLL_K, False))
    ordered, single, worst = np.sort(values), [], []
    for _ in range(settings.sketches):
        sketch = ds.kll_doubles_sketch(KLL_K)
        sketch.update(values)
        answers = np.array(sketch.get_quantiles(PHIS.tolist(), True))
        worst.append(data.rank_error(ordered, PHIS, answers))
        single.append(data.rank_error(ordered, PHIS[MEDIAN : MEDIAN + 1], answers[MEDIAN : MEDIAN + 1]))
    sketch = StreamSketch(bound)
    sketch.update(values)
    error, certified = data.rank_error(ordered, PHIS, np.asarray(sketch.quantiles(PHIS))), float(sketch.error)
    return [
        _row(f"KLL, k = {KLL_K}", len(values), bound, single, worst),
        {**_row(f"{OURS}, eps = {bound:.4f}", len(values), bound, [error], [error]), "certified": certified},
    ]


def _row(method: str, n: int, bound: float, single: list[float], worst: list[float]) -> Row:
    return {
        "method": method,
        "n": n,
        "sketches": len(worst),
        "bound": bound,
        "median_above": float(np.mean([error > bound for error in single])),
        "any_above": float(np.mean([error > bound for error in worst])),
        "rank_error": max(worst),
        "certified": None,
    }


def _req(values: Values) -> list[Row]:
    """`bound`: what somebody who asks for this k expects, 99% sure."""
    ds = load_required("datasketches")
    ordered, rows = np.sort(values), []
    for k in REQ_KS:
        sketch = ds.req_floats_sketch(k)
        sketch.update(values.astype(np.float32))
        error = data.rank_error(ordered, PHIS, np.array(sketch.get_quantiles(PHIS.tolist(), True), dtype=np.float64))
        bound = NORMAL_99 * REQ_SIGMA / k
        rows.append({"asked": k, "got": int(sketch.k), "n": len(values), "bound": bound, "rank_error": error})
    return rows


def _nan() -> list[Row]:
    """A thousand values, of which a hundred are NaN."""
    values = np.arange(1_000.0)
    values[::10] = np.nan
    ds = load_required("datasketches")
    kll, digest = ds.kll_doubles_sketch(KLL_K), ds.tdigest_double(200)
    kll.update(values)
    digest.update(values)
    rows: list[Row] = [
        {"method": "KLL", "given": 1_000, "counted": int(kll.n), "said": ""},
        {"method": "DataSketches t-digest", "given": 1_000, "counted": int(digest.get_total_weight()), "said": ""},
    ]
    if load("fastdigest") is not None:
        rows.append(_refused("fastdigest", load_required("fastdigest").TDigest().batch_update, values, ValueError))
    skipping = StreamSketch(0.01, nan="skip")
    skipping.update(values)
    told = f"skipped and told: {skipping.summary().nans} NaN"
    return [
        *rows,
        _refused(OURS, StreamSketch(0.01).update, values, QuantideError),
        {"method": f'{OURS}, nan="skip"', "given": 1_000, "counted": skipping.n, "said": told},
    ]


def _refused(method: str, update: Any, values: Values, error: type[Exception]) -> Row:
    try:
        update(values)
    except error as problem:
        return {"method": method, "given": len(values), "counted": None, "said": f"refused: {problem}"}
    return {"method": method, "given": len(values), "counted": len(values), "said": "taken"}
