"""Standing queries: the experiment of the paper, for quantide.queries, with elements that arrive one by one."""

from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.report import Report, Row, say
from benchmarks.timing import clock
from characterization.queries_methods import METHODS, Floats, Method, first_hits
from characterization.queries_settings import HOUR, QUICK, Settings
from quantide.queries.clusters import WORST_CASE
from quantide.queries.deadlines import DeadlineBoard
from quantide.queries.source import MarkedSketch

__all__ = ["HOUR", "QUICK", "Settings", "run"]


def run(settings: Settings, command: str, folder: Path | None) -> Report:
    return Report.in_parts("queries", settings, {"all": _measure}, command, folder, missing=[])


def _measure(settings: Settings) -> dict[str, list[Row]]:
    for method in METHODS:  # what is compiled once is so before anything is timed
        _trial(method, QUICK.stream("uniform"), *QUICK.asked(20), QUICK)
    _eager(QUICK.stream("uniform"), *QUICK.asked(20), QUICK)
    rows: list[Row] = []
    eager: list[Row] = []
    for name in settings.streams:
        values = settings.stream(name)
        alone, _ = clock(partial(_one_by_one, _begun(values, settings), values, settings))
        for count in settings.queries:
            say(f"queries: {count:,} over a {name} stream")
            phis, epss = settings.asked(count)
            eager.append({"stream": name, "queries": count, **_eager(values, phis, epss, settings)})
            for method in (m for m in METHODS if m.clustering or count <= settings.apart):
                found = _trial(method, values, phis, epss, settings)
                rows.append(
                    {"stream": name, "queries": count, "method": method.name, "alone": round(alone, 4), **found}
                )
    return {"rows": rows, "eager": eager, "growth": _growth(settings)}


def _begun(values: Floats, settings: Settings) -> MarkedSketch:
    stream = MarkedSketch(settings.eps)
    stream.update(values[: settings.head])
    return stream


def _one_by_one(stream: MarkedSketch, values: Floats, settings: Settings, board: DeadlineBoard | None = None) -> None:
    """Every element by itself; every query right after each of them."""
    update = stream.update
    if board is None:
        for x in values[settings.head :].tolist():
            update(x)
        return
    refresh = board.refresh
    for x in values[settings.head :].tolist():
        update(x)
        refresh()


def _trial(method: Method, values: Floats, phis: Floats, epss: Floats, settings: Settings) -> Row:
    stream = _begun(values, settings)
    registering, board = clock(lambda: method.board(stream, phis, epss))
    seconds, _ = clock(lambda: _one_by_one(stream, values, settings, board))
    assert board.clusters is not None
    return {
        "clusters": len(board.clusters),
        "registering": round(registering, 6),
        "seconds": round(seconds, 4),
        "evaluations": board.counts["evaluations"],
        "triggers": board.counts["triggers"],
        "summaries": stream.marked,
    }


def _eager(values: Floats, phis: Floats, epss: Floats, settings: Settings) -> Row:
    """First-hit for all queries at one arrival, at a few moments; for all arrivals by their average."""
    stream = MarkedSketch(settings.eps)
    low, high, out = phis - epss, phis + epss, np.empty(len(phis), dtype=np.int64)
    spent, end = 0.0, 0
    for moment in np.linspace(settings.head, settings.elements, settings.eager_moments).astype(int):
        stream.update(values[end:moment])
        end = int(moment)
        tuples = stream.tuples(anew=True)
        spent += clock(partial(first_hits, low, high, tuples.rmin, tuples.rmax, end, out))[0]
    arrival = spent / settings.eager_moments
    arrivals = settings.elements - settings.head
    return {
        "an_arrival": round(arrival, 9),
        "seconds": round(arrival * arrivals, 3),
        "evaluations": len(phis) * arrivals,
    }


def _growth(settings: Settings) -> list[Row]:
    """Evaluations so far, as elements arrive, beside the bound for each cluster; CASU with QC-A."""
    rows = []
    phis, epss = settings.asked(settings.growth_queries)
    for name in settings.streams:
        values = settings.stream(name)
        stream = _begun(values, settings)
        method = next(m for m in METHODS if m.name == "CASU QC-A")
        assert method.clustering == WORST_CASE
        board = method.board(stream, phis, epss)
        assert board.clusters is not None
        spans = board.clusters.span[board.clusters.ordered]
        end = settings.head
        for n in settings.growth:
            for x in values[end:n].tolist():
                stream.update(x)
                board.refresh()
            end = n
            bound = stated(spans[:, 1] - spans[:, 0], settings.head, n, settings.eps)
            row = {"stream": name, "n": n, "clusters": len(spans), "evaluations": board.counts["evaluations"]}
            rows.append({**row, "bound": round(bound)})
    return rows


def stated(lengths: Floats, head: int, n: int, eps: float) -> float:
    """The most evaluations of clusters of these lengths from `head` elements on: docs/guarantees/queries.md."""
    factor = np.log1p(lengths / (4 * (1 - eps)))
    early = np.maximum(np.ceil(4 * (1 - eps) / np.maximum(lengths, 1e-300)) - head, 0)  # at every arrival until then
    with np.errstate(divide="ignore"):
        logarithmic = np.log(n / np.maximum(head, head + early)) / factor
    return float(np.minimum(1 + early + np.maximum(logarithmic, 0), n - head + 1).sum())
