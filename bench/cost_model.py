"""Cost model: each cost a sum of few terms, fitted to small runs, then used for sizes that were never run.

Coefficients are not negative, and minimize the squares of (predicted - measured) / measured over the terms that help.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from bench import plots, rendering
from bench.collection import Subject
from bench.cost_measure import Settings, stage
from bench.rendering import group
from bench.report import Report, Row
from bench.tables import amount
from quantide.config.server_config import Limits as ServerLimits
from quantide.history.compaction_plan import TASK_ROWS
from quantide.history.parquet_source import PIECE_ROWS
from quantide.live.live_stream import POLL_SECONDS
from quantide.server.events.event_hub import AT_ONCE, PAUSE
from quantide.store.store_settings import StoreSettings as StoreSettings

TOLERANCE, DAY, MOST = 0.3, 86_400, 2**53  # a prediction further away is off; seconds; values that ranks are proved for
SIZES = (10**9, 10**10, 10**11, 10**12)
Term = Callable[[Row], float]


@dataclass(frozen=True)
class Cost:
    """`column` of the rows `rows`, in `unit`, as a sum of named terms."""

    title: str
    rows: str
    column: str
    unit: str
    terms: Mapping[str, Term]
    reason: str


@dataclass(frozen=True)
class Fit:
    """A cost with the coefficients of its terms."""

    cost: Cost
    coefficients: Mapping[str, float]

    def predict(self, **row: float) -> float:
        return sum(weight * self.cost.terms[name](row) for name, weight in self.coefficients.items())

    def off(self, row: Row) -> float:
        """Return the difference of the prediction, as a fraction of the measured value."""
        return float(self.predict(**row) / row[self.cost.column] - 1)

    def formula(self) -> str:
        return " + ".join(
            f"{amount(weight, self.cost.unit)} a {name}" for name, weight in self.coefficients.items() if weight
        )


def fit(cost: Cost, rows: Sequence[Row]) -> Fit:
    """Return the best choice of terms with positive coefficients."""
    measured = np.array([row[cost.column] for row in rows], dtype=float)
    columns = {name: np.array([term(row) for row in rows]) / measured for name, term in cost.terms.items()}
    best, least = dict.fromkeys(columns, 0.0), math.inf
    for names in (names for size in range(1, len(columns) + 1) for names in combinations(columns, size)):
        table = np.stack([columns[name] for name in names], axis=1)
        found, *_ = np.linalg.lstsq(table, np.ones(len(rows)), rcond=None)
        error = float(((table @ found - 1) ** 2).sum())
        if (found > 0).all() and error < least:
            best, least = dict.fromkeys(columns, 0.0) | dict(zip(names, found.tolist(), strict=True)), error
    return Fit(cost, best)


def summary_tuples(each: float, eps: float) -> float:
    """Return the tuples of a summary within eps of so many values: ranks 2*floor(eps*n) + 1 apart, and the last."""
    apart = 2 * math.floor(eps * each) + 1
    return min(each, math.ceil((each - 1) / apart) + 1)


def depth(steps: int, kappa: int) -> int:
    """Return the levels after so many steps: a run of level l has (kappa + 1)^l of them.

    >>> depth(10, 10), depth(11, 10), depth(121, 10)
    (1, 2, 3)
    """
    levels, span = 1, kappa + 1
    while span <= steps:
        levels, span = levels + 1, span * (kappa + 1)
    return levels


def rewritten(steps: int, kappa: int) -> float:
    """Return how often levels write a value again: a step that (kappa + 1)^l divides, and no higher power, merges.

    >>> rewritten(4, 3), rewritten(16, 3)
    (1.0, 1.75)
    """
    base, total, span = kappa + 1, 0, kappa + 1
    while span <= steps:
        total += span * (steps // span - steps // (span * base))
        span *= base
    return total / steps


def _costs() -> dict[str, Cost]:
    """Read templates/costs.txt: name, title, rows, column, unit, terms as expressions over a row, and the reason."""
    found = {}
    for line in (rendering.TEMPLATES / "costs.txt").read_text(encoding="utf-8").splitlines():
        name, title, rows, column, unit, terms, reason = line.split(" | ")
        pairs = (term.split(" = ") for term in terms.split("; "))
        found[name] = Cost(title, rows, column, unit, {term: partial(_term, text) for term, text in pairs}, reason)
    return found


def _term(text: str, row: Row) -> float:
    return float(rendering.expression(text)(**row, log2=math.log2, max=max, summary_tuples=summary_tuples))


COSTS = _costs()


def fits(report: Report) -> dict[str, Fit]:
    """Return every cost, fitted to a report."""
    return {name: fit(cost, report.rows[cost.rows]) for name, cost in COSTS.items()}


def costs_off(report: Report) -> list[str]:
    """Return the costs that are off at some size."""
    found = fits(report).values()
    return [one.cost.title for one in found if any(abs(one.off(row)) > TOLERANCE for row in report.rows[one.cost.rows])]


@dataclass(frozen=True)
class Target:
    """A size. `every`: seconds between commits of a table; `step`, `window`: seconds; `share`: the part of the time

    that a table's writer and reader may spend on the log; `cores`: of a merge; `memory`: bytes of a process.
    """

    values: float
    keys: int = 10**6
    clients: int = 10**5
    queries: int = 5
    days: int = 365
    every: int = 10
    step: int = 3_600
    window: int = 300
    kappa: int = 10
    eps: float = 0.01
    share: float = 0.1
    cores: int = 8
    memory: float = 16e9


@dataclass(frozen=True)
class Limit:
    """`one` is what one table, process or server carries, `asked` what is needed; `setting`: a default, not a cost."""

    name: str
    unit: str
    one: float
    asked: float
    remedy: str
    setting: bool = False

    @property
    def times(self) -> float:
        return self.asked / self.one


class Use:
    """Resources of a target, by the fits of a report: cores are averages, bytes are of all days."""

    def __init__(self, report: Report, target: Target) -> None:
        self.fits, self.target, self._open = fits(report), target, report.rows["open_step"]
        t, f = target, {name: one.predict for name, one in self.fits.items()}
        self.all_values, self.steps = t.values * t.days, t.days * DAY // t.step
        self.files, self.runs = self.all_values / TASK_ROWS, t.kappa * depth(self.steps, t.kappa)
        self.largest_merge = t.values * t.step / DAY * float((t.kappa + 1) ** (depth(self.steps, t.kappa) - 1))
        self._merged_value = f["merge"](values=1e12, touched=t.keys, runs=1) / 1e12  # seconds, in a very large merge
        self._evaluating, self._notifying = (
            f["look"](windows=t.clients, queries=t.clients * t.queries),
            f["tell"](told=t.clients),
        )
        eps, recent = StoreSettings.of(eps=t.eps).run_eps, t.values * t.window / DAY
        self.data_bytes = f["data"](values=self.all_values, touched=t.keys * self.runs)
        self.side_bytes = f["side"](values=self.all_values / self.runs, touched=t.keys, eps=eps) * self.runs
        self.recent_bytes = f["recent"](values=recent, touched=min(recent, t.keys))
        self.held_bytes = f["held"](values=self.all_values, touched=t.keys * self.runs)
        self.summary_bytes = f["summaries"](keys=t.keys, each=self.all_values / t.keys, eps=t.eps)
        self.event_rate = f["sent"](queries=t.clients * t.queries) / t.every
        self.tables = max(1, math.ceil(max(limit.times for limit in self.table_limits())))
        self.servers = max(1, math.ceil(max(limit.times for limit in self.server_limits() if not limit.setting)))
        values, files = t.values * t.every / DAY / self.tables, self.files / self.tables
        chunks = math.ceil(values / PIECE_ROWS)
        ingest = f["ingest"](values=values / chunks, touched=min(t.keys / self.tables, values / chunks))
        self.ingest_cores = ingest * chunks * self.tables / t.every
        self.written_again_in_step = float(
            min(self._open, key=lambda row: abs(math.log(row["rows"] / values)))["rewritten"]
        )
        self.written_again_by_levels = rewritten(self.steps, t.kappa)
        self.written_again = self.written_again_in_step + self.written_again_by_levels
        self.merge_cores = self._merged_value * self.written_again * t.values / DAY
        self.merge_cores_at_worst = self._merged_value * self.largest_merge / t.step  # all tables at once
        busy, idle = (
            (f["commit"](files=files) + f["follow"](files=files)) * self.tables,
            f["idle"](readers=1) / POLL_SECONDS,
        )
        self.log_cores = busy / t.every + self.tables * idle
        self.readers_of_a_log = 1 / (f["follow"](files=files) / t.every + idle)
        self.serve_cores = (self._evaluating + self._notifying) / t.every
        self.cores = self.ingest_cores + self.merge_cores + self.log_cores + self.serve_cores

    @cached_property
    def query_seconds(self) -> float:
        return self.fits["question"].predict(runs=self.runs)

    def limits(self) -> list[Limit]:
        """Return all limits, the most exceeded first."""
        counted = Limit("values that ranks are proved for", "values", MOST, self.all_values, "a new table in time")
        return sorted([*self.table_limits(), *self.server_limits(), counted], key=lambda limit: -limit.times)

    def table_limits(self) -> list[Limit]:
        t, log = self.target, "the keys of a stream can be split over several tables; nothing else yet"
        interval, reader = f"within {t.share:.0%} of the interval", "one reader for some of the tables"
        merge = "merges run as Spark tasks over ranges; only the next step waits; several tables; a smaller kappa"
        mapped = f"{reader}; they are pages of files, and the system drops those that are not read"
        most = t.step * t.cores / self._merged_value
        follow = f"a reader of one table follows a commit {interval}"
        largest = "the largest merge of one table within a step"
        return [
            Limit(follow, "files", self._most_files("follow"), self.files, log),
            Limit(f"a commit {interval}", "files", self._most_files("commit"), self.files, log),
            Limit(f"{largest}, on {t.cores} cores", "values", most, self.largest_merge, merge),
            Limit("a reader's directories and fences in memory", "bytes", t.memory, self.held_bytes, reader),
            Limit("recent rows of a window in memory, mapped", "bytes", t.memory, self.recent_bytes, mapped),
        ]

    def server_limits(self) -> list[Limit]:
        t, more, between = self.target, "several servers, each with some of the clients", "between two commits"
        queries, memory = t.clients * t.queries, self.fits["clients"].predict(clients=t.clients)
        wakes, pace = f"a server wakes its clients, few at a time, {between}", AT_ONCE / PAUSE * t.every
        streams, registered, set_so = ServerLimits().events, ServerLimits().queries, f"a setting; {more}"
        return [
            Limit(f"a server evaluates its windows {between}", "s", t.every, self._evaluating, f"{more} and keys"),
            Limit(f"a server's loop notifies its clients {between}", "s", t.every, self._notifying, more),
            Limit(wakes, "clients", pace, t.clients, more),
            Limit("event streams of a server, by default", "clients", streams, t.clients, set_so, True),
            Limit("continuous queries of a server, by default", "queries", registered, queries, set_so, True),
            Limit("clients in the memory of a server", "bytes", t.memory, memory, more),
        ]

    def _most_files(self, cost: str) -> float:
        """Return the files of a table at which a cost takes its whole share of the interval."""
        found = self.fits[cost].coefficients
        room = self.target.share * self.target.every - found["commit"]
        return room / found["file"] if found["file"] else math.inf


# Pages


def figures(report: Report) -> Row:
    """Draw runs and rewritten values over a year of steps; cores, bytes, tables and servers by values a day."""
    dashes, uses = ("", "6 4", "2 3"), [Use(report, Target(values)) for values in SIZES]
    by_kappa = group(report.rows["levels"], "kappa")

    def lines(y: str) -> list[plots.Line]:
        named = enumerate(by_kappa.items())
        return [
            plots.Line(f"kappa = {kappa}", plots.points(rows, "steps", y), i, dashes[i]) for i, (kappa, rows) in named
        ]

    def sizes(title: str, label: str, named: Mapping[str, str], first: int, factor: float = 1.0) -> plots.Panel:
        found = [
            (name, [(use.target.values / 1e9, factor * getattr(use, y)) for use in uses]) for name, y in named.items()
        ]
        drawn = [plots.Line(name, one, (first + i) % 6, dashes[i % 3]) for i, (name, one) in enumerate(found)]
        return plots.Panel(title, "billions of values a day", label, drawn)

    upper, shown = [], by_kappa[10]
    for level in range(
        2, 1 + max(level for row in shown for level, _ in row["by_level"])
    ):  # lower ones change too fast
        found = [(row["steps"], dict(row["by_level"]).get(level, 0)) for row in shown]
        upper.append(plots.Line(f"level {level}, kappa = 10", found, 1 + level, dashes[level % 3]))
    levels = [plots.Panel("Runs, each one block of a query", "steps", "runs", lines("runs"), "xy")]
    levels.append(plots.Panel("Values written again by levels", "steps", "times", lines("rewritten"), "xy"))
    levels.append(plots.Panel("Runs of the upper levels, kappa = 10", "steps", "runs", upper, "xy"))
    busy = {"ingestion": "ingest_cores", "merging": "merge_cores", "logs": "log_cores", "serving": "serve_cores"}
    stored = {"data": "data_bytes", "index files": "side_bytes", "recent rows": "recent_bytes"}
    panels = [sizes("Cores, on average", "cores", busy, 0), sizes("Bytes of a year", "terabytes", stored, 4, 1e-12)]
    panels.append(sizes("Tables and servers", "number", {"tables": "tables", "servers": "servers"}, 2))
    return {
        "scale-levels.svg": plots.svg(levels, "Runs and written values over a year of hourly steps"),
        "scale-cores.svg": plots.svg(panels, "Cores, storage, tables and servers against values a day, by the model"),
    }


def checks(report: Report) -> Callable[..., list[Row]]:
    """Return a function of the names of costs: measured and predicted values, size by size."""
    found, words = fits(report), ("values", "keys", "files", "runs", "readers", "clients", "windows", "queries")

    def check(*names: str) -> list[Row]:
        rows = []
        for one, row in ((found[name], row) for name in names for row in report.rows[COSTS[name].rows]):
            size = ", ".join(f"{row[word]:,} {word}" for word in words if word in row)
            size += f", {row['each']:,} values of each, eps = {row['eps']:g}" if "each" in row else ""
            values = [amount(number, one.cost.unit) for number in (row[one.cost.column], one.predict(**row))]
            difference = f"{one.off(row):+.0%}" + (" off" if abs(one.off(row)) > TOLERANCE else "")
            row_text = {"cost": one.cost.title, "size": size, "measured": values[0], "predicted": values[1]}
            rows.append(row_text | {"difference": difference})
        return rows

    return check


def context(report: Report) -> Row:
    costs = []
    for one in fits(report).values():
        worst = max((one.off(row) for row in report.rows[one.cost.rows]), key=abs)
        difference = f"{worst:+.0%}" if abs(worst) <= TOLERANCE else f"**{worst:+.0%}, off**"
        costs.append({"cost": one.cost.title, "formula": one.formula(), "worst": difference, "reason": one.cost.reason})
    levels = [
        row | {"depth": depth(row["steps"], row["kappa"]), "formula": rewritten(row["steps"], row["kappa"])}
        for row in report.rows["levels"]
        if row["named"]
    ]
    found: Row = {"costs": costs, "check": checks(report), "off": costs_off(report), "named": levels}
    found |= {"tolerance": TOLERANCE}
    return found | {"use": Use(report, Target(SIZES[-1])), "settings": {"tiny": 10}}


def limits_context(report: Report) -> Row:
    """Return the variables of docs/scale.md."""
    uses: list[Any] = [Use(report, Target(values)) for values in SIZES]
    rows, crowd = report.rows, max(report.rows["fanout"], key=lambda row: int(row["clients"]))
    largest = {
        "values": max(row["values"] for row in rows["ingest"]),
        "files": max(row["files"] for row in rows["follow"]),
    }
    found: Row = {"uses": uses, "use": uses[-1], "t": uses[-1].target, "limits": uses[-1].limits()}
    found |= {"off": costs_off(report)}
    found |= {"crowd": crowd, "largest": largest, "costs": len(COSTS), "tolerance": TOLERANCE, "at_once": AT_ONCE}
    found |= {"pause": PAUSE, "depth": depth, "range": TASK_ROWS, "cores": report.about["machine"]["cores"]}
    return found | {"streams": next(limit.one for limit in uses[-1].server_limits() if limit.setting)}


ABOUT = "costs at three sizes beside a cost model; a year of merges and many clients, simulated"
SUBJECT = Subject(ABOUT, Settings, stage, context, figures)
