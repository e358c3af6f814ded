"""A lake of Parquet on Spark: three quantiles by ours and by what Spark has built in, on all cores of a session."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import data, peers, spark
from benchmarks.data import Values
from benchmarks.peers import Phis
from benchmarks.peers_column import THREE
from benchmarks.peers_settings import Settings
from benchmarks.report import Row, say
from benchmarks.timing import Timed, interleave

KLL_K = 2_600  # its error at 99% is 0.0011


@dataclass(frozen=True)
class Job:
    """`few`: too slow to be asked for many phis, so that only the three that were timed are checked."""

    method: str
    run: Callable[[Phis], Values]
    kind: str
    bound: float | None
    rounds: int
    few: bool = False


def lake(settings: Settings) -> list[Row]:
    if not settings.spark_rows or peers.load("pyspark") is None:
        say("peers: Spark is left out")
        return []
    say(f"peers: {settings.spark_rows:,} rows of Parquet on Spark")
    cores = settings.spark_cores
    with tempfile.TemporaryDirectory(prefix="quantide-bench-") as folder, spark.local_session(cores) as session:
        path = Path(folder) / "lake"
        spark.write_lake(path, settings.spark_rows, spark.Settings(keys=()))
        ordered = np.sort(pq.read_table(path, columns=["v"])["v"].to_numpy())
        jobs = _jobs(session, str(path), settings)
        jobs[0].run(THREE)
        timed = interleave([(_timed(job), job.rounds) for job in jobs])
        return [_row(job, one, ordered, settings) for job, one in zip(jobs, timed, strict=True)]


def _timed(job: Job) -> Callable[[], Values]:
    return lambda: job.run(THREE)


def _row(job: Job, timed: Timed, ordered: Values, settings: Settings) -> Row:
    phis = THREE if job.few else np.arange(1, settings.phis + 1) / settings.phis
    answers = timed.result if job.few else job.run(phis)
    return {
        "method": job.method,
        "seconds": round(timed.best, 3),
        "rows_per_s": round(len(ordered) / timed.best),
        "rounds": len(timed.seconds),
        "observed_error": data.rank_error(ordered, phis, answers),
        "guarantee": job.kind,
        "guaranteed_error": job.bound,
    }


def _jobs(session: Any, path: str, settings: Settings) -> list[Job]:
    from quantide.spark import quantiles

    frame = session.read.parquet(path)
    eps, accuracy = settings.eps, round(1 / settings.eps)

    def ours(source: Any) -> Callable[[Phis], Values]:
        return lambda phis: quantiles(source, "v", phis.tolist(), eps=eps).toArrow().sort_by("phi")["value"].to_numpy()

    def sql(call: str) -> Callable[[Phis], Values]:
        return lambda phis: np.array(frame.selectExpr(call.format(phis=_array(phis))).first()[0], dtype=np.float64)

    kll = f"kll_sketch_get_quantile_double(kll_sketch_agg_double(v, {KLL_K}), {{phis}})"
    approx = f"percentile_approx(v, {{phis}}, {accuracy})"
    return [
        Job("quantide.spark, files", ours(path), "certified", eps, settings.rounds),
        Job("quantide.spark, DataFrame", ours(frame), "certified", eps, settings.rounds),
        Job(f"kll_sketch_agg_double(v, {KLL_K})", sql(kll), "99%", _kll_error(), settings.rounds),
        Job(f"percentile_approx(v, ..., {accuracy})", sql(approx), "stated", eps, settings.rounds),
        Job("percentile(v, ...), exact", sql("percentile(v, {phis})"), "exact", 0.0, 1, few=True),
    ]


def _array(phis: Phis) -> str:
    return f"array({', '.join(f'{phi!r}D' for phi in phis.tolist())})"


def _kll_error() -> float | None:
    """As the same library documents it."""
    ds = peers.load("datasketches")
    return float(ds.kll_doubles_sketch.get_normalized_rank_error(KLL_K, False)) if ds else None
