"""The figures in README.md: the ten that tell a newcomer most, in a table. All others: docs/results."""

from benchmarks import table
from benchmarks.report import Report, Row

PARTS = ("stream", "windows", "queries", "ingest", "history", "serve", "spark")

Lines = list[tuple[str, str]]


def figures(reports: dict[str, Report]) -> str:
    """In the order of what happens to a value: taken in, kept, watched, stored, asked about."""
    made = {
        "stream": _stream,
        "windows": _windows,
        "queries": _queries,
        "ingest": _ingest,
        "history": _history,
        "serve": _serve,
        "spark": _spark,
    }
    lines = [line for part, make in made.items() if part in reports for line in make(reports[part])]
    return table.markdown(["measured", "Quantide"], [list(line) for line in lines])


def _stream(report: Report) -> Lines:
    def found(method: str) -> Row:
        rows = (row for row in report.rows["rows"] if row["eps"] in (0.001, None))
        wanted = {"type": "float64", "order": "random", "method": method}
        return next(row for row in rows if all(row[name] == x for name, x in wanted.items()))

    ours = found("StreamSketch")
    rate, peer = ours["values_per_s"], found("KLL k=2600")["values_per_s"]
    return [
        (
            "values taken in a second, eps = 0.001, one core",
            f"**{table.millions(rate)} million**, {table.ratio(rate / peer)} times DataSketches KLL (k = 2600)",
        ),
        (
            "error of its answers: proved / found by sorting",
            f"{table.plain(ours['certified_error'])} / {table.plain(ours['observed_error'])}",
        ),
        (
            f"kept of {ours['n']:,} values / stored of them",
            f"{table.size(ours['bytes'])} / {table.size(ours['summary_bytes'])}",
        ),
    ]


def _windows(report: Report) -> Lines:
    """Of a run that ended early what is there."""
    fed = [row for row in report.rows.get("rates", []) if row["window"] == "RecentWindow" and row["fed"] == "blocks"]
    told = ", ".join(f"{table.millions(row['values_per_s'])} million (eps = {row['eps']:g})" for row in fed)
    return (
        [(f"values taken in a second, to ask about any of the last {report.settings['size']:,}", told)] if fed else []
    )


def _queries(report: Report) -> Lines:
    told = f"**{table.ratio(report.rows['stream'][0]['ratio'])} times** the time of the stream alone"
    return [(f"a stream with {report.settings['queries']:,} standing queries", told)]


def _ingest(report: Report) -> Lines:
    """Of a run that ended early what is there."""
    return [
        ("from a file to an answer that has its rows, through Spark", f"{table.seconds(row['median'])}, median")
        for row in report.rows.get("latency", [])
    ]


def _history(report: Report) -> Lines:
    row = report.rows["asked"][0]
    told = f"**{table.seconds(row['accurate_median'])}**, at most {row['accurate_most_reads']} blocks read"
    return [(f"a quantile of {row['values']:,} values on disk and a stream", told)]


def _serve(report: Report) -> Lines:
    """Of a run that ended early what is there."""
    lines = []
    for row in report.rows.get("questions", [])[:1]:
        told = f"**{table.seconds(row['median'])}** median, p99 {table.seconds(row['p99'])}"
        lines.append((f"a question over HTTP, at {row['rate']:,.0f} a second, Spark beside it", told))
    for row in report.rows.get("events", []):
        what = f"a commit reaches {row['listeners']:,} clients with {row['queries']:,} queries in"
        lines.append((what, table.seconds(row["last_median"])))
    return lines


def _spark(report: Report) -> Lines:
    whole = [row for row in report.rows["rows"] if row["question"] == report.rows["rows"][0]["question"]]
    against = [row for row in whole if row["ratio"] and not row["method"].startswith("quantide")]
    names = {"kll": "Spark's KLL", "percentile_approx": "percentile_approx"}
    told = ", ".join(
        f"**{table.ratio(row['ratio'])} times** the speed of {name}"
        for row in against
        for start, name in names.items()
        if row["method"].startswith(start)
    )
    return [(f"two quantiles of {whole[0]['rows']:,} rows of Parquet on Spark", told)]
