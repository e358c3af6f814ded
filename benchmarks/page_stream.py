"""The page about update speed."""

from benchmarks import table
from benchmarks.page import prose, sections
from benchmarks.report import Report, Row

OURS = "StreamSketch"
COLUMNS = (
    OURS,
    "np.sort 64K",
    "KLL",
    "KLL k=2600",
    "REQ",
    "t-digest",
    "fastdigest",
    "DDSketch",
    "river",
    "DuckDB approx",
    "Polars exact",
    "GKSketch",
    "q-digest",
)

HOW = """{n:,} values, one thread, all in one run: the methods take turns, and the best of {rounds} rounds
    counts (of {other_rounds} for the peers other than KLL; medians are in the tables and in the
    JSON). Each is given the whole array at once, fastdigest blocks of 64K, DDSketch and river one
    value at a time."""
RATIOS = """Our speed divided by the speed of the method named (above 1: ours is faster). `np.sort 64K` copies
    and sorts blocks of 65,536 values and answers nothing: it is the bound. A star: measured on fewer
    values."""
SINGLES = "`sketch.update(x)` in a plain Python loop over {singles:,} floats."
DETAILS = """Error: the largest distance of rank over {phis:,} phis against the exact data, as a fraction of n;
    on random input, and the worst over all orders. Size: memory for StreamSketch, GKSketch and q-digest,
    serialized for the others. *certified*: proved for every answer; *99%*: exceeded in one of a
    hundred; *none*: nothing is promised about ranks. At eps = 0.001 KLL runs with the k whose error
    at 99% is 0.001 and with k = 2600, whose error at 99% is 0.0011."""
NOTES = (
    """REQ in the Python package of DataSketches (5.2) keeps k in 8 bits: k = 256 silently becomes 4. 254 is
    the most it can do, so it does not reach eps = 0.0001. It holds float32 only.""",
    """REQ's error at 99% is 2.576 * 0.084 / k, from its rank bounds: its `get_RSE` returns a rank, not an
    error (apache/datasketches-java issue 728). It is for one question, the observed one the worst of all.""",
    "DDSketch bounds the error of values, not of ranks. River's P2 estimates one phi, fixed beforehand.",
    "Polars and DuckDB are given a column in memory and asked for the median: update and answer in one.",
    """q-digest works over the 2^32 ordinals of float32; float64 input is rounded to float32 before the clock
    starts, as for REQ, and their errors are those on the rounded values.""",
)


def stream_ratios(report: Report) -> str:
    """The one table: our speed divided by each other's, then our speed."""
    rows = report.rows["rows"]
    measured = {row["method"] for row in rows}
    others = [name for name in COLUMNS[1:] if name in measured]
    scaled = {row["method"] for row in rows if row["n"] < report.settings["n"]}
    header = [
        "type",
        "eps",
        "order",
        *(f"/ {name}{'*' if name in scaled else ''}" for name in others),
        "M values/s",
    ]
    body = [_ratio_line(row, rows, others) for row in rows if row["method"] == OURS]
    return table.markdown(header, sorted(body, key=lambda line: (line[0] != "float64", -float(line[1]))))


def _ratio_line(ours: Row, rows: list[Row], others: list[str]) -> list[str]:
    cells = []
    for name in others:
        speed = _speed(rows, ours["type"], ours["order"], name, ours["eps"])
        cells.append(table.ratio(ours["values_per_s"] / speed if speed else None))
    return [ours["type"], f"{ours['eps']:g}", ours["order"], *cells, table.millions(ours["values_per_s"])]


def stream_details(report: Report, dtype: str, eps: float) -> str:
    """Every method on random input: speed, error, promise, size."""
    rows = report.rows["rows"]
    ours = _find(rows, dtype, "random", OURS, eps)["values_per_s"]
    body = []
    for row in sorted(rows, key=lambda row: COLUMNS.index(row["method"])):
        if (row["type"], row["order"]) != (dtype, "random") or row["eps"] not in (None, eps):
            continue
        errors = [
            other["observed_error"]
            for other in rows
            if (other["method"], other["type"], other["eps"]) == (row["method"], dtype, row["eps"])
            and other["observed_error"] is not None
        ]
        body.append(
            [
                row["method"],
                table.ratio(ours / row["values_per_s"]),
                table.millions(row["values_per_s"]),
                table.millions(row["values_per_s_median"]),
                table.plain(row["observed_error"]),
                table.plain(max(errors, default=None)),
                _promise(row),
                table.size(row["bytes"]),
                ", ".join(part for part in _remarks(row, report) if part),
            ]
        )
    header = [
        "method",
        "ours / it",
        "M values/s",
        "median",
        "error, random",
        "error, any order",
        "promise",
        "size",
        "",
    ]
    return table.markdown(header, body)


def _find(rows: list[Row], dtype: str, order: str, method: str, eps: float) -> Row:
    wanted = (dtype, order, method, eps)
    return next(row for row in rows if (row["type"], row["order"], row["method"], row["eps"]) == wanted)


def _speed(rows: list[Row], dtype: str, order: str, method: str, eps: float) -> int | None:
    """None where it was not measured."""
    wanted = (dtype, order, method)
    for row in rows:
        if (row["type"], row["order"], row["method"]) == wanted and row["eps"] in (None, eps):
            return int(row["values_per_s"])
    return None


def _promise(row: Row) -> str:
    bound = row["guaranteed_error"]
    if row["guarantee"] == "value":
        return f"values within {bound:.2%}"
    if row["guarantee"] in ("none", "exact"):
        return str(row["guarantee"])
    return f"{table.plain(bound)} {row['guarantee']}"


def _remarks(row: Row, report: Report) -> tuple[str, ...]:
    sample = f"on {row['n']:,} values*" if row["n"] < report.settings["n"] else ""
    sent = row["summary_bytes"] and f"{table.size(row['summary_bytes'])} as a Summary"
    return row["setting"], row["note"], sent or "", sample


def _one_by_one(report: Report) -> str:
    rows = report.rows["one_by_one"]
    ours = rows[0]["values_per_s"]
    body = [[row["method"], table.ratio(ours / row["values_per_s"]), f"{row['values_per_s']:,}"] for row in rows]
    return table.markdown(["method", "ours / it", "values/s"], body)


def render(report: Report) -> str:
    settings = report.settings
    parts = ["# Update speed of whole-stream sketches", prose(HOW.format(**settings))]
    parts += ["## Ratios", prose(RATIOS), stream_ratios(report)]
    parts += ["## One value at a time", prose(SINGLES.format(**settings)), _one_by_one(report)]
    parts += ["## Speed, error, promise, size", prose(DETAILS.format(**settings))]
    for dtype in settings["dtypes"]:
        for eps in settings["epsilons"]:
            parts += [f"### {dtype}, eps = {eps:g}", stream_details(report, dtype, eps)]
    notes = "\n".join(f"- {prose(note)}" for note in NOTES)
    return sections([*parts, "## About the peers", notes])


def headlines(report: Report) -> list[str]:
    """Random float64 at eps = 0.001, and one by one."""
    rows, eps = report.rows["rows"], 0.001
    ours = _find(rows, "float64", "random", OURS, eps)["values_per_s"]
    lines = []
    for name in ("KLL k=2600", "np.sort 64K"):
        speed = _speed(rows, "float64", "random", name, eps)
        if speed:
            lines.append(f"**{table.ratio(ours / speed)}** times the speed of {name} (random float64, eps = 0.001)")
    single = report.rows["one_by_one"][0]["values_per_s"]
    return [
        *lines,
        f"{table.millions(ours)} M values/s (random float64, eps = 0.001)",
        f"{table.millions(single)} M values/s one at a time from Python",
    ]
