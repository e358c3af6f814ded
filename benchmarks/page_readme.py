"""The figures in README.md: a few lines of the results, put between two marks."""

from benchmarks import table
from benchmarks.page_history import loading_ratio
from benchmarks.page_live import slowest
from benchmarks.page_windows import slowest_question
from benchmarks.report import Report, Row

BEGIN = "<!-- figures: made by `python -m benchmarks results` -->"
END = "<!-- /figures -->"
PARTS = ("stream", "fast", "keys", "windows", "queries", "history", "live", "serve", "spark")


def insert(readme: str, reports: dict[str, Report]) -> str:
    """The README with its figures made anew."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{figures(reports)}\n{END}{after}"


def figures(reports: dict[str, Report]) -> str:
    made = {
        "stream": _speed,
        "fast": _paper,
        "keys": _keys,
        "windows": _windows,
        "queries": _queries,
        "history": _history,
        "live": _live,
        "serve": _serve,
        "spark": _spark,
    }
    lines = [line for part, make in made.items() if part in reports for line in make(reports[part])]
    return table.markdown(["measured in one run", "Quantide"], [list(line) for line in lines])


def _speed(report: Report) -> list[tuple[str, str]]:
    def speed(method: str, dtype: str = "float64", order: str = "random") -> float:
        wanted = {"type": dtype, "order": order, "method": method}
        return float(_first(report.rows["rows"], **wanted, eps=(0.001, None))["values_per_s"])

    ours = _first(report.rows["rows"], type="float64", order="random", method="StreamSketch", eps=(0.001,))
    values = speed("StreamSketch")
    return [
        ("values a second, random float64, eps = 0.001, one core", f"**{table.millions(values)} million**"),
        (
            "against DataSketches KLL (k = 2600, no proof, 99%)",
            f"**{table.ratio(values / speed('KLL k=2600'))} times** as fast",
        ),
        (
            "against only sorting the same data in blocks of 64K",
            f"{table.ratio(values / speed('np.sort 64K'))} of its speed",
        ),
        (
            "certified / observed error on it",
            f"{table.plain(ours['certified_error'])} / {table.plain(ours['observed_error'])}",
        ),
        (
            f"memory after {ours['n']:,} values / as a stored Summary",
            f"{table.size(ours['bytes'])} / {table.size(ours['summary_bytes'])}",
        ),
    ]


def _paper(report: Report) -> list[tuple[str, str]]:
    longest = max(row["n"] for row in report.rows["times"])
    found = [row for row in report.rows["times"] if row["n"] == longest and row["eps"] == 0.001]
    ratios = ", ".join(f"{table.ratio(row['ratio'])} ({row['order']})" for row in found)
    return [(f"against GK01, compiled, {longest:,} float32, eps = 0.001", f"{ratios} times as fast")]


def _keys(report: Report) -> list[tuple[str, str]]:
    found = [row for row in report.rows["rows"] if row["method"] == "Summaries.of" and row["kind"] == "int64"]
    return [
        (
            f"{report.settings['rows']:,} rows to summaries of {row['keys']:,} keys, eps = {report.settings['eps']:g}",
            f"{table.millions(row['rows_per_s'])} million rows a second",
        )
        for row in found
    ]


def _history(report: Report) -> list[tuple[str, str]]:
    row = report.rows["asked"][0]
    return [
        (
            f"a quantile of {row['values']:,} values on disk and a stream, exact but for the stream",
            f"**{table.seconds(row['accurate_median'])}**, at most {row['accurate_most_reads']} blocks read",
        ),
        ("loading them, sorted and summarised, against a plain write", f"{table.ratio(loading_ratio(report))} times"),
    ]


def _live(report: Report) -> list[tuple[str, str]]:
    """Of a run that ended early what is there."""
    lines = []
    if "questions" in report.rows:
        rate = slowest(report, "rate")["rate"]
        lines.append(("questions a second of one live reader, history and windows", f"**{rate:,.0f}** and more"))
    if followed := [row for row in report.rows.get("follow", []) if not row["asked"]]:
        row = max(followed, key=lambda row: float(row["median"]))
        told = f"{row['median'] * 1e3:.0f} ms, p99 {row['p99'] * 1e3:.0f} ms"
        lines.append((f"its lag behind a writer of {row['batches_per_s']:.0f} batches a second", told))
    for row in report.rows.get("year", []):
        what = f"it starts on {row['steps']} steps of {report.settings['keys']:,} keys, {row['rows']:,} values, in"
        lines.append((what, table.seconds(row["open_seconds"])))
    return lines


def _serve(report: Report) -> list[tuple[str, str]]:
    """Of a run that ended early what is there."""
    lines = []
    for row in report.rows.get("questions", [])[:1]:
        told = f"median **{table.seconds(row['median'])}**, p99 {table.seconds(row['p99'])}"
        lines.append((f"{row['rate']:,.0f} questions a second over HTTP, Spark taking in files beside it", told))
    for row in report.rows.get("events", []):
        what = f"a commit reaches {row['listeners']:,} clients with {row['queries']:,} standing queries in"
        lines.append(
            (what, f"**{table.seconds(row['last_median'])}**, {table.size(row['memory_listening'])} of memory")
        )
    return lines


def _windows(report: Report) -> list[tuple[str, str]]:
    """Of a run that ended early what is there."""
    fed = [row for row in report.rows.get("rates", []) if row["window"] == "RecentWindow" and row["fed"] == "blocks"]
    told = ", ".join(f"**{table.millions(row['values_per_s'])} million** (eps = {row['eps']:g})" for row in fed)
    size = report.settings["size"]
    lines = [(f"values a second into a window that answers for any of the last {size:,}", told)] if fed else []
    if slowest := slowest_question(report):
        again = f"{slowest['again_median'] * 1e6:.0f} microseconds"
        lines.append(("a quantile of it when something arrived / again", f"{slowest['median'] * 1e3:.1f} ms / {again}"))
    return lines


def _queries(report: Report) -> list[tuple[str, str]]:
    row, registered = report.rows["stream"][0], report.rows["registering"][0]
    queries, block = report.settings["queries"], report.settings["block"]
    return [
        (
            f"a stream with {queries:,} standing queries, changes read after every {block:,} values",
            f"**{table.ratio(row['ratio'])} times** the time of the stream alone",
        ),
        ("registering them", table.seconds(registered["many"])),
    ]


def _spark(report: Report) -> list[tuple[str, str]]:
    whole = [row for row in report.rows["rows"] if row["question"] == report.rows["rows"][0]["question"]]
    against = [row for row in whole if row["ratio"] and not row["method"].startswith("quantide")]
    names = {"kll": "Spark's KLL", "percentile_approx": "percentile_approx"}
    told = ", ".join(
        f"**{table.ratio(row['ratio'])} times** as fast as {name}"
        for row in against
        for start, name in names.items()
        if row["method"].startswith(start)
    )
    return [(f"two quantiles of {whole[0]['rows']:,} rows of Parquet on Spark, eps = 0.001", told)]


def _first(rows: list[Row], eps: tuple[float | None, ...], **wanted: str) -> Row:
    return next(row for row in rows if row["eps"] in eps and all(row[name] == x for name, x in wanted.items()))
