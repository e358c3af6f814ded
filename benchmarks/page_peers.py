"""The page against today's peers; a run that ended early has the parts it came to."""

from benchmarks import better, table
from benchmarks.better import named
from benchmarks.features import MEANT, WORDS, features_notes, features_table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

HOW = """Every question was put to every peer on the same values, in one run: the methods take turns, and the best of
    {rounds} rounds counts. One thread each, except on Spark. *Error*: the largest distance between the rank that was
    wanted, `max(1, ceil(phi * n - 1e-9))`, and the rank of the answer, over {phis:,} phis, as a fraction of n; one
    function counts it for all, against the sorted values. An answer that never arrived, an interpolated one, counts
    as the nearer of the two ranks it lies between, in its favour; among many equal values it may still be far.
    *Promised*: *proved*, for every answer; *99%*, for one answer, with that probability (the worst of many may be
    beyond it); *stated*, in its documentation, for the accuracy that was chosen; *values*, it bounds values and not
    ranks; *none*."""
COLUMN = """{n:,} float64 values; p50, p99 and p99.9 are wanted. Sketches are fed the array and asked; engines have
    the column in their own memory before the clock runs, and read all of it. Every peer is set to an error of about
    {eps:g} where it can be set; t-digest has its usual size and five times that. *Random*: uniform. *Heavy*: a Pareto
    distribution (0.5) rounded up to whole numbers, three of ten of them 1, the largest beyond 10^12, in ascending
    order. *Tail*: the same error for phis from 0.99 on. *Of values*: the largest distance of an answer from the exact
    value, as a fraction of it. *Holds*: memory of ours, serialized size of the sketches and states, the column itself
    for exact ones. *Again*: the same values give the same answers, on one thread. A star: of fewer values, every so
    many of them, because it is written in Python."""
MERGE = """{parts:,} sketches of {part:,} random values each, merged into one and asked for three quantiles. The error
    is that after the merge. *One*: bytes of one of the sketches as it is stored. Polars has no sketch. DuckDB's
    states are exported and combined, ClickHouse's are `-State` and `-Merge`."""
WINDOWS = """The 0.99-quantile of the last {window:,} values, wanted after every value or after every block. Ours have
    eps = {window_eps:g} and know all quantiles; all others are exact, hold every value of the window and know one
    quantile (river) or see a whole column at once (pandas, Polars, and DuckDB and ClickHouse, which are asked for a
    range of rows of a table). More sizes: [windows](windows.md)."""
GROUPS = """{rows:,} rows, three quantiles (0.5, 0.9, 0.99) of each of {keys:,} keys. The error is the largest of all
    keys, as a fraction of the key's rows. More keys, and strings: [keys](keys.md)."""
SPARK = """{spark_rows:,} rows of Parquet in 8 files, p50, p99 and p99.9, a local session with {spark_cores} cores,
    all of which every method uses. *Files*: ours is given the path; *DataFrame*: the rows come from the JVM. The
    error of the exact one is that of the three quantiles. More,
    and larger: [spark](spark.md)."""
FEATURES = "What can be asked of each, and what it says about its error. Corrections are welcome."


def render(report: Report) -> str:
    settings, parts = report.settings, ["# Beside today's peers", HOW]
    for name, (title, text, figure, show) in SECTIONS.items():
        if report.rows.get(name):
            parts += [f"## {title}", text, *figure, *show(report)]
    parts += ["## What each can do", FEATURES, WORDS, features_table(), MEANT]
    told = [part if part.startswith(("|", "#", "!")) else prose(part.format(**settings)) for part in parts]
    return sections([*told, features_notes(), "## Where others are better", better.told(report)])


def column_tables(report: Report) -> list[str]:
    out = []
    for name in dict.fromkeys(row["input"] for row in report.rows["column"]):
        body = [_column_line(row, report) for row in report.rows["column"] if row["input"] == name]
        header = ("method", "M values/s", "error", "tail", "promised", "of values", "holds", "again", "")
        out += [f"### {name.capitalize()}", table.markdown(header, body)]
    return out


def _column_line(row: Row, report: Report) -> list[str]:
    star = "*" if row["n"] < report.settings["n"] else ""
    stored = row["stored_bytes"] and f"{table.size(row['stored_bytes'])} when stored"
    return [
        *(named(row) + star, table.millions(row["values_per_s"]), table.plain(row["observed_error"])),
        *(table.plain(row["observed_tail_error"]), promise(row), f"{row['observed_value_error']:.2g}"),
        *(table.size(row["bytes"]), "yes" if row["repeats"] else "no"),
        ", ".join(part for part in (row["setting"], row["note"], stored) if part),
    ]


def merge_table(report: Report) -> list[str]:
    body = [
        [
            *(named(row), table.seconds(row["seconds"]), table.plain(row["observed_error"]), promise(row)),
            *(table.size(row["bytes"]), row["setting"]),
        ]
        for row in report.rows["merge"]
    ]
    return [table.markdown(("method", "time", "error", "promised", "one", ""), body)]


def windows_table(report: Report) -> list[str]:
    by: dict[str, dict[str, Row]] = {}
    for row in report.rows["windows"]:
        by.setdefault(row["method"], {})[row["asked"]] = row
    body = []
    for method, rows in by.items():
        every, block = rows.get("every value"), rows["every block"]
        rate = f"{every['values_per_s']:,}" if every else table.DASH
        error = max(row["error"] for row in rows.values())
        rates = [rate, table.millions(block["values_per_s"])]
        body.append([method, *rates, table.plain(error), table.size(block["bytes"])])
    header = ("method", "values/s, asked every value", "M values/s, every block", "error", "holds")
    return [table.markdown(header, body)]


def groups_table(report: Report) -> list[str]:
    body = [
        [
            *(row["method"], table.millions(row["rows_per_s"])),
            *(table.seconds(row["seconds"]), table.plain(row["observed_error"])),
        ]
        for row in report.rows["groups"]
    ]
    return [table.markdown(("method", "M rows/s", "time", "error"), body)]


def spark_table(report: Report) -> list[str]:
    ours = report.rows["spark"][0]["seconds"]
    body = [
        [
            *(row["method"], table.seconds(row["seconds"]), table.ratio(row["seconds"] / ours)),
            *(table.millions(row["rows_per_s"]), table.plain(row["observed_error"]), promise(row)),
        ]
        for row in report.rows["spark"]
    ]
    return [table.markdown(("method", "time", "it / ours", "M rows/s", "error", "promised"), body)]


COLUMN_PLOT = "![Speed and error by method](peers-column.svg)"
ERROR_PLOT = "![Errors found and promised by method](peers-error.svg)"
SECTIONS = {
    "column": ("A column", COLUMN, [COLUMN_PLOT, ERROR_PLOT], column_tables),
    "merge": ("Many sketches, merged", MERGE, [], merge_table),
    "windows": ("The last values", WINDOWS, [], windows_table),
    "groups": ("By key", GROUPS, ["![Speed and error by method, by key](peers-groups.svg)"], groups_table),
    "spark": ("A lake, on Spark", SPARK, [], spark_table),
}


def promise(row: Row) -> str:
    bound = row["guaranteed_error"]
    if row["guarantee"] == "value":
        return f"values within {bound:.2%}"
    if bound is None or row["guarantee"] == "exact":
        return str(row["guarantee"])
    return f"{table.plain(bound)} {row['guarantee'].replace('certified', 'proved')}"


def headlines(report: Report) -> list[str]:
    rows = [row for row in report.rows.get("column", []) if row["input"] == "random"]
    if not rows:
        return []
    ours, bounded = rows[0], [row for row in rows if row["guarantee"] in ("99%", "stated")]
    ratios = [ours["values_per_s"] / row["values_per_s"] for row in bounded]
    if not ratios:
        return []
    return [
        f"{table.ratio(min(ratios))} to {table.ratio(max(ratios))} times the speed of the peers that state a bound of "
        f"ranks ({', '.join(named(row) for row in bounded)}; three quantiles of a random column)"
    ]
