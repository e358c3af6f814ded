"""Today's peers: the same questions to every one of them, on the same values, in one run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench import competitors, environment, group_by, inputs, plots, window_speed
from bench.collection import Subject
from bench.competitors import THREE, ClickHouse, ClickHouseTable, DuckTable, Method, installed
from bench.competitors import clickhouse_cell as cell
from bench.inputs import Floats, Values
from bench.processes import spark_session
from bench.report import Report, Row, say, sized
from bench.spark_speed import write_lake
from bench.tables import markdown, millions, plain, seconds, size
from bench.timing import Timed, clock, interleave, scratch

RIVER, KLL_K, ASKED = "river P2", 2_600, 16  # the error of that k at 99% is 0.0011; queries of an engine about windows
INPUTS: dict[str, Callable[[int], Values]] = {
    "random": lambda n: inputs.make("random", "float64", n),
    "heavy": lambda n: np.sort(np.ceil(np.random.default_rng(5).pareto(0.5, n))),
}


@dataclass(frozen=True)
class Settings:
    """A column of `n` values; `parts` sketches of `part` values; a window; `rows` of `keys` keys; rows on Spark."""

    n: int = sized(10_000_000, 2_000_000, 20_000)
    eps: float = 0.001
    phis: int = sized(1_000, quick=50)
    rounds: int = sized(3, 2, 2)
    parts: int = sized(1_000, 200, 5)
    part: int = sized(10_000, quick=2_000)
    window: int = sized(1_000_000, 100_000, 50_000)
    window_eps: float = 0.01
    window_seconds: float = sized(1.0, quick=0.02)
    rows: int = sized(10_000_000, 2_000_000, 20_000)
    keys: int = sized(1_000, quick=20)
    spark_rows: int = sized(100_000_000, 5_000_000, 0)
    spark_cores: int = 2

    def all_phis(self) -> Floats:
        return np.arange(1, self.phis + 1) / self.phis


def methods(eps: float) -> list[Method]:
    """Return ours, then all installed peers."""
    c, found = competitors, [competitors.stream(eps)]
    makers = installed(
        "datasketches", lambda e, d: c.kll(e, d)[:1], c.req, c.tdigest, lambda e, d: c.tdigest(e, d, 1_000)
    )
    makers += installed("fastdigest", c.fastdigest) + installed("ddsketch", c.ddsketch)
    found += [method for make in makers for method in make(eps, "float64")]
    if environment.load("river"):
        found.append(c.river(RIVER, THREE.tolist(), "three phis, chosen beforehand"))
    engines = installed("duckdb", c.duckdb) + installed("polars", c.polars) + installed("chdb", c.clickhouse)
    return [*found, c.numpy_quantile(), *(method for make in engines for method in make(eps, "float64"))]


def column(s: Settings) -> list[Row]:
    """Measure three quantiles of a column by every method, its error and size, and whether its answers repeat."""
    rows = []
    for name, make in INPUTS.items():
        say(f"peers: a column of {s.n:,} values, {name}")
        values, chosen = make(s.n), dict(enumerate(methods(s.eps)))
        given = {i: subsample(values, method.limit) for i, method in chosen.items()}
        jobs = {i: _job(method, method.prepare(given[i])) for i, method in chosen.items()}
        phis = {i: THREE if method.name == RIVER else s.all_phis() for i, method in chosen.items()}
        first = {i: chosen[i].answers(job()[0], phis[i]) for i, job in jobs.items()}
        for i, one in interleave(jobs, s.rounds).items():
            rows.append({"input": name, **_row(given[i], chosen[i], one, first[i], phis[i])})
    return rows


def subsample(values: Values, limit: int | None) -> Values:
    """Return as many values as a slow peer gets: every so many, in their order."""
    return values[:: -(-len(values) // limit)] if limit else values


def _job(method: Method, given: Any) -> Callable[[], tuple[Any, Values]]:
    def run() -> tuple[Any, Values]:
        fed = method.feed(given)
        return fed, method.answers(fed, THREE)

    return run


def _row(values: Values, method: Method, timed: Timed, first: Values, phis: Floats) -> Row:
    fed, n = timed.result[0], len(values)
    answers, ordered = method.answers(fed, phis), np.sort(values.astype(np.float32) if method.rounded else values)
    found, tail, (certified, held, stored) = answers.astype(ordered.dtype), phis >= 0.99, method.sizes(fed)
    row = {"method": method.name, "setting": method.setting, "note": method.note, "n": n}
    row |= {"values_per_s": round(n / timed.best), "values_per_s_median": round(n / timed.median)}
    row |= {"observed_error": inputs.rank_error(ordered, phis, found), **method.promise()}
    row["observed_tail_error"] = inputs.rank_error(ordered, phis[tail], found[tail])
    row |= {"observed_value_error": value_error(ordered, phis, found), "certified_error": certified}
    return row | {"bytes": held, "stored_bytes": stored, "repeats": bool(np.array_equal(answers, first))}


def value_error(ordered: Values, phis: Floats, answers: Values) -> float:
    """Return the largest distance of an answer from the exact value, as a fraction of it."""
    exact = ordered[inputs.targets(phis, len(ordered)).astype(int) - 1].astype(np.float64)
    return float((np.abs(answers - exact) / np.abs(exact)).max())


Merged = tuple[Method, Callable[[Floats], Values], int | None]  # merges and answers; the stored bytes of one sketch


def merge(s: Settings) -> list[Row]:
    """Measure the merge of many sketches and the error after it."""
    say(f"peers: {s.parts:,} sketches of {s.part:,} values")
    values, phis, rows = np.random.default_rng(6).random(s.parts * s.part), s.all_phis(), []
    parts = values.reshape(s.parts, s.part)
    chosen: dict[int, Merged] = dict(enumerate([*_sketches(parts, s.eps), *_engines(parts, s.eps, phis)]))
    for _, run, _ in chosen.values():
        run(THREE)
    jobs = {i: lambda run=run: run(THREE) for i, (_, run, _) in chosen.items()}
    for i, one in interleave(jobs, s.rounds).items():
        method, run, stored = chosen[i]
        ordered = np.sort(values.astype(np.float32) if method.rounded else values)
        error = inputs.rank_error(ordered, phis, run(phis).astype(ordered.dtype))
        row = {"method": method.name, "setting": method.setting, "seconds": round(one.best, 6), "observed_error": error}
        rows.append(row | method.promise() | {"bytes": stored})
    return rows


def _sketches(parts: Values, eps: float) -> Iterator[Merged]:
    makers: list[Any] = [competitors.kll, competitors.req, competitors.tdigest]
    chosen = [competitors.stream(eps), *(make(eps, "float64")[0] for make in installed("datasketches", *makers))]
    chosen += [make(eps, "float64")[0] for make in installed("fastdigest", competitors.fastdigest)]
    for method in chosen:
        made = [method.feed(method.prepare(part)) for part in parts]

        def run(phis: Floats, method: Method = method, made: list[Any] = made) -> Values:
            if method.name == "fastdigest":
                return method.answers(environment.load_required("fastdigest").merge_all(made), phis)
            whole = method.feed(method.prepare(parts[0][:0]))
            for one in made:
                whole.merge(one)
            return method.answers(whole, phis)

        sizer = method.summary_size or method.size
        yield method, run, sizer(made[0]) if sizer else None


def _engines(parts: Values, eps: float, phis: Floats) -> Iterator[Merged]:
    """Merge states of groups, stored in tables; the phis belong to a state, so there are two tables of each."""
    keys = np.repeat(np.arange(len(parts)), parts.shape[1])
    table = environment.load_required("pyarrow").table({"k": keys, "v": parts.ravel()})
    if environment.load("duckdb"):
        duck = DuckTable(table)
        for name, asked in (("few", THREE), ("many", phis)):
            state = f"approx_quantile(v, {asked.tolist()}) EXPORT_STATE AS s"
            duck.connection.execute(f"CREATE TABLE {name} AS SELECT k, {state} FROM data GROUP BY k")

        def run(asked: Floats) -> Values:
            return np.array(duck.one(f"SELECT finalize(combine_aggr(s)) FROM {'few' if asked is THREE else 'many'}"))

        yield competitors.duckdb(eps, "")[0], run, None
    if environment.load("chdb"):
        rows = ClickHouseTable(table)
        yield from (_clickhouse(function, rows, eps, phis) for function in competitors.clickhouse_functions(eps)[:-1])


def _clickhouse(function: ClickHouse, rows: ClickHouseTable, eps: float, phis: Floats) -> Merged:
    def states(asked: Floats) -> ClickHouseTable:
        state = function.call(asked.tolist(), suffix="State")
        return ClickHouseTable(f"SELECT k, {state} AS s FROM {rows.name} GROUP BY k")

    few, many = states(THREE), states(phis)

    def run(asked: Floats) -> Values:
        call, table = function.call(asked.tolist(), "s", "Merge"), few if asked is THREE else many
        return np.array(cell(f"SELECT {call} FROM {table.name}"), dtype=np.float64)

    stored = int(cell(f"SELECT max(length(CAST(s AS String))) FROM {few.name}"))
    return function.method(eps), run, stored


def windows(s: Settings) -> list[Row]:
    """Measure windows at one size, and engines that hold a table."""
    block, span = min(65_536, s.window), s.window_seconds
    sizes: Row = {"block": block, "peer_sizes": (s.window,), "column": s.window, "seconds": span, "slow_seconds": span}
    chosen = window_speed.Settings(peer_eps=s.window_eps, peer_rounds=1, **sizes)
    rows, values = window_speed.peers(chosen), np.random.default_rng(9).normal(size=s.window + ASKED * block)
    table = environment.load_required("pyarrow").table({"i": np.arange(len(values)), "v": values})
    for name, ask in _window_engines(table).items():
        ends = [s.window + block * number for number in range(1, ASKED + 1)]
        ask(0, s.window)
        taken, answers = clock(lambda: [ask(end - s.window, end) for end in ends])  # noqa: B023
        exact, phi = [np.sort(values[end - s.window : end]) for end in ends], np.array([window_speed.PHI])
        errors = [inputs.rank_error(one, phi, np.array([answer])) for one, answer in zip(exact, answers, strict=True)]
        row = {"size": s.window, "asked": window_speed.BLOCK, "method": name}
        row["values_per_s"] = round(ASKED * block / taken)
        rows.append(row | {"values": ASKED * block, "error": max(errors), "bytes": values.itemsize * s.window})
    return rows


def _window_engines(table: Any) -> Mapping[str, Callable[[int, int], float]]:
    phi, found = window_speed.PHI, dict[str, Callable[[int, int], float]]()
    where = "FROM {} WHERE i >= {} AND i < {}"
    if environment.load("duckdb"):
        duck = DuckTable(table)
        found["DuckDB"] = lambda a, b: float(duck.one(f"SELECT quantile_disc(v, {phi}) {where.format('data', a, b)}"))
    if environment.load("chdb"):
        rows = ClickHouseTable(table)
        found["ClickHouse"] = lambda a, b: float(
            cell(f"SELECT quantileExact({phi})(v) {where.format(rows.name, a, b)}")
        )
    return found


def lake(s: Settings) -> list[Row]:
    """Measure three quantiles of Parquet files on Spark, on all cores of a session."""
    if not s.spark_rows or environment.load("pyspark") is None:
        return []
    say(f"peers: {s.spark_rows:,} rows of Parquet on Spark")
    rows: list[Row] = []
    with scratch() as folder, spark_session(s.spark_cores) as session:
        path = folder / "lake"
        write_lake(path, s.spark_rows, 8)
        ordered = np.sort(pq.read_table(path, columns=["v"])["v"].to_numpy())
        jobs = _spark_jobs(session, str(path), s)
        next(iter(jobs.values()))[0](THREE)
        rounds = {name: 1 if kind == "exact" else s.rounds for name, (_, kind, _) in jobs.items()}
        runs = {name: lambda run=run: run(THREE) for name, (run, *_) in jobs.items()}
        for name, one in interleave(runs, rounds).items():
            run, kind, bound = jobs[name]
            phis = THREE if kind == "exact" else s.all_phis()  # Spark's exact function is too slow for many
            error = inputs.rank_error(ordered, phis, one.result if kind == "exact" else run(phis))
            row = {"method": name, "seconds": round(one.best, 3), "rows_per_s": round(len(ordered) / one.best)}
            rows.append(
                row | {"rounds": rounds[name], "observed_error": error, "guarantee": kind, "guaranteed_error": bound}
            )
    return rows


def _spark_jobs(
    session: Any, path: str, s: Settings
) -> dict[str, tuple[Callable[[Floats], Values], str, float | None]]:
    from quantide.spark import quantiles

    frame, accuracy, ds = session.read.parquet(path), round(1 / s.eps), environment.load("datasketches")

    def ours(source: Any) -> Callable[[Floats], Values]:
        return lambda phis: (
            quantiles(source, "v", phis.tolist(), eps=s.eps).toArrow().sort_by("phi")["value"].to_numpy()
        )

    def sql(call: str) -> Callable[[Floats], Values]:
        def run(phis: Floats) -> Values:
            listed = f"array({', '.join(f'{phi!r}D' for phi in phis.tolist())})"
            return np.array(frame.selectExpr(call.format(phis=listed)).first()[0], dtype=np.float64)

        return run

    kll, approx = f"kll_sketch_agg_double(v, {KLL_K})", f"percentile_approx(v, {{phis}}, {accuracy})"
    error = float(ds.kll_doubles_sketch.get_normalized_rank_error(KLL_K, False)) if ds else None
    return {
        "quantide.spark, files": (ours(path), "certified", s.eps),
        "quantide.spark, DataFrame": (ours(frame), "certified", s.eps),
        kll: (sql(f"kll_sketch_get_quantile_double({kll}, {{phis}})"), "99%", error),
        f"percentile_approx(v, ..., {accuracy})": (sql(approx), "stated", s.eps),
        "percentile(v, ...), exact": (sql("percentile(v, {phis})"), "exact", 0.0),
    }


OURS = ("StreamSketch", group_by.ANSWERED)
KINDS = {"Quantide": 0, "sketches": 1, "engines, approximate": 3, "exact": 2}
TITLES = {"random": "Random values", "heavy": "A heavy tail with ties, ascending"}


def kind_of(row: Row) -> str:
    if row["method"] in OURS:
        return "Quantide"
    if row.get("guarantee") == "exact" or row["method"].endswith("exact"):
        return "exact"
    return "engines, approximate" if row["method"].startswith(("DuckDB", "ClickHouse")) else "sketches"


def title(row: Row) -> str:
    """Return the name of a method, with its setting where two have the same name."""
    return f"{row['method']} {row['setting']}" if row["method"] == "t-digest" else str(row["method"])


def promise(row: Row) -> str:
    bound = row["guaranteed_error"]
    if row["guarantee"] == "value":
        return f"values within {bound:.2%}"
    if bound is None or row["guarantee"] == "exact":
        return str(row["guarantee"])
    return f"{plain(bound)} {row['guarantee'].replace('certified', 'proved')}"


def figures(report: Report) -> Row:
    made, rows, s, error = {}, report.rows, report.settings, "largest rank error found"

    def points(rows: Iterable[Row], rate: str) -> list[plots.Point]:
        names = [(("Quantide" if row["method"] in OURS else title(row)), row) for row in rows]
        return [plots.Point(name, row[rate], row["observed_error"], kind_of(row)) for name, row in names]

    if rows.get("column"):
        panels = []
        for name, heading in TITLES.items():
            found = points([row for row in rows["column"] if row["input"] == name], "values_per_s")
            panels.append(plots.Scatter(heading, "values a second, one core", error, found, 1.5 / s["n"]))
        made["peers-column.svg"] = plots.scatter(panels, KINDS, "Speed and error of every method on a column")
        made["peers-error.svg"] = _errors(rows["column"])
    if rows.get("groups"):
        heading, found = f"{s['rows']:,} rows by {s['keys']:,} keys", points(rows["groups"], "rows_per_s")
        panel = plots.Scatter(heading, "rows a second, one core", error, found, 1.5 * s["keys"] / s["rows"])
        made["peers-groups.svg"] = plots.scatter([panel], KINDS, "Speed and error of every method by key")
    return made


def _errors(rows: list[Row]) -> str:
    """Draw the errors of approximate methods on both columns, and their promises."""
    by: dict[str, dict[str, Row]] = {}
    for row in rows:
        if kind_of(row) != "exact":
            by.setdefault("Quantide" if row["method"] in OURS else title(row), {})[row["input"]] = row
    found = []
    for name, one in by.items():
        row = one["random"]
        promised = row["guaranteed_error"] if row["guarantee"] in ("certified", "99%", "stated") else None
        word = promise(row).split()[-1] if promised else {"value": "of values"}.get(row["guarantee"], "none")
        found.append(
            plots.Marks(name, kind_of(row), [one[given]["observed_error"] for given in TITLES], promised, word)
        )
    kinds = {kind: colour for kind, colour in KINDS.items() if kind != "exact"}
    names = ("found, random", "found, heavy")
    return plots.marks(
        found, kinds, names, "rank error, as a fraction of n", "Rank errors found and promised, by method"
    )


def better_peers(report: Report) -> Iterator[str]:
    """Yield sentences about methods that are better than ours, the first row, in some respect."""
    rows, every = report.rows, report.rows.get("column", [])
    if every:
        held = [row for row in every if row["bytes"] and row["input"] == every[0]["input"]]
        stored = size(every[0]["stored_bytes"])
        lead = f"Others hold less: ours stores whole blocks, to be fast. Held ({stored} when stored)"
        yield _ahead(held, lead, "bytes", size)
        rates = "One exact result of a column in memory needs no sketch: exact engines are fast."
        tail = "REQ and t-digest spend their precision on the tails, ours the same everywhere."
        approximate = [row for row in every if row["guarantee"] != "exact" and row["method"] != RIVER]
        same = [row for row in every if row["n"] == every[0]["n"]]
        values, short = "Ours bounds ranks; DDSketch bounds values.", "{:.2g}".format
        topics: list[Any] = [(rates, same, "values a second", "-values_per_s", rate)]
        topics.append((tail, approximate, "error from p99 on", "observed_tail_error", plain))
        topics.append((values, approximate, "error of values", "observed_value_error", short))
        for lead, some, what, key, show in topics:
            told = [
                _ahead([row for row in some if row["input"] == name], f"{name.capitalize()}, {what}", key, show)
                for name in INPUTS
            ]
            yield " ".join([lead, *told])
    if rows.get("merge"):
        yield _ahead(rows["merge"], "Merging, time", "seconds", seconds)
    for asked in (window_speed.EVERY, window_speed.BLOCK) if rows.get("windows") else ():
        found = [row for row in rows["windows"] if row["asked"] == asked]
        ours = max((row for row in found if row["method"].endswith("Window")), key=lambda row: int(row["values_per_s"]))
        others = [ours, *(row for row in found if not row["method"].endswith("Window"))]
        yield _ahead(others, f"Windows queried after {asked}, values a second", "-values_per_s", rate)
    for name, what in (("groups", "By key, time"), ("spark", "On Spark, time")):
        if rows.get(name):
            yield _ahead(rows[name], what, "seconds", seconds)


def _ahead(rows: Iterable[Row], what: str, key: str, show: Callable[[Any], str]) -> str:
    """Return the methods before ours, best first; a key that begins with - is better if larger."""
    name, sign = key.lstrip("-"), -1 if key.startswith("-") else 1
    ours, *others = rows
    ahead = sorted(
        (row for row in others if sign * row[name] < sign * ours[name]), key=lambda row: sign * float(row[name])
    )
    names = ", ".join(f"{title(row)} ({show(row[name])})" for row in ahead)
    return f"{what}, ours {show(ours[name])}; better: {names or 'none in this run'}."


def rate(value: int) -> str:
    return f"{value:,}" if value < 1e6 else f"{millions(value)} M"


def context(report: Report) -> Row:
    rows, n = report.rows, report.settings["n"]
    heads = ("method", "M values/s", "error", "tail", "promised", "of values", "holds", "again", "")
    columns: dict[str, list[list[str]]] = {}
    for row in rows.get("column", []):
        notes = [row["setting"], row["note"], row["stored_bytes"] and f"{size(row['stored_bytes'])} when stored"]
        name, found = title(row) + ("*" if row["n"] < n else ""), (row["observed_error"], row["observed_tail_error"])
        cells = [name, millions(row["values_per_s"]), *map(plain, found), promise(row)]
        cells += [
            f"{row['observed_value_error']:.2g}",
            size(row["bytes"]),
            "yes" if row["repeats"] else "no",
            ", ".join(filter(None, notes)),
        ]
        columns.setdefault(row["input"], []).append(cells)
    bounded = [
        row for row in rows.get("column", []) if row["input"] == "random" and row["guarantee"] in ("99%", "stated")
    ]
    ratios = [rows["column"][0]["values_per_s"] / row["values_per_s"] for row in bounded]
    tables = {name: markdown(heads, body) for name, body in columns.items()}
    told: Row = {"columns": tables, "ratios": ratios, "bounded": ", ".join(map(title, bounded))}
    told["better"] = list(better_peers(report))
    return told | {"title": title, "promise": promise, "pairs": window_speed.peer_pairs(rows.get("windows", []))}


PARTS = {"column": column, "merge": merge, "windows": windows, "groups": group_by.peers, "spark": lake}
PACKAGES = (*competitors.PACKAGES, "pandas", "pyspark")
SUBJECT = Subject("the same questions to today's peers", Settings, PARTS, context, figures, PACKAGES)
