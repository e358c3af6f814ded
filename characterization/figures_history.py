"""The curves about history and stream, and the figures that show them; numbers of figures are those of the paper."""

from collections.abc import Iterable, Sequence

from benchmarks.report import Report, Row
from characterization.curves import Curve, figure
from characterization.growth import Points
from characterization.history_watch import PARTS

METHODS = ("accurate", "GK", "quick", "q-digest")  # in the order of their colours
MODES = ("accurate", "quick")
CERTIFIED = "certified at most"
SHOWN = "normal"  # the data set of updates and questions


def figures(report: Report) -> dict[str, str]:
    """Where nothing else is said axes are logarithmic, and an error of no rank is drawn as that of one question."""
    made = {
        "memory": figure(memory_curves(report), "Error by memory beside GK and q-digest, four data sets", 2),
        "kappa": figure(kappa_curves(report), "Error by kappa, observed and certified, four data sets", 2),
        "updates": figure(update_curves(report), "Time and blocks of a step by memory and kappa", 2),
        "questions": figure(question_curves(report), "Time and blocks of a question by memory, kappa and window"),
        "spans": figure(span_curves(report), "Windows that can be asked about as steps go by", 2),
        "growth": figure(history_curves(report), "Error, time, blocks and memory by the number of steps"),
        "stream": figure(stream_curves(report), "Error, time and blocks by the size of the open step"),
    }
    return {f"history-{name}.svg": text for name, text in made.items()}


def memory_curves(report: Report) -> list[Curve]:
    """Figure 4, a panel for each data set."""
    return _errors(report, in_memory(report), "KB", "method")


def kappa_curves(report: Report) -> list[Curve]:
    """Figure 5, a panel for each data set."""
    return _errors(report, report.rows["data_kappas"], "kappa", "mode")


def update_curves(report: Report) -> list[Curve]:
    """Figures 6, 7 and 8."""
    by_memory = [row for row in report.rows["memory_updates"] if row["data"] == SHOWN]
    kappas = report.rows["kappas"]
    return [
        *_parts("a small step by budget", "memory", by_memory),
        *_parts("a large step by kappa", "kappa", kappas),
        *(
            Curve("blocks by kappa", "kappa", "blocks a step", name, i, _points(kappas, "kappa", name), linear="y")
            for i, name in enumerate(("read", "written"))
        ),
        *(
            Curve("steps by blocks", "blocks at most", "% of steps", f"kappa = {kappa}", i, cumulated(rows), linear="y")
            for i, (kappa, rows) in enumerate(grouped(report.rows["accesses"], "kappa").items())
        ),
    ]


def question_curves(report: Report) -> list[Curve]:
    """Figures 9, 10 and 11."""
    methods = grouped([row for row in in_memory(report) if row["data"] == SHOWN], "method")
    kappas, windows = report.rows["kappas"], grouped(report.rows["windows"], "kappa")
    return [
        *(
            Curve("time by memory", "KB", "ms", name, METHODS.index(name), _ms(rows, "KB", "seconds"))
            for name, rows in methods.items()
        ),
        *_times("time by kappa", "kappa", kappas),
        *(
            Curve("time by window", "last steps", "ms", f"kappa = {kappa}", 4 + i, _ms(rows, "last_steps", "seconds"))
            for i, (kappa, rows) in enumerate(windows.items())
        ),
        _blocks("blocks by memory", "KB", _points(methods["accurate"], "KB", "reads")),
        _reads("blocks by kappa", "kappa", kappas),
        *(
            Curve(
                *("blocks by window", "last steps", "blocks", f"kappa = {kappa}", 4 + i),
                _points(rows, "last_steps", "reads"),
                linear="y",
            )
            for i, (kappa, rows) in enumerate(windows.items())
        ),
    ]


def span_curves(report: Report) -> list[Curve]:
    """Figure 11: the windows after every step."""
    return [
        Curve(
            *(f"kappa = {kappa}", "steps that ended", "last steps", "a window", 0),
            [(row["step"], int(size)) for row in rows for size in row["last_steps"].split()],
            linear="xy",
            joined=False,
        )
        for kappa, rows in grouped(report.rows["spans"], "kappa").items()
    ]


def history_curves(report: Report) -> list[Curve]:
    """Figure 12."""
    rows, memory = report.rows["history"], report.settings["memory"]
    step = [(row["steps"], 1e3 * sum(row[part] for part in PARTS)) for row in rows]
    index = [(row["steps"], row["bytes"] / 1e3) for row in rows]
    return [
        *_rank_errors("error by history", "steps", rows, report),
        *_times("a question by history", "steps", rows),
        Curve("a question by history", "steps", "ms", "first question", 4, _ms(rows, "steps", "first")),
        _reads("blocks of a question by history", "steps", rows),
        Curve("a step by history", "steps", "ms", "all of a step", 5, step),
        Curve("opening by history", "steps", "ms", "opening", 3, _ms(rows, "steps", "opening")),
        Curve("index by history", "steps", "KB", "index", 1, index, [(x, memory / 1e3) for x, _ in index], "budget"),
    ]


def stream_curves(report: Report) -> list[Curve]:
    """Figure 13."""
    rows = report.rows["stream"]
    return [
        *_rank_errors("error by stream", "stream", rows, report),
        *_times("time by stream", "stream", rows),
        Curve("time by stream", "stream", "ms", "first question", 4, _ms(rows, "stream", "first")),
        Curve("time by stream", "stream", "ms", "an append", 5, _ms(rows, "stream", "append")),
        _reads("blocks of a question by stream", "stream", rows),
    ]


def in_memory(report: Report) -> list[Row]:
    """What each method found, with the memory that the history used beside it: that of the peers is about the same."""
    rows = report.rows["memory"]
    used = {(row["data"], row["memory"]): row["bytes"] for row in rows if row["method"] == "accurate"}
    return [{**row, "KB": round(used[row["data"], row["memory"]] / 1e3, 1)} for row in rows]


def grouped(rows: Iterable[Row], name: str) -> dict[str, list[Row]]:
    """Rows by what they have under a name, in the order in which that first comes."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row[name], []).append(row)
    return out


def least(report: Report) -> float:
    """The smallest mean error, in ranks, that is not none: one question is off by one."""
    return 1 / float(report.settings["questions"])


def fraction(report: Report, row: Row, name: str) -> float:
    """An error as a fraction of all values."""
    return max(float(row[name]), least(report)) / float(row["n"])


def cumulated(rows: Sequence[Row]) -> Points:
    """Steps upward: what part of all took at most so many blocks."""
    total, so_far, out = sum(row["steps"] for row in rows), 0, []
    for row in rows:
        out.append((row["blocks"], 100 * so_far / total))
        so_far += row["steps"]
        out.append((row["blocks"], 100 * so_far / total))
    return out


def _errors(report: Report, rows: list[Row], by: str, method: str) -> list[Curve]:
    out = []
    for data, held in grouped(rows, "data").items():
        for name, some in grouped(held, method).items():
            mean = [(row[by], fraction(report, row, "mean_error")) for row in some]
            certified = [(row[by], fraction(report, row, "certified")) for row in some]
            out.append(Curve(data, by, "rank error / n", name, METHODS.index(name), mean, certified, CERTIFIED))
    return out


def _rank_errors(panel: str, by: str, rows: list[Row], report: Report) -> list[Curve]:
    out = []
    for mode in MODES:
        names = (f"{mode}_mean_error", f"{mode}_certified")
        observed, certified = ([(row[by], max(row[name], least(report))) for row in rows] for name in names)
        out.append(Curve(panel, by, "ranks", mode, METHODS.index(mode), observed, certified, CERTIFIED))
    return out


def _parts(panel: str, by: str, rows: list[Row]) -> list[Curve]:
    lines = [Curve(panel, by, "ms", part, i, _ms(rows, by, part), linear="y") for i, part in enumerate(PARTS)]
    everything = [(row[by], 1e3 * sum(row[part] for part in PARTS)) for row in rows]
    return [*lines, Curve(panel, by, "ms", "all of it", 5, everything, linear="y")]


def _times(panel: str, by: str, rows: list[Row]) -> list[Curve]:
    return [Curve(panel, by, "ms", m, METHODS.index(m), _ms(rows, by, f"{m}_seconds")) for m in MODES]


def _reads(panel: str, by: str, rows: list[Row]) -> Curve:
    return _blocks(panel, by, _points(rows, by, "accurate_reads"), _points(rows, by, "runs"))


def _blocks(panel: str, by: str, read: Points, runs: Points = ()) -> Curve:
    return Curve(panel, by, "blocks", "accurate", 0, read, runs, "runs", linear="y")


def _points(rows: list[Row], by: str, name: str) -> Points:
    return [(row[by], row[name]) for row in rows]


def _ms(rows: list[Row], by: str, name: str) -> Points:
    return [(row[by], 1e3 * row[name]) for row in rows]
