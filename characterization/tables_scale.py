"""The tables about scale: the model beside what was measured, and the model in use."""

from collections.abc import Callable

from benchmarks import table
from benchmarks.report import Report, Row
from characterization.scale_costs import COSTS, fits
from characterization.scale_model import TOLERANCE, Fit, depth, rewritten
from characterization.scale_target import Target
from characterization.scale_use import Use

SIZES = (10**9, 10**10, 10**11, 10**12)
UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def coefficients(report: Report) -> str:
    """Every cost as a formula."""
    rows = [[fit.cost.title, formula(fit), worst(fit, report), fit.cost.reason] for fit in fits(report).values()]
    return table.markdown(["cost", "formula", "worst difference", "why"], rows)


def formula(fit: Fit) -> str:
    terms = [f"{amount(weight, fit.cost.unit)} a {name}" for name, weight in fit.coefficients.items() if weight]
    return " + ".join(terms)


def worst(fit: Fit, report: Report) -> str:
    most = max((fit.off(row) for row in report.rows[fit.cost.rows]), key=abs)
    return told(most) if abs(most) <= TOLERANCE else f"**{told(most)}, off**"


def told(off: float) -> str:
    return f"{off:+.0%}"


def check(report: Report, names: tuple[str, ...]) -> str:
    """Measured and predicted, size by size."""
    found = fits(report)
    lines = [_checked(found[name], row) for name in names for row in report.rows[COSTS[name].rows]]
    return table.markdown(["cost", "size", "measured", "predicted", "difference"], lines)


def _checked(fit: Fit, row: Row) -> list[str]:
    both = [amount(number, fit.cost.unit) for number in (row[fit.cost.column], fit.predict(**row))]
    off = fit.off(row)
    return [fit.cost.title, _size(row), *both, told(off) + (" off" if abs(off) > TOLERANCE else "")]


def off(report: Report) -> list[str]:
    """The costs that the model is off for, somewhere."""
    return [
        fit.cost.title
        for fit in fits(report).values()
        if any(abs(fit.off(row)) > TOLERANCE for row in report.rows[fit.cost.rows])
    ]


def levels(report: Report) -> str:
    rows = [
        [
            str(row["kappa"]),
            f"{row['steps']:,}",
            f"{row['levels']} / {depth(row['steps'], row['kappa'])}",
            str(row["runs"]),
            f"{row['most_runs']} / {row['kappa'] * depth(row['steps'], row['kappa'])}",
            f"{row['rewritten']:.3f} / {rewritten(row['steps'], row['kappa']):.3f}",
            f"{row['merges']:,}",
            f"{row['largest']:,}",
        ]
        for row in report.rows["levels"]
        if row["named"]
    ]
    header = ["kappa", "steps", "levels / formula", "runs", "most runs / bound", "written again / formula", "merges"]
    return table.markdown([*header, "steps of the largest"], rows)


def open_step(report: Report) -> str:
    rows = [
        [f"{row['appends']:,}", f"{row['rows']:,}", str(row["chunks"]), f"{row['rewritten']:.2f}"]
        for row in report.rows["open_step"]
    ]
    return table.markdown(["appends", "rows of each", "chunks when it ends", "written again"], rows)


def fanout(report: Report) -> str:
    rows = [
        [
            f"{row['clients']:,}",
            f"{row['windows']:,}",
            f"{row['queries']:,}",
            table.seconds(row["look"]),
            table.seconds(row["tell"]),
            table.seconds(row["reached"]),
            f"{row['told']:,}",
            table.size(row["bytes"]),
            table.size(row["memory"]),
        ]
        for row in report.rows["fanout"]
    ]
    header = ["clients", "windows", "queries", "look", "tell", "last is told after", "told", "sent", "memory"]
    return table.markdown(header, rows)


def sizes(report: Report) -> str:
    """The model in use, for each number of values a day."""
    uses = [Use(report, Target(values)) for values in SIZES]
    lines: list[tuple[str, Callable[[Use], str]]] = [
        ("values a second", lambda use: short(use.target.values / 86_400)),
        ("values a second that a core takes in", lambda use: short(use.target.values / 86_400 / use.ingest_cores)),
        ("tables, by keys", lambda use: f"{use.tables:,}"),
        ("cores: taking values in", lambda use: cores(use.ingest_cores)),
        ("cores: merging, on average", lambda use: cores(use.merge_cores)),
        ("cores: merging, in the worst step", lambda use: cores(use.merge_cores_at_worst)),
        ("cores: logs, writers and readers", lambda use: cores(use.log_cores)),
        ("cores: serving", lambda use: cores(use.serve_cores)),
        ("**cores, on average**", lambda use: cores(use.cores)),
        ("servers", lambda use: f"{use.servers:,}"),
        ("a value is written again", lambda use: f"{use.written_again:.2f} times"),
        ("data a second", lambda use: amount(use.data_bytes / use.target.days / 86_400, "bytes")),
        ("data of a year", lambda use: amount(use.data_bytes, "bytes")),
        ("side files", lambda use: amount(use.side_bytes, "bytes")),
        ("recent rows", lambda use: amount(use.recent_bytes, "bytes")),
        ("**stored in all**", lambda use: amount(use.data_bytes + use.side_bytes + use.recent_bytes, "bytes")),
        ("data files", lambda use: short(use.files)),
        ("held by all readers", lambda use: amount(use.held_bytes, "bytes")),
        ("a summary of every key, in memory", lambda use: amount(use.summary_bytes, "bytes")),
        ("the summary of a key", lambda use: amount(use.summary_bytes / use.target.keys, "bytes")),
        ("levels of a table", lambda use: str(depth(use.steps, use.target.kappa))),
        ("runs of a table, and blocks of a question, at most", lambda use: str(use.runs)),
        ("an accurate question", lambda use: amount(use.fits["question"].predict(runs=use.runs), "s")),
        ("readers of one log that a core can follow", lambda use: short(use.readers_of_a_log)),
        ("events, a second", lambda use: amount(use.event_rate, "bytes")),
    ]
    rows = [[name, *(say(use) for use in uses)] for name, say in lines]
    return table.markdown(["values a day", *(table.power(values) for values in SIZES)], rows)


def limits(report: Report, values: float = SIZES[-1]) -> str:
    """What breaks first comes first."""
    use = Use(report, Target(values))
    rows = []
    for place, limit in enumerate(use.limits(), 1):
        asked = [amount(x, limit.unit) if limit.unit in ("s", "bytes") else short(x) for x in (limit.one, limit.asked)]
        unit = "" if limit.unit in ("s", "bytes") else f" {limit.unit}"
        rows.append([str(place), limit.name, asked[0] + unit, asked[1] + unit, times(limit.times), limit.remedy])
    return table.markdown(["", "limit", "one carries", "asked for", "times", "what the design does about it"], rows)


def times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def cores(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def short(number: float) -> str:
    """11.6 M."""
    if number == float("inf"):
        return "no end"
    for factor, letter in UNITS:
        if number >= factor:
            return f"{number / factor:.3g} {letter}"
    return f"{number:.3g}"


def amount(number: float, unit: str) -> str:
    """Seconds or bytes with three digits."""
    if unit == "s":
        for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
            if number >= factor:
                return f"{number / factor:.3g} {name}"
        return f"{number * 1e9:.3g} ns"
    return f"{short(number)}B" if number >= 1e3 else f"{number:.3g} B"


def _size(row: Row) -> str:
    words = ("values", "keys", "files", "runs", "readers", "clients", "windows", "queries")
    named = [f"{row[word]:,} {word}" for word in words if word in row]
    return ", ".join([*named, f"{row['each']:,} values of each, eps = {row['eps']:g}"] if "each" in row else named)
