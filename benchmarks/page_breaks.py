"""The page of what breaks others: for each case what is asked, what was promised, what happens."""

from collections.abc import Callable, Sequence

from benchmarks import table
from benchmarks.breaks_rows import OURS
from benchmarks.page import prose, sections
from benchmarks.page_breaks_text import (
    CLICKHOUSE,
    CLICKHOUSE_THREADS,
    DUCKDB,
    DUCKDB_THREADS,
    INTRO,
    KLL,
    MERGE,
    NAN,
    OTHERS,
    REQ,
    SPARK,
    TDIGEST,
    TDIGEST_HOW,
    VERDICTS,
)
from benchmarks.plot import Line, Panel, svg
from benchmarks.report import Report, Row

Columns = dict[str, Callable[[Row], str]]
STREAMS = ("wide", "slow", "narrow")
DRAWN = ("DataSketches", "fastdigest, 100 ", "fastdigest, 1,000", "DuckDB", "ClickHouse")


def render(report: Report) -> str:
    parts = ["# Accuracy where others break", prose(INTRO)]
    for name, tell in SECTIONS.items():
        if name in report.rows:
            parts += tell(report)
    return sections([*parts, "## pandas and Polars", prose(OTHERS)])


def headlines(report: Report) -> list[str]:
    found = []
    digests = list(_at_the_end(report, ours=False)) if "tdigest" in report.rows else []
    if digests:
        theirs = max(digests, key=lambda row: float(row["rank_error"]))
        mine = max(_at_the_end(report, ours=True), key=lambda row: float(row["rank_error"]) / float(row["eps"]))
        found.append(
            f"values on nested scales: rank error up to **{_error(theirs)}** of a t-digest ({theirs['method']}); "
            f"{mine['method']}: {_error(mine)}, proved {table.plain(mine['certified'])}"
        )
    if "merge" in report.rows:
        faulty = [row for row in report.rows["merge"] if row["method"] == "faulty merge"]
        worst = max(faulty, key=lambda row: float(row["rank_error"]) / float(row["bound"]))
        found.append(
            f"the merge of SPARK-29336, written again: {worst['rank_error'] / worst['bound']:.1f} times the promised "
            f"error after {worst['partitions']} partitions; Summary.merge never more than it"
        )
    return found


def figures(report: Report) -> dict[str, str]:
    """Error against length, each stream in a panel; lengths are rounded to two digits, to be legible."""
    rows = [row for row in report.rows.get("tdigest", []) if row["level"]]
    if not rows:
        return {}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    panels = []
    for stream in STREAMS:
        found = [row for row in rows if row["stream"] == stream]
        lines = [
            Line(method, [_point(row) for row in found if row["method"] == method], *_stroke(method))
            for method in methods
        ]
        panels.append(Panel(f'stream "{stream}"', "values", "rank error", [line for line in lines if line.points], "y"))
    return {"breaks.svg": svg(panels, "Rank error of t-digests and of StreamSketch, by the length of the stream")}


def _point(row: Row) -> tuple[float, float]:
    return float(f"{row['n']:.2g}"), row["rank_error"]


def _stroke(method: str) -> tuple[int, str]:
    """Colour and dashes: ours share a colour."""
    found = [number for number, name in enumerate(DRAWN) if method.startswith(name)]
    return (found[0] + 1, "") if found else (0, "5 3" if method.endswith("0.1") else "")


# --- sections -------------------------------------------------------------------------------


def _tdigest(report: Report) -> list[str]:
    mixed = {(row["stream"], row["method"]): row for row in report.rows["tdigest"] if not row["level"]}
    columns: Columns = {
        "stream": lambda row: str(row["stream"]),
        "method": lambda row: str(row["method"]),
        "values": lambda row: f"{row['n']:,}",
        "rank error": _error,
        "the same values shuffled": lambda row: _error(mixed[row["stream"], row["method"]]),
        "promised": lambda row: "none" if row.get("eps") is None else f"{row['eps']:g}",
        "proved": _certified,
        "stored": lambda row: table.size(row.get("stored")),
        "held": lambda row: table.size(row.get("room")),
    }
    rows = sorted(_at_the_end(report), key=lambda row: STREAMS.index(row["stream"]))
    picture = "![Rank error by length, three streams](breaks.svg)"
    return ["## t-digest: values on nested scales", prose(TDIGEST), picture, _table(columns, rows), prose(TDIGEST_HOW)]


def _merge(report: Report) -> list[str]:
    right = {_of(row): row for row in report.rows["merge"] if row["method"] == "Summary.merge"}
    columns: Columns = {
        "promised": lambda row: f"{row['bound']:g}",
        "partitions": lambda row: f"{row['partitions']:,}",
        "order": lambda row: str(row["order"]),
        "faulty merge": _error,
        "it believes": lambda row: table.plain(row["claimed"]),
        "times the promise": lambda row: table.ratio(row["rank_error"] / row["bound"]),
        "Summary.merge": lambda row: _error(right[_of(row)]),
        "proved": lambda row: _certified(right[_of(row)]),
    }
    rows = [row for row in report.rows["merge"] if row["method"] == "faulty merge"]
    return ["## Merging summaries: SPARK-29336", prose(MERGE), _table(columns, rows)]


def _of(row: Row) -> tuple[str, float, int]:
    return row["order"], row["bound"], row["partitions"]


def _spark(report: Report) -> list[str]:
    mine = {_of(row): row for row in report.rows["spark"] if row["method"] == OURS}
    columns: Columns = {
        "accuracy": lambda row: f"{row['accuracy']:,}",
        "partitions": lambda row: f"{row['partitions']:,}",
        "order": lambda row: str(row["order"]),
        "promised": lambda row: f"{row['bound']:g}",
        "percentile_approx": _error,
        "kept": _kept,
        OURS: lambda row: _error(mine[_of(row)]),
        "proved": lambda row: _certified(mine[_of(row)]),
    }
    rows = [row for row in report.rows["spark"] if row["method"] != OURS]
    kept = all(row["held"] for row in rows)
    version = report.about["machine"]["packages"].get("pyspark")
    told = SPARK.format(version=version, verdict=VERDICTS["spark"][kept])
    return ["### Spark as it is now", prose(told), _table(columns, rows)]


ANSWERS: Columns = {
    "method": lambda row: str(row["method"]),
    "answer": lambda row: _value(row["value"]),
    "true": lambda row: _value(row["true"]),
    "rank error": lambda row: _error(row),
    "promised": lambda row: str(row["promised"]),
    "kept": lambda row: _kept(row),
    "proved": lambda row: _certified(row),
}
RUNS: Columns = {
    "method": lambda row: str(row["method"]),
    "threads": lambda row: str(row["threads"]),
    "runs": lambda row: str(row["runs"]),
    "different medians": lambda row: str(row["medians"]),
    "lowest": lambda row: f"{row['lowest']:.10g}",
    "highest": lambda row: f"{row['highest']:.10g}",
    "true": lambda row: f"{row['true']:.10g}",
    "worst rank error": lambda row: _error(row),
    "promised": lambda row: "none" if row["bound"] is None else table.plain(row["bound"]),
    "proved": lambda row: _certified(row),
}


def _cases(title: str, name: str, texts: dict[str, tuple[str, str]]) -> Callable[[Report], list[str]]:
    """A heading, three sentences and a table for each case of a database."""

    def tell(report: Report) -> list[str]:
        parts = [f"## {title}"]
        for case, (heading, text) in texts.items():
            rows = [row for row in report.rows[name] if row["case"] == case]
            verdict = VERDICTS["reported"][all(row["rank_error"] < 0.005 for row in rows)]
            parts += [f"### {heading}", prose(text.format(verdict=verdict)), _table(ANSWERS, rows)]
        return parts

    return tell


def _again(name: str, text: str) -> Callable[[Report], list[str]]:
    def tell(report: Report) -> list[str]:
        n = f"{report.settings['n']:,}"
        return ["### The same question again", prose(text.format(n=n)), _table(RUNS, report.rows[name])]

    return tell


def _kll(report: Report) -> list[str]:
    columns: Columns = {
        "method": lambda row: str(row["method"]),
        "values": lambda row: f"{row['n']:,}",
        "sketches": lambda row: f"{row['sketches']:,}",
        "promised": lambda row: f"{row['bound']:.4f}",
        "median outside": lambda row: f"{row['median_above']:.1%}",
        "any of 999 quantiles outside": lambda row: f"{row['any_above']:.1%}",
        "worst rank error": _error,
        "proved": _certified,
    }
    theirs = report.rows["kll"][0]
    told = KLL.format(sketches=theirs["sketches"], found=VERDICTS["kll"][theirs["any_above"] == 0])
    return ["## DataSketches", "### KLL: 99% sure", prose(told), _table(columns, report.rows["kll"])]


def _req(report: Report) -> list[str]:
    columns: Columns = {
        "k asked for": lambda row: str(row["asked"]),
        "k it has": lambda row: str(row["got"]),
        "values": lambda row: f"{row['n']:,}",
        "expected of the k asked for": lambda row: f"{row['bound']:.5f}",
        "worst rank error": _error,
    }
    return ["### REQ: a k that wraps", prose(REQ), _table(columns, report.rows["req"])]


def _nan(report: Report) -> list[str]:
    columns: Columns = {
        "method": lambda row: str(row["method"]),
        "values given": lambda row: f"{row['given']:,}",
        "counted": lambda row: table.DASH if row["counted"] is None else f"{row['counted']:,}",
        "what it says": lambda row: row["said"] or "nothing",
    }
    return ["### NaN", prose(NAN), _table(columns, report.rows["nan"])]


SECTIONS: dict[str, Callable[[Report], list[str]]] = {
    "tdigest": _tdigest,
    "merge": _merge,
    "spark": _spark,
    "duckdb": _cases("DuckDB", "duckdb", DUCKDB),
    "duckdb_threads": _again("duckdb_threads", DUCKDB_THREADS),
    "clickhouse": _cases("ClickHouse", "clickhouse", CLICKHOUSE),
    "clickhouse_threads": _again("clickhouse_threads", CLICKHOUSE_THREADS),
    "kll": _kll,
    "req": _req,
    "nan": _nan,
}


# --- cells ----------------------------------------------------------------------------------


def _table(columns: Columns, rows: Sequence[Row]) -> str:
    return table.markdown(list(columns), [[cell(row) for cell in columns.values()] for row in rows])


def _at_the_end(report: Report, ours: bool | None = None) -> list[Row]:
    """The last row of every method and stream; all, ours or theirs."""
    rows = [row for row in report.rows["tdigest"] if row["level"]]
    last = {(row["stream"], row["method"]): row for row in rows}.values()
    return [row for row in last if ours is None or ours == (row.get("eps") is not None)]


def _error(row: Row) -> str:
    return f"{row['rank_error']:.5f}"


def _certified(row: Row) -> str:
    return table.DASH if row.get("certified") is None else f"{row['certified']:.5f}"


def _kept(row: Row) -> str:
    return table.DASH if row["held"] is None else "yes" if row["held"] else "NO"


def _value(value: int | float | str) -> str:
    return str(value) if isinstance(value, int | str) else f"{value:.10g}" if abs(value) < 1e10 else repr(value)
