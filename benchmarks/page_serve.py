"""The page about the server; a run that ended early has the parts it came to."""

from collections.abc import Callable

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

QUESTIONS = """`quantide run`: Spark takes in a file of {file_rows:,} rows of {keys} keys every {file_every:g} s, and
    one serving process answers beside it, about these and {history_rows:,} older rows, eps = {eps:g}. Questions come at
    a fixed rate over {connections} connections, from a process of its own, for {seconds:g} s each, whether the server
    keeps up or not; the time of each counts from the moment at which it was due. All of this shares the two cores of
    one machine. An answer that was given since the last commit is given again without being computed; the first two
    lines are such questions, with three quantiles each. Files had come for {warm:g} s before, so that Spark's JVM has
    compiled what it runs. At the end answers about three keys were compared with all
    rows. Bars: 1,000 a second with a p99 of 20 ms; a median of 3 ms in mode quick."""
EVENTS = """{queries:,} standing queries (any phi, a precision of 0.005 to 0.05, the last 1,000 values or the last
    minute of {query_keys} keys), registered in one body; {listeners:,} event streams, each of its own share of them. A
    commit of {commit_rows:,} rows moves nearly all values. From the commit (the append has returned) to the last of the
    clients, all in one other process. Memory: of the serving process alone, without mapped files. Bar: 1 s."""

Columns = dict[str, Callable[[Row], str]]

ASKED: Columns = {
    "questions": lambda row: str(row["mix"]),
    "asked a second": lambda row: f"{row['asked_rate']:,.0f}",
    "answered": lambda row: f"{row['rate']:,.0f}",
    "median": lambda row: table.seconds(row["median"]),
    "p99": lambda row: table.seconds(row["p99"]),
    "worst": lambda row: table.seconds(row["worst"]),
    "failed": lambda row: f"{row['failures']:,}",
    "rows taken in a second": lambda row: f"{row['rows_per_s']:,.0f}",
    "right": lambda row: "yes" if row["holds"] else "NO",
}


def questions_table(report: Report) -> str:
    body = [[cell(row) for cell in ASKED.values()] for row in report.rows["questions"]]
    return table.markdown(list(ASKED), body)


def events_table(report: Report) -> str:
    row = report.rows["events"][0]
    told = {
        f"registering {row['queries']:,} queries ({table.size(row['body_bytes'])} of JSON)": _time(row, "registering"),
        f"{row['listeners']:,} clients connect and are told how things are": _time(row, "connecting"),
        "a commit reaches the first client, median": _time(row, "first_median"),
        f"a commit reaches all of them, median of {row['commits']}": _time(row, "last_median"),
        "the worst": _time(row, "last_worst"),
        "values that changed, median": f"{row['changes_median']:,.0f}",
        "memory before": table.size(row["memory_before"]),
        "memory with the queries": table.size(row["memory_registered"]),
        "memory with all clients": table.size(row["memory_listening"]),
        "a new process is ready with all queries": _time(row, "ready_again"),
        "in order, and none failed": "yes" if row["holds"] and row["kept"] else "NO",
    }
    return table.markdown(["", "measured"], [list(pair) for pair in told.items()])


def _time(row: Row, name: str) -> str:
    return table.seconds(row[name])


def render(report: Report) -> str:
    parts = ["# The server"]
    if "questions" in report.rows:
        parts += ["## Questions", prose(QUESTIONS.format(**report.settings)), questions_table(report)]
    if "events" in report.rows:
        parts += ["## Standing queries and events", prose(EVENTS.format(**report.settings)), events_table(report)]
    return sections(parts)


def headlines(report: Report) -> list[str]:
    lines = []
    if "questions" in report.rows:
        row = report.rows["questions"][0]
        lines.append(
            f"{row['rate']:,.0f} questions a second over HTTP while Spark takes in files beside: median "
            f"{table.seconds(row['median'])}, p99 {table.seconds(row['p99'])}"
        )
    if "events" in report.rows:
        row = report.rows["events"][0]
        lines.append(
            f"a commit that changes {row['changes_median']:,.0f} of {row['queries']:,} standing queries reaches all of "
            f"{row['listeners']:,} clients within {table.seconds(row['last_median'])}; "
            f"{table.size(row['memory_listening'])} of memory"
        )
    return lines
