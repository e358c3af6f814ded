"""ClickHouse (in this process, as chdb): its quantile functions beside what they are believed to do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.breaks_duckdb import BASE, NONE, our_runs, repeated
from benchmarks.breaks_rows import PHIS, judged, ours
from benchmarks.breaks_settings import Settings
from benchmarks.data import Values
from benchmarks.peers import load, load_required
from benchmarks.report import Row, say

RELATIVE = "value within 0.78125% of it"
REPEATED = {"quantile": None, "quantileTDigest": None, "quantileGK 100": 0.01, "quantileGK 1000": 0.001}


def _ask(values: Any, expression: str, threads: int = 1) -> Any:
    """One answer about a column `v`. Python(given) is how chdb reads an Arrow table of this frame."""
    given = pa.table({"v": values})  # noqa: F841
    text = f"SELECT {expression} AS answer FROM Python(given) SETTINGS max_threads = {threads}"
    return load_required("chdb").query(text, "ArrowTable").column("answer")[0].as_py()


def tdigest(values: Values) -> Values:
    return _listed("quantileTDigest", values, 1)


def _listed(function: str, values: Values, threads: int) -> Values:
    text = _called(function.replace("quantile", "quantiles"), *PHIS.tolist())
    return np.array(_ask(values, f"{text}(v)", threads), dtype=np.float64)


def _called(function: str, *phis: float) -> str:
    """A function with its levels; "quantileGK 100" has its accuracy before them."""
    name, *accuracy = function.split()
    return f"{name}({', '.join([*accuracy, *(f'{phi:g}' for phi in phis)])})"


def run(settings: Settings) -> dict[str, list[Row]]:
    if load("chdb") is None:
        return {}
    say("breaks: ClickHouse")
    answers = [*_integers(), *_timing(), *_bfloat(), *_reported()]
    return {"clickhouse": answers, "clickhouse_threads": list(_threads(settings))}


def _judged(
    case: str, values: Any, ordered: Sequence[Any], phi: float, functions: dict[str, tuple[str, Any]]
) -> list[Row]:
    rows = []
    for function, (said, bound) in functions.items():
        text = f"{_called(function, phi)}(v)"
        rows.append(judged(case, f"ClickHouse {text}", ordered, phi, _ask(values, text), said, bound))
    return [*rows, ours(case, values, ordered, phi, 0.01)]


def _integers() -> list[Row]:
    values = np.arange(BASE, BASE + 1_001, dtype=np.int64)
    functions = {
        "quantile": ("exact up to 8,192 values, but a Float64", None),
        "quantileTDigest": (NONE, None),
        "quantileExact": ("exact", 0.0),
        "quantileGK 100": ("accuracy 100", 0.01),
    }
    return _judged("integers", values, values.tolist(), 0.5, functions)


def _timing() -> list[Row]:
    """Times of up to a minute, in milliseconds."""
    values = np.random.default_rng(30_000).permutation(60_000).astype(np.float64)
    functions = {"quantileTiming": ("30,000 for all that is above", None), "quantileExact": ("exact", 0.0)}
    return _judged("timing", values, np.sort(values).tolist(), 0.99, functions)


def _bfloat() -> list[Row]:
    """A thousand neighbours far from 0."""
    values = np.random.default_rng(16).permutation(1_000).astype(np.float64) + 1_000_000
    functions: dict[str, tuple[str, Any]] = {"quantileBFloat16": (RELATIVE, None), "quantileExact": ("exact", 0.0)}
    return _judged("bfloat", values, np.sort(values).tolist(), 0.5, functions)


def _reported() -> list[Row]:
    """What ClickHouse/ClickHouse#22408 tells of: 26 times 1,000, 11 times 3,000, twice 9,000."""
    values = np.repeat([1_000.0, 3_000.0, 9_000.0], [26, 11, 2])
    functions = {"quantileTDigest": (NONE, None), "quantileExact": ("exact", 0.0)}
    return _judged("reported", values, values.tolist(), 0.9, functions)


def _threads(settings: Settings) -> list[Row]:
    values = np.random.default_rng(8192).permutation(settings.n).astype(np.float64)
    ordered = np.sort(values)
    rows = []
    for function, bound in REPEATED.items():
        for threads in settings.threads:
            runs = [_listed(function, values, threads) for _ in range(settings.runs)]
            name = _called(function) if " " in function else function
            rows.append(repeated(f"ClickHouse {name}", threads, ordered, runs, bound))
    return [*rows, *our_runs(values, ordered, settings)]
