"""The tables about history and stream."""

from collections.abc import Sequence

from benchmarks import table
from benchmarks.report import Report, Row
from characterization.curves import Curve
from characterization.figures_history import MODES, fraction, grouped
from characterization.growth import exponent, last_exponent
from characterization.history_watch import PARTS

PEERS = ("GK", "q-digest")
ASKED = ("accurate", "quick", "blocks read", "at most")
ERRORS = ("error", "certified", "allowed", "error, quick", "certified")


def memory(report: Report) -> str:
    body = []
    for data, budget, by in _methods(report):
        ours = by["accurate"]
        errors = [f"{row['mean_error'] / row['n']:.1e}" for row in by.values()]
        ratios = [table.ratio(_ratio(report, by, peer)) for peer in PEERS]
        certified = f"{ours['certified'] / ours['n']:.1e}"
        body.append([data, table.size(budget), table.size(ours["bytes"]), *errors[:1], certified, *errors[1:], *ratios])
    compared = [f"{peer} / accurate" for peer in PEERS]
    return table.markdown(("data", "budget", "used", "accurate", "certified", "quick", *PEERS, *compared), body)


def data_kappas(report: Report) -> str:
    body, stream = [], report.settings["small_values"]
    for data, rows in grouped(report.rows["data_kappas"], "data").items():
        for kappa, some in grouped(rows, "kappa").items():
            accurate, quick = some
            errors = [f"{row[name] / row['n']:.1e}" for row in some for name in ("mean_error", "certified")]
            allowed = f"{accurate['eps'] * stream / accurate['n']:.1e}"
            body.append([data, f"{kappa}", table.size(quick["bytes"]), *errors[:2], allowed, *errors[2:]])
    return table.markdown(("data", "kappa", "used", "accurate", "certified", "allowed", "quick", "certified"), body)


def memory_updates(report: Report) -> str:
    body = [
        [row["data"], table.size(row["memory"]), *_parts(row), *(ms(row[peer]) for peer in PEERS)]
        for row in report.rows["memory_updates"]
    ]
    return table.markdown(("data, small steps", "budget", *PARTS, "all", *PEERS), body)


def kappas(report: Report) -> str:
    rows = report.rows["kappas"]
    body = [[f"{row['kappa']}", *_parts(row), f"{row['read']:.1f}", f"{row['written']:.1f}"] for row in rows]
    return table.markdown(("kappa, large steps", *PARTS, "all", "blocks read", "blocks written"), body)


def accesses(report: Report) -> str:
    rows = report.rows["accesses"]
    return table.markdown(
        ("kappa", "blocks", "steps"), [[f"{row[name]:,}" for name in ("kappa", "blocks", "steps")] for row in rows]
    )


def questions(report: Report) -> str:
    rows = report.rows["kappas"]
    body = [[f"{row['kappa']}", f"{row['runs']}", table.size(row["bytes"]), *_asked(row)] for row in rows]
    return table.markdown(("kappa", "runs", "index", *ASKED), body)


def windows(report: Report) -> str:
    body = [
        [
            *(f"{row['kappa']}", f"{row['last_steps']}", f"{row['n']:,}", ms(row["seconds"]), f"{row['reads']:.1f}"),
            *(f"{row[name]:,.0f}" for name in ("worst_error", "certified")),
        ]
        for row in report.rows["windows"]
    ]
    return table.markdown(("kappa", "last steps", "values", "time", "blocks read", "worst error", "certified"), body)


def history(report: Report) -> str:
    body = [
        [
            *(f"{row['steps']}", f"{row['values']:,}", f"{row['runs']}", ms(sum(row[part] for part in PARTS))),
            *(ms(row["opening"]), table.size(row["bytes"]), ms(row["first"]), *_asked(row), *_errors(row)),
        ]
        for row in report.rows["history"]
    ]
    return table.markdown(("steps", "values", "runs", "a step", "opening", "index", "first", *ASKED, *ERRORS), body)


def stream(report: Report) -> str:
    body = [
        [
            *(
                f"{row['stream']:,}",
                f"{row['values']:,}",
                f"{row['runs']}",
                ms(row["append"]),
                table.size(row["bytes"]),
            ),
            *(ms(row["first"]), *_asked(row), *_errors(row)),
        ]
        for row in report.rows["stream"]
    ]
    return table.markdown(("stream", "values", "runs", "an append", "index", "first", *ASKED, *ERRORS), body)


def growth(curves: Sequence[Curve]) -> str:
    body = []
    for c in curves:
        bounds = [(f"{c.name}: {c.word}", c.stated)] if c.stated else []
        for name, points in [(c.name, c.points), *bounds]:
            body.append([c.panel, name, f"{exponent(points):.2f}", f"{last_exponent(points):.2f}"])
    return table.markdown(("what", "of", "exponent", "at the end"), body)


def times(report: Report, peer: str) -> str:
    """How many times larger the errors of a peer are, from the least to the most."""
    found = [_ratio(report, by, peer) for _, _, by in _methods(report)]
    return f"{table.ratio(min(found))} to {table.ratio(max(found))} times"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:,.0f} ms"


def _methods(report: Report) -> list[tuple[str, int, dict[str, Row]]]:
    """For every data set and budget what each method found."""
    return [
        (data, some[0]["memory"], {row["method"]: row for row in some})
        for data, rows in grouped(report.rows["memory"], "data").items()
        for some in grouped(rows, "memory").values()
    ]


def _ratio(report: Report, by: dict[str, Row], peer: str) -> float:
    return fraction(report, by[peer], "mean_error") / fraction(report, by["accurate"], "mean_error")


def _parts(row: Row) -> list[str]:
    return [*(ms(row[part]) for part in PARTS), ms(sum(row[part] for part in PARTS))]


def _asked(row: Row) -> list[str]:
    times = [ms(row[f"{mode}_seconds"]) for mode in MODES]
    return [*times, f"{row['accurate_reads']:.1f}", f"{row['accurate_most_reads']}"]


def _errors(row: Row) -> list[str]:
    accurate = [row["accurate_mean_error"], row["accurate_certified"], row["allowed"]]
    return [f"{error:,.1f}" for error in (*accurate, row["quick_mean_error"], row["quick_certified"])]
