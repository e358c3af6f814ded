"""The page about streams through Spark; a run that ended early has the parts it came to."""

from collections.abc import Callable

from benchmarks import plot, table
from benchmarks.ingest_rate import OURS, PEER
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

RATE = """{files} Parquet files of {file_rows:,} rows (a random float64 and a time), one file a batch, local[{cores}],
    eps = {eps:g}: from the start of the first batch, with everything still to be loaded, to the last commit, of sorted
    and summarised history. Batches of 1 GiB of files are what a stream makes of a backlog where nothing
    is configured. Recent rows: those that are kept, as they came, for questions about windows; no configuration leaves
    them out, the third line shows what they cost. Plain Spark: the same files as a stream, one a
    batch; foreachBatch computes percentile_approx(v, array(0.5, 0.99), 1000) and writes the batch as Parquet. Each in a
    new process, in turn, the best of {rounds} rounds. A later batch: the median of all but the first. Totals, three
    quantiles and a window of an hour were checked against all rows. Bar: 6 million rows a second."""
KEYS = """A file of {key_rows:,} rows of {keys:,} keys, which are text, makes a batch; the first batch also loads and
    compiles. Totals, quantiles and two keys were checked against all rows. Bar: 5 s."""
LATENCY = """Files of {lag_rows:,} rows are written elsewhere and renamed into the folder, each some {pause[0]:g} to
    {pause[1]:g} s after the one before was answered. From the rename to the moment at which a live reader in another
    process, which is looked at every millisecond, answers with the rows of the file. Bar: 1 s, median."""
STEADY = """A file of {steady_rows:,} rows every {steady_every:g} s, steps of {steady_step}, a window of
    {steady_window}, for {steady_seconds:,.0f} s (SOAK=1h for an hour). Memory: of the driver, the JVM and Python
    workers together, without mapped files. Lag: from a file's rename to a live reader's answer with it. First and
    last: medians of the first and of the last third. Steps, merges and compaction went on beside it: {told}."""

Columns = dict[str, Callable[[Row], str]]


def _time(name: str) -> Callable[[Row], str]:
    return lambda row: table.DASH if row.get(name) is None else table.seconds(row[name])


def _holds(row: Row) -> str:
    return table.DASH if row["holds"] is None else "yes" if row["holds"] else "NO"


COLUMNS: dict[str, Columns] = {
    "rate": {
        "method": lambda row: str(row["method"]),
        "million rows a second": lambda row: table.millions(row["rate"]),
        "with Spark's start": lambda row: table.millions(row["with_start"]),
        "seconds": lambda row: f"{row['seconds']:.1f}",
        "first batch": _time("first_batch"),
        "a later batch": _time("batch"),
        "start of Spark": _time("start_seconds"),
        "right": _holds,
    },
    "keys": {
        "batch": lambda row: f"{row['rows']:,} rows of {row['keys']:,} keys",
        "batches": lambda row: f"{row['batches']}",
        "median": _time("median"),
        "worst": _time("worst"),
        "the first": _time("first"),
        "right": _holds,
    },
    "latency": {
        "files": lambda row: f"{row['files']:,}",
        "median": _time("median"),
        "p99": _time("p99"),
        "worst": _time("worst"),
        "until its batch begins": _time("until_batch"),
        "from there to the answer": _time("batch"),
        "right": _holds,
    },
}


def part_table(report: Report, part: str) -> str:
    columns = COLUMNS[part]
    body = [[cell(row) for cell in columns.values()] for row in report.rows[part]]
    return table.markdown(list(columns), body)


def steady_table(report: Report) -> str:
    row = report.rows["steady"][0]
    body = [
        ["memory", *(table.size(row[f"memory_{third}"]) for third in ("first", "last")), table.DASH, table.DASH],
        *(
            [name, *(_time(f"{key}_{what}")(row) for what in ("first", "last", "p99", "worst"))]
            for name, key in (("a batch", "batch"), ("lag", "lag"))
        ),
    ]
    return table.markdown(["", "first third", "last third", "p99", "worst"], body)


def figures(report: Report) -> dict[str, str]:
    """Memory, and times of batches and lag, over time; of a run that ended early nothing."""
    rows = report.rows.get("over_time")
    if rows is None:
        return {}
    long = rows[-1]["at"] > 300
    unit, each = ("minutes", 60.0) if long else ("seconds", 1.0)
    kinds = (("driver", "python"), ("JVM", "jvm"), ("workers", "workers"))
    memory = [
        plot.Line(name, [(row["at"] / each, row[kind] / 1e6) for row in rows], colour, joined=False)
        for colour, (name, kind) in enumerate(kinds)
    ]
    times = [
        plot.Line(name, _points(rows, key, each), colour, joined=False)
        for name, key, colour in (("batch, median", "batch_median", 3), ("lag, median", "lag_median", 4))
    ]
    panels = [
        plot.Panel("Memory", unit, "MB", memory, linear="xy"),
        plot.Panel("Batches and lag", unit, "milliseconds", times, linear="xy"),
    ]
    what = "Memory of the processes, time of a batch and lag of a reader, over time"
    return {"ingest.svg": plot.svg(panels, what)}


def _points(rows: list[Row], key: str, each: float) -> list[tuple[float, float]]:
    found = [(row["at"] / each, row[key] * 1e3) for row in rows if row.get(key) is not None]
    return found or [(0.0, 0.0)]


def render(report: Report) -> str:
    words = {**report.settings, "told": _told(report)}
    parts = ["# Streams through Spark"]
    heads = {
        "rate": ["## Rows a second", RATE],
        "keys": ["## Many keys", KEYS],
        "latency": ["## From a file to an answer", LATENCY],
    }
    for part, head in heads.items():
        if part in report.rows:
            parts += [*head, part_table(report, part)]
        if part == "latency" and part in report.rows:
            parts.append(_spark_told(report))
    if "steady" in report.rows:
        parts += ["## Steady", STEADY, steady_table(report)]
        parts.append("![Memory, batches and lag over time](ingest.svg)")
    told = [part if part.startswith(("|", "#", "!")) else prose(part.format(**words)) for part in parts]
    return sections(told)


def _told(report: Report) -> str:
    if "steady" not in report.rows:
        return table.DASH
    row = report.rows["steady"][0]
    right = "totals and quantiles were right at the end" if row["holds"] else "the totals were WRONG at the end"
    return f"{row['steps']} steps, {row['runs'] + row['chunks']} runs at the end, {row['batches']:,} batches; {right}"


def _spark_told(report: Report) -> str:
    found = report.rows["latency"][0]["spark"]
    parts = [f"{name} {table.seconds(seconds)}" for name, seconds in sorted(found.items(), key=lambda one: -one[1])]
    return f"What Spark says about such a batch, medians: {', '.join(parts)}."


def headlines(report: Report) -> list[str]:
    found = {name: line(report) for name, line in HEADLINES.items() if name in report.rows}
    return list(found.values())


def _rate_told(report: Report) -> str:
    found = {row["method"]: row for row in report.rows["rate"]}
    ours, peer = found[OURS], found[PEER]
    ratio = table.ratio(ours["rate"] / peer["rate"])
    return (
        f"**{table.millions(ours['rate'])} million** rows a second from Parquet files through Spark into history "
        f"(with Spark's start {table.millions(ours['with_start'])}); {ratio} times as fast as "
        "plain Spark with percentile_approx"
    )


def _keys_told(report: Report) -> str:
    row = report.rows["keys"][0]
    return f"a batch of {row['rows']:,} rows of {row['keys']:,} keys: {table.seconds(row['median'])}"


def _latency_told(report: Report) -> str:
    row = report.rows["latency"][0]
    return (
        f"a file is answered by a live reader {row['median'] * 1e3:.0f} ms after it appeared, median of "
        f"{row['files']}; p99 {row['p99'] * 1e3:.0f} ms"
    )


def _steady_told(report: Report) -> str:
    row = report.rows["steady"][0]
    return (
        f"steady ingestion for {row['seconds']:,.0f} s: memory {table.size(row['memory_first'])} in the first third "
        f"and {table.size(row['memory_last'])} in the last, a batch {_time('batch_first')(row)} and "
        f"{_time('batch_last')(row)}"
    )


HEADLINES = {"rate": _rate_told, "keys": _keys_told, "latency": _latency_told, "steady": _steady_told}
