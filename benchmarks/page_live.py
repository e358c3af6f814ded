"""The page about live readers; a run that ended early has the parts it came to."""

from collections.abc import Callable

from benchmarks import plot, table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

QUESTIONS = """One process, one thread that asks, one that looks for commits. The stores have {steps} steps of
    {step_rows:,} rows and {open_chunks} chunks of {chunk_rows:,} in the open step, {second_rows} rows a second, all
    within the day that is kept for windows; the one with keys has {endpoints}; eps = {eps:g}. Again: the same
    question, phi = 0.99, {repeats:,} times. A dashboard: all of them, with three phis each, in turn. New phi: one of
    {phis:,} that were not asked before. After a commit: the first time that a question is asked after each of
    {commits} commits of 1,000 rows, with everything that must be looked at again; finding the commit itself, poll(),
    takes {poll} besides (median). Bar: 10,000 questions a second, again. The last column: every question was checked,
    before and after the commits, against all rows."""
KEYS = """{rows:,} rows of {keys:,} keys, {day_rows} in each of {day_seconds:,} seconds. So many commits of one
    second each take too long to build here: the rows came in appends of {day_chunk:,} seconds each, with the times
    of those seconds; real commits are below. Cold: each of {cold} keys that nobody asked about before, one question
    each; first of all: one before them, which finds nothing open and checked; again: the same once more. Three
    answers of each kind were checked against all rows. File cache warm, a new process with memory="1 GB". Bar: 200
    ms."""
MEMORY = """Memory of that reader, bar 1 GB: its stats() tell {stats_memory}; {own} more of its own than before it
    opened the store ({before} with everything loaded; {after_keys} more after keys()), and {mapped} more of mapped
    files, which the system may take back. It was opened, with a first answer, in {open} (in a new process: kernels
    are loaded), for {recent_files} recent files of {recent_bytes}; keys() takes {keys_seconds} for {known:,} keys."""
SMALL = """Commits of {day_rows} rows of {keys:,} keys, a second each, and no step ended: how long an append takes, how
    long a reader takes to start with a first quick answer, and questions about {cold} cold keys each. Chunks: those
    of the open step that the writer has not merged yet."""
FOLLOW = """A writer in another process commits every {follow_every:g} s and ends a step every 100 batches. Lag: from
    the return of append() to the moment at which a question in the reader sees its rows; 0 where the reader was first.
    Answered: until a window of a minute with them (of one of {follow_keys:,} keys, where there are keys) is answered,
    too. The last line: while a thread of the reader asks without a pause. Bar: 300 ms."""
RESTART = """One stream as it grows older: commits of 100 rows, a step every {age_step} commits, a vacuum every
    {vacuum_every} steps, without waiting for an hour. Start: the constructor. Answered: with the first answers about
    everything, quick and accurate, and about five minutes. Medians of {openings}, file cache warm."""
YEAR = """{steps} steps, each with a value of each of {keys:,} keys, and one more in the open step: {rows:,} rows,
    built in {build}. Opened in a new process with a first quick answer: **{open}**, and once more in {again}. The
    first question about any key, which finds nothing open and checked: {first_key}; about the next: {key}; about
    five minutes of a third: {window}. Bar: 10 s."""
APPENDS = """The same batches into a store that keeps a day of recent rows for windows, and into one with window=0, in
    turn. Compaction of recent files goes on in the background and is part of it. Bytes: what a row takes in recent
    files at the end."""

Columns = dict[str, Callable[[Row], str]]


def _milli(name: str) -> Callable[[Row], str]:
    return lambda row: table.DASH if row.get(name) is None else f"{row[name] * 1e3:.1f} ms"


def _micro(name: str) -> Callable[[Row], str]:
    return lambda row: table.DASH if row.get(name) is None else f"{row[name] * 1e6:.0f} µs"


def _count(name: str) -> Callable[[Row], str]:
    return lambda row: table.DASH if row.get(name) is None else f"{row[name]:,.0f}"


def _holds(row: Row) -> str:
    return "yes" if row["holds"] else "NO"


COLUMNS: dict[str, Columns] = {
    "questions": {
        "question": lambda row: str(row["question"]),
        "again, a second": _count("rate"),
        "median": _micro("median"),
        "p99": _micro("p99"),
        "new phi, a second": _count("new_rate"),
        "median ": _micro("new_median"),
        "p99 ": _micro("new_p99"),
        "after a commit": _milli("first_median"),
        "p99  ": _milli("first_p99"),
        "within": _holds,
    },
    "keys": {
        "question about a key": lambda row: str(row["question"]),
        "cold": _milli("median"),
        "p99": _milli("p99"),
        "worst": _milli("worst"),
        "first of all": _milli("first"),
        "again": _micro("again_median"),
        "within": _holds,
    },
    "small": {
        "commits": _count("commits"),
        "append": _milli("append"),
        "start": _milli("open_seconds"),
        "cold key, everything": _milli("everything_median"),
        "p99": _milli("everything_p99"),
        "cold key, within 5 min": _milli("window_median"),
        "p99 ": _milli("window_p99"),
        "chunks": _count("chunks"),
        "recent files": _count("recent_files"),
        "memory": lambda row: table.size(row["memory"]),
        "within": _holds,
    },
    "follow": {
        "batch": lambda row: f"{row['rows']:,} rows" + (f" of {row['keys']:,} keys" if row["keys"] else ""),
        "batches": _count("batches"),
        "a second": lambda row: f"{row['batches_per_s']:.1f}",
        "lag": _milli("median"),
        "p99": _milli("p99"),
        "worst": _milli("worst"),
        "answered": _milli("answered_median"),
        "worst ": _milli("answered_worst"),
        "questions a second meanwhile": _count("questions_per_s"),
        "within": _holds,
    },
    "restart": {
        "commits": _count("commits"),
        "start": _milli("start"),
        "answered": _milli("answered"),
        "worst": _milli("worst"),
        "runs": _count("runs"),
        "chunks": _count("chunks"),
        "recent files": _count("recent_files"),
        "files of the log": _count("log_files"),
        "within": _holds,
    },
    "appends": {
        "append": lambda row: str(row["append"]),
        "with recent rows": _milli("kept_median"),
        "worst": _milli("kept_worst"),
        "without": _milli("without_median"),
        "worst ": _milli("without_worst"),
        "ratio": lambda row: table.ratio(row["ratio"]),
        "bytes a row": lambda row: f"{row['recent_bytes_a_row']:.1f}",
        "within": _holds,
    },
}


def part_table(report: Report, part: str) -> str:
    columns = COLUMNS[part]
    body = [[cell(row) for cell in columns.values()] for row in report.rows[part]]
    return table.markdown([name.strip() for name in columns], body)


def figures(report: Report) -> dict[str, str]:
    """Starts against the age of the stream; of a run that ended early nothing."""
    rows = report.rows.get("restart")
    if rows is None:
        return {}
    lines = [
        plot.Line(name, [(row["commits"], row[column] * 1e3) for row in rows], colour)
        for colour, (name, column) in enumerate((("first answers", "answered"), ("start", "start")))
    ]
    panel = plot.Panel("A reader starts", "commits of the stream", "milliseconds", lines)
    what = "Milliseconds until a reader has started and answered, by the age of the stream"
    return {"live.svg": plot.svg([panel], what)}


def render(report: Report) -> str:
    words = {**report.settings, "poll": _poll(report)}
    words["rows"] = report.settings["day_rows"] * report.settings["day_seconds"]
    parts = ["# Live readers"]
    heads = {
        "questions": ["## Questions a second", QUESTIONS],
        "keys": ["## Cold keys, and memory", KEYS],
        "small": ["## An open step of small commits", SMALL],
        "follow": ["## Following a writer", FOLLOW],
        "restart": ["## Starting", RESTART, "![Milliseconds to start, by age](live.svg)"],
        "appends": ["## What it costs the writer", APPENDS],
    }
    for part, head in heads.items():
        if part in report.rows:
            parts += [*head, part_table(report, part)]
        if part == "keys" and part in report.rows:
            parts.append(_memory(report))
        if part == "restart" and "year" in report.rows:
            parts += ["### A year old, with many keys", _year(report)]
    told = [part if part.startswith(("|", "#", "!")) else prose(part.format(**words)) for part in parts]
    return sections(told)


def headlines(report: Report) -> list[str]:
    found = {name: lines(report) for name, lines in HEADLINES.items() if name in report.rows}
    return [line for lines in found.values() for line in lines]


def slowest(report: Report, column: str) -> Row:
    """The question with the lowest rate."""
    return min((row for row in report.rows["questions"] if column in row), key=lambda row: float(row[column]))


def _questions_told(report: Report) -> list[str]:
    again, new = slowest(report, "rate"), slowest(report, "new_rate")
    late = max((row for row in report.rows["questions"] if "first_p99" in row), key=lambda row: float(row["first_p99"]))
    return [
        f"**{again['rate']:,.0f}** questions a second of one live reader, of the slowest kind ({again['question']}); "
        f"with a new phi each {new['new_rate']:,.0f} ({new['question']})",
        f"the first after a commit {late['first_median'] * 1e3:.1f} ms, p99 {late['first_p99'] * 1e3:.1f} ms "
        f"({late['question']})",
    ]


def _keys_told(report: Report) -> list[str]:
    row = max(report.rows["keys"], key=lambda row: float(row["p99"]))
    return [
        f"a question about a cold key of {report.settings['keys']:,}: {row['median'] * 1e3:.1f} ms, p99 "
        f"{row['p99'] * 1e3:.1f} ms ({row['question']}); the reader holds {table.size(_grown(row, 'own_bytes'))}"
    ]


def _follow_told(report: Report) -> list[str]:
    return [
        f"lag behind a writer of {row['batches_per_s']:.1f} batches a second ({COLUMNS['follow']['batch'](row)}"
        f"{', asked without a pause' if row['asked'] else ''}): median {row['median'] * 1e3:.0f} ms, p99 "
        f"{row['p99'] * 1e3:.0f} ms, worst {row['worst'] * 1e3:.0f} ms"
        for row in report.rows["follow"]
    ]


def _restart_told(report: Report) -> list[str]:
    young, old = report.rows["restart"][0], report.rows["restart"][-1]
    return [
        f"a reader starts and answers in {young['answered'] * 1e3:.0f} ms after {young['commits']:,} commits and in "
        f"{old['answered'] * 1e3:.0f} ms after {old['commits']:,}"
    ]


def _year_told(report: Report) -> list[str]:
    row = report.rows["year"][0]
    return [
        f"in {table.seconds(row['open_seconds'])} in a new process on {row['steps']} steps of "
        f"{report.settings['keys']:,} keys, {row['rows']:,} rows"
    ]


HEADLINES = {
    "questions": _questions_told,
    "keys": _keys_told,
    "follow": _follow_told,
    "restart": _restart_told,
    "year": _year_told,
}


def _poll(report: Report) -> str:
    found = [row["poll_median"] for row in report.rows.get("questions", []) if "poll_median" in row]
    return table.seconds(max(found)) if found else table.DASH


def _memory(report: Report) -> str:
    row = report.rows["keys"][0]
    return MEMORY.format(
        stats_memory=table.size(row["stats_memory"]),
        own=table.size(_grown(row, "own_bytes")),
        before=table.size(row["before_own_bytes"]),
        after_keys=table.size(max(0, (row["keys_own_bytes"] or 0) - (row["own_bytes"] or 0))),
        mapped=table.size(_grown(row, "mapped_bytes")),
        open=table.seconds(row["open_seconds"]),
        recent_files=row["recent_files"],
        recent_bytes=table.size(row["recent_bytes"]),
        keys_seconds=table.seconds(row["keys_seconds"]),
        known=row["keys"],
    )


def _year(report: Report) -> str:
    row = report.rows["year"][0]
    said = YEAR.format(
        steps=row["steps"],
        keys=report.settings["keys"],
        rows=row["rows"],
        build=table.seconds(row["build_seconds"]),
        open=table.seconds(row["open_seconds"]),
        again=table.seconds(row["again_seconds"]),
        first_key=table.seconds(row["first_key_seconds"]),
        key=table.seconds(row["key_seconds"]),
        window=table.seconds(row["window_seconds"]),
    )
    grown = f"stats() tell {table.size(row['stats_memory'])}, and it holds {table.size(_grown(row, 'own_bytes'))} more"
    return f"{said} In memory: {grown} than before. The answer was checked: {'right' if row['holds'] else 'WRONG'}."


def _grown(row: Row, name: str) -> int | None:
    after, before = row[name], row[f"before_{name}"]
    return None if after is None or before is None else max(0, after - before)
