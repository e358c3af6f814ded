"""Pages of the cost model: docs/characterization/scale.md, and docs/scale.md for several processors.

A folder in docs/characterization/processors has the report of another processor.
"""

from collections.abc import Sequence

from bench.collection import DOCS, Subject
from bench.cost_measure import Settings, stage
from bench.cost_model import COSTS, TOLERANCE, Target, Use, costs_off, fits, processor_name
from bench.report import Report, Row
from bench.request_model import (
    FORMULAS,
    REQUEST_TOLERANCE,
    day_requests,
    predicted,
    small_stream,
    stream_requests,
    total,
)
from bench.request_prices import RequestCounts, RequestPrices
from bench.tables import amount
from quantide.store.object_lease import RENEW_SECONDS
from quantide.store.object_storage import ObjectStorage

SIZES = (10**9, 10**10, 10**11, 10**12)
COUNTED = ("values", "keys", "files", "runs", "readers")  # columns that say how large a measured row is
REQUEST_SIZES = ("values", "files", "inputs", "outputs", "entries", "runs", "steps", "appends")
PROCESSORS = DOCS / "characterization" / "processors"


def other_processors() -> list[Report]:
    return [Report.read(path) for path in sorted(PROCESSORS.glob("*/scale.json"))]


def context(report: Report) -> Row:
    costs, checks = [], []
    for one in fits(report).values():
        unit, terms = one.cost.unit, [(name, weight) for name, weight in one.coefficients.items() if weight]
        formula = " + ".join(f"{amount(weight, unit)} a {name}" for name, weight in terms)
        costs.append({"cost": one.cost.title, "formula": formula, "worst": one.worst(report), "why": one.cost.reason})
        for row in report.rows[one.cost.rows]:
            pair = {"measured": amount(row[one.cost.column], unit), "predicted": amount(one.predict(**row), unit)}
            checks.append({"cost": one.cost.title, "size": size_text(row, COUNTED), **pair, "off": one.off(row)})
    shared: Row = {"costs": costs, "checks": checks, "off": costs_off(report), "tolerance": TOLERANCE}
    shared |= {"requests": request_checks(report), "request_tolerance": REQUEST_TOLERANCE}
    return shared | {"use": Use(report, Target(SIZES[-1]))}


def size_text(row: Row, names: Sequence[str]) -> str:
    return ", ".join(f"{row[name]:,} {name}" for name in names if name in row)


def request_checks(report: Report) -> list[Row]:
    """Return every counted work beside its formula; the last is a whole stream."""
    pairs = [(row["work"], row, predicted(row)) for row in report.rows["requests"]]
    pairs += [("a stream", row, total(stream_requests(small_stream(row)))) for row in report.rows["stream"]]
    return [{"work": work, "size": size_text(row, REQUEST_SIZES), **_both(row, counts)} for work, row, counts in pairs]


def _both(row: Row, counts: RequestCounts) -> Row:
    """Return counts and predictions, and their largest difference as a fraction of all requests of the work."""
    both = {kind: (row[kind], getattr(counts, kind)) for kind in ("put", "get", "list")}
    texts = {
        kind: f"{count:,} / {expected:,.0f}" if count or expected else None for kind, (count, expected) in both.items()
    }
    largest = max(abs(expected - count) for count, expected in both.values())
    return texts | {"off": largest / sum(count for count, _ in both.values())}


def limits_context(report: Report, others: Sequence[Report] = ()) -> Row:
    """Return the variables of docs/scale.md: `uses` of this processor and the others, the slowest first."""
    uses = [Use(report, Target(values)) for values in SIZES]
    table = [[use, *(Use(report, use.target, other) for other in others)] for use in uses]
    for row in table:
        row.sort(key=lambda use: -use.cores)
    slowest, rows = table[-1][0], report.rows
    limits = [{**vars(limit), "times": limit.times} for limit in slowest.limits()]
    largest = {"values": max(row["values"] for row in rows["ingest"])}
    largest |= {"files": max(row["files"] for row in rows["follow"])}
    shared: Row = {"uses": [vars(use) for use in uses], "by_processor": [vars(use) for row in table for use in row]}
    shared |= {"use": slowest, "t": slowest.target, "limits": limits, "all": table[-1]}
    shared |= {"off": costs_off(report), "largest": largest, "costs": len(COSTS), "tolerance": TOLERANCE}
    shared |= {"others": [other.about | {"name": processor_name(other)} for other in others]}
    return shared | price_context(uses) | {"about": report.about}


def price_context(uses: Sequence[Use]) -> Row:
    """Return requests and prices: `days` by size, `works` of the largest."""
    prices, days = RequestPrices.read(), [day_requests(use) for use in uses]
    rows = [_day_row(use, total(day), prices) for use, day in zip(uses, days, strict=True)]
    works = [{"work": name, **counts._asdict(), "usd": prices.of(counts)} for name, counts in days[-1].items()]
    runs, files, appended = uses[-1].runs, uses[-1].files, days[-1]["appends"]
    queries = {name: prices.of(FORMULAS[f"{name} query"](runs).times(1000)) for name in ("cold", "warm")}
    shared: Row = {"prices": prices, "days": rows, "works": works, "queries": queries, "files": files}
    shared |= {"opened": prices.of(FORMULAS["open"](files, 0)), "append_puts": round(appended.put / appended.get)}
    shared |= {"renew": RENEW_SECONDS, "poll": ObjectStorage.poll_seconds}
    return shared | {"request_tolerance": REQUEST_TOLERANCE}


def _day_row(use: Use, counts: RequestCounts, prices: RequestPrices) -> Row:
    stored = prices.of_month(use.data_bytes + use.side_bytes + use.recent_bytes)
    about = {"values": use.target.values, "tables": use.tables, **counts._asdict()}
    return about | {"usd": prices.of(counts), "storage": stored}


ABOUT = "costs at three sizes beside a cost model"
SUBJECT = Subject(ABOUT, Settings, stage, context)
