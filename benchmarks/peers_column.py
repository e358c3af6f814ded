"""A whole column: three quantiles of it by every method, its error, what it holds, whether its answers repeat."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import data, peers
from benchmarks.data import Values
from benchmarks.engines import engines
from benchmarks.peers import Method, Phis
from benchmarks.peers_settings import Settings
from benchmarks.report import Row, say
from benchmarks.timing import Timed, interleave

THREE: Phis = np.array([0.5, 0.99, 0.999])
TAIL = 0.99
RIVER = "river P2"
INPUTS: dict[str, Callable[[int], Values]] = {
    "random": lambda n: data.make("random", "float64", n),
    "heavy": lambda n: np.sort(np.ceil(np.random.default_rng(5).pareto(0.5, n))),
}


def column(settings: Settings) -> list[Row]:
    return [row for name in INPUTS for row in _input(name, settings)]


def methods(eps: float) -> list[Method]:
    """Ours first."""
    found = [peers.stream(eps)]
    if peers.load("datasketches"):
        found += [*peers.kll(eps, "float64")[:1], *peers.req(eps, "float64")]
        found += [*peers.tdigest(eps, "float64"), *peers.tdigest(eps, "float64", 1_000)]
    if peers.load("fastdigest"):
        found += peers.fastdigest(eps, "float64")
    if peers.load("ddsketch"):
        found += peers.ddsketch(eps, "float64")
    if peers.load("river.stats"):
        found.append(_river())
    return found + engines(eps)


def _river() -> Method:
    """It estimates one phi that is chosen beforehand: three of them."""
    quantile = peers.load_required("river.stats").Quantile

    def feed(values: list[float]) -> Any:
        estimators = [quantile(phi) for phi in THREE.tolist()]
        for value in values:
            for estimator in estimators:
                estimator.update(value)
        return estimators

    return Method(
        RIVER,
        feed=feed,
        ask=lambda estimators, phis: np.array([one.get() for one in estimators]),
        prepare=lambda values: values.tolist(),
        note="three phis, chosen beforehand",
        limit=peers.PURE_PYTHON,
    )


def _input(name: str, settings: Settings) -> list[Row]:
    say(f"peers: a column of {settings.n:,} values, {name}")
    values = INPUTS[name](settings.n)
    chosen = methods(settings.eps)
    given = [some(values, method.limit) for method in chosen]
    phis = np.arange(1, settings.phis + 1) / settings.phis
    asked = [THREE if method.name == RIVER else phis for method in chosen]
    jobs = [_job(method, method.prepare(part)) for method, part in zip(chosen, given, strict=True)]
    first = [_answers(method, job()[0], at) for method, job, at in zip(chosen, jobs, asked, strict=True)]
    timed = interleave([(job, settings.rounds) for job in jobs])
    return [
        {"input": name, **_row(part, method, one, answers, at)}
        for part, method, one, answers, at in zip(given, chosen, timed, first, asked, strict=True)
    ]


def some(values: Values, limit: int | None) -> Values:
    """As many as a slow peer is given: every so many, in their order."""
    return values[:: -(-len(values) // limit)] if limit else values


def _job(method: Method, given: Any) -> Callable[[], tuple[Any, Values]]:
    """What was fed, and three answers."""
    ask = method.ask
    assert ask is not None, method.name

    def run() -> tuple[Any, Values]:
        fed = method.feed(given)
        return fed, ask(fed, THREE)

    return run


def _row(values: Values, method: Method, timed: Timed, first: Values, asked: Phis) -> Row:
    """`first`: the answers before anything was timed, from the same values."""
    fed, _ = timed.result
    answers = _answers(method, fed, asked)
    ordered = np.sort(values.astype(np.float32) if method.rounded else values)
    kept, tail = answers.astype(ordered.dtype), asked >= TAIL
    return {
        "method": method.name,
        "setting": method.setting,
        "note": method.note,
        "n": len(values),
        "values_per_s": round(len(values) / timed.best),
        "values_per_s_median": round(len(values) / timed.median),
        "observed_error": data.rank_error(ordered, asked, kept),
        "observed_tail_error": data.rank_error(ordered, asked[tail], kept[tail]),
        "observed_value_error": value_error(ordered, asked, kept),
        "guarantee": method.kind,
        "guaranteed_error": method.bound,
        "certified_error": method.certified(fed) if method.certified else None,
        "bytes": method.size(fed) if method.size else None,
        "stored_bytes": method.summary_size(fed) if method.summary_size else None,
        "repeats": bool(np.array_equal(answers, first)),
    }


def _answers(method: Method, fed: Any, phis: Phis) -> Values:
    assert method.ask is not None, method.name
    return np.asarray(method.ask(fed, phis), dtype=np.float64)


def value_error(ordered: Values, phis: Phis, answers: Values) -> float:
    """The largest distance between an answer and the exact value, as a fraction of the exact value."""
    exact = ordered[data.targets(phis, len(ordered)).astype(int) - 1].astype(np.float64)
    return float((np.abs(answers - exact) / np.abs(exact)).max())
