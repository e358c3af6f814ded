"""The page about standing queries: words, tables, figures."""

from collections.abc import Callable, Iterable, Iterator

from benchmarks import table
from benchmarks.page import prose
from benchmarks.report import Report, Row
from characterization.curves import Curve, figure
from characterization.growth import Points

METHODS = ("eager", "SU", "CSU QC-A", "CSU QC-B", "CSU online", "CASU QC-A", "CASU QC-B", "CASU online")
DRAWN = ("eager", "SU", "CSU QC-A", "CASU QC-A", "CASU QC-B", "CASU online")
CLUSTERINGS = ("QC-A", "QC-B", "online")

HOW = """The experiment of Lin, Xu, Zhang, Lu, Yu, Zhou, Yuan, "Approximate processing of massive continuous quantile
    queries over high-speed data streams" (TKDE 2006, section 5), for `quantide.queries`: {elements:,} elements that
    arrive one by one, through `update(x)`, after {head:,} at once; phi uniform in (0, 1], precision uniform in
    {precision[0]:g}..{precision[1]:g}, eps = {eps:g}. After every element every query is right. Eager: every query
    scans the summary from its beginning at every arrival, in compiled code, timed at {eager_moments} arrivals, times
    all arrivals. SU: all queries are looked at when the first deadline has passed; left out with more than {apart:,}
    queries, which would take many minutes. CSU: the same by clusters. CASU:
    each cluster by its own deadline. Times are those of the whole loop; alone: of the same loop without queries. With
    single elements most of the time goes into waking up, not into evaluations: CSU wakes up less often than CASU, and
    evaluates more."""
CLUSTERS = """How many clusters there are; online, queries were registered one by one and never clustered anew."""
GROWTH = """Evaluations so far of the {growth_queries:,} queries of CASU with QC-A, as elements arrive, beside the sum
    of the bounds of their clusters, which grow with the logarithm of n."""


def render(report: Report) -> str:
    parts = [
        "# Standing queries: how they grow",
        HOW,
        "![Time and evaluations by the number of queries](queries-time.svg)",
        times(report),
        evaluations(report),
        "## Clusters",
        CLUSTERS,
        "![Clusters by the number of queries](queries-clusters.svg)",
        clusters(report),
        "## Evaluations and the bound",
        GROWTH,
        "![Evaluations as elements arrive](queries-growth.svg)",
        growth(report),
    ]
    told = [part if part.startswith(("|", "#", "!")) else prose(part.format(**report.settings)) for part in parts]
    return "\n\n".join(part.strip("\n") for part in told)


def times(report: Report) -> str:
    return _by_method(report, lambda row: duration(row["seconds"]), "time")


def evaluations(report: Report) -> str:
    return _by_method(report, lambda row: f"{row['evaluations']:,}", "evaluations")


def clusters(report: Report) -> str:
    rows = [row for row in report.rows["rows"] if row["stream"] == report.settings["streams"][0]]
    body = []
    for count in report.settings["queries"]:
        by = {row["method"]: row for row in rows if row["queries"] == count}
        made = [f"{by[f'CASU {name}']['clusters']:,}" for name in CLUSTERINGS]
        spent = [table.seconds(by[f"CASU {name}"]["registering"]) for name in CLUSTERINGS]
        body.append([f"{count:,}", *made, *spent])
    return table.markdown(["queries", *CLUSTERINGS, *(f"{name}: made in" for name in CLUSTERINGS)], body)


def growth(report: Report) -> str:
    body = [
        [row["stream"], f"{row['n']:,}", f"{row['clusters']:,}", f"{row['evaluations']:,}", f"{row['bound']:,}"]
        for row in report.rows["growth"]
    ]
    return table.markdown(["stream", "elements", "clusters", "evaluations", "bound"], body)


def figures(report: Report) -> dict[str, str]:
    shown = []
    for name in report.settings["streams"]:
        for i, method in enumerate(DRAWN):
            rows = list(_rows(report, name, method))
            shown.append(Curve(f"{name}: time", "queries", "s", method, i, _points(rows, "queries", "seconds")))
    for name in report.settings["streams"]:
        for i, method in enumerate(DRAWN):
            rows = list(_rows(report, name, method))
            points = _points(rows, "queries", "evaluations")
            shown.append(Curve(f"{name}: evaluations", "queries", "evaluations", method, i, points))
    first = report.settings["streams"][0]
    made = []
    for i, name in enumerate(CLUSTERINGS):
        points = _points(_rows(report, first, f"CASU {name}"), "queries", "clusters")
        made.append(Curve("clusters", "queries", "clusters", name, i, points))
    grown = []
    for i, name in enumerate(report.settings["streams"]):
        rows = [row for row in report.rows["growth"] if row["stream"] == name]
        points, bound = _points(rows, "n", "evaluations"), _points(rows, "n", "bound")
        grown.append(Curve("evaluations", "elements", "evaluations", name, i, points, bound, "bound"))
    return {
        "queries-time.svg": figure(shown, "Time and evaluations by the number of queries, by stream"),
        "queries-clusters.svg": figure(made, "Clusters by the number of queries", 1),
        "queries-growth.svg": figure(grown, "Evaluations as elements arrive, beside the bound", 1),
    }


def headlines(report: Report) -> list[str]:
    s = report.settings
    most, first = s["queries"][-1], s["streams"][0]
    eager = next(_rows(report, first, "eager", most))
    ours = next(_rows(report, first, "CASU QC-A", most))
    return [
        f"{duration(ours['seconds'])} for {s['elements']:,} elements one by one with {most:,} standing queries, which "
        f"eager evaluation would take {duration(eager['seconds'])} for"
    ]


def duration(seconds: float) -> str:
    if seconds < 600:
        return table.seconds(seconds)
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _by_method(report: Report, cell: Callable[[Row], str], what: str) -> str:
    """A line for each stream and number of queries, a column for each method."""
    body = []
    for name in report.settings["streams"]:
        for count in report.settings["queries"]:
            found = [next(_rows(report, name, method, count), None) for method in METHODS]
            alone = [table.seconds(next(row["alone"] for row in found[1:] if row))] if what == "time" else []
            body.append([name, f"{count:,}", *(cell(row) if row else table.DASH for row in found), *alone])
    return table.markdown([f"{what}, stream", "queries", *METHODS, *(["alone"] if what == "time" else [])], body)


def _rows(report: Report, stream: str, method: str, queries: int | None = None) -> Iterator[Row]:
    rows = report.rows["eager"] if method == "eager" else [r for r in report.rows["rows"] if r["method"] == method]
    return (row for row in rows if row["stream"] == stream and queries in (None, row["queries"]))


def _points(rows: Iterable[Row], x: str, y: str) -> Points:
    return [(float(row[x]), float(row[y])) for row in rows]
