"""Cost model: each cost a sum of few terms, fitted to small runs, then used for sizes that were never run.

Coefficients are not negative, and minimize the squares of (predicted - measured) / measured over the terms that help.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from bench import rendering
from bench.report import Report, Row
from quantide.history.appended_rows import PIECE_ROWS
from quantide.history.compaction_plan import file_count
from quantide.store.folder_storage import FolderStorage
from quantide.store.log_maintenance import checkpoint_interval
from quantide.store.store_settings import StoreSettings

TOLERANCE, DAY, MOST = 0.3, 86_400, 2**53  # a prediction further away is off; seconds; values that ranks are proved for
RATES = ("ingest", "merge")  # costs that are processor time and little else
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

    def worst(self, report: Report) -> float:
        return max((self.off(row) for row in report.rows[self.cost.rows]), key=abs)


def fit(cost: Cost, rows: Sequence[Row]) -> Fit:
    """Return the best choice of terms with positive coefficients."""
    measured = np.array([row[cost.column] for row in rows], dtype=float)
    columns = {name: np.array([term(row) for row in rows]) / measured for name, term in cost.terms.items()}
    best, least = dict.fromkeys(columns, 0.0), math.inf
    for names in (names for size in range(1, len(columns) + 1) for names in combinations(columns, size)):
        table = np.stack([columns[name] for name in names], axis=1)
        weights, *_ = np.linalg.lstsq(table, np.ones(len(rows)), rcond=None)
        error = float(((table @ weights - 1) ** 2).sum())
        if (weights > 0).all() and error < least:
            best, least = dict.fromkeys(columns, 0.0) | dict(zip(names, weights.tolist(), strict=True)), error
    return Fit(cost, best)


def summary_tuples(each: float, eps: float) -> float:
    """Return the tuples of a summary within eps of so many values: ranks 2*floor(eps*n) + 1 apart, and the last."""
    apart = 2 * math.floor(eps * each) + 1
    return min(each, math.ceil((each - 1) / apart) + 1)


def made_runs(steps: int, kappa: int) -> list[int]:
    """Return how many runs of each level were made in so many steps.

    A run of level l has kappa^l steps. The first kappa runs of a level are merged when the next one is there: run j of
    level l is made at step j * kappa^l + kappa^(l-1) + ... + 1. With kappa = 1 two are merged, with all runs of the
    next levels that would have two: a step that 2^l divides, and no higher power, makes one.

    >>> made_runs(4, 3), made_runs(13, 3), made_runs(8, 1)
    ([4, 1], [13, 4, 1], [8, 2, 1, 1])
    """
    made, width, waiting = [steps], kappa, 1
    if kappa == 1:
        return [steps, *(steps // 2**level - steps // 2 ** (level + 1) for level in range(1, steps.bit_length()))]
    while steps >= width + waiting:
        made.append((steps - waiting) // width)
        width, waiting = width * kappa, waiting + width
    return made


def run_steps(level: int, kappa: int) -> int:
    """Return the steps of a run of a level."""
    return int(max(2, kappa) ** level)


def depth(steps: int, kappa: int) -> int:
    """Return the levels after so many steps.

    >>> depth(10, 10), depth(11, 10), depth(111, 10)
    (1, 2, 3)
    """
    return len(made_runs(steps, kappa))


def rewritten(steps: int, kappa: int) -> float:
    """Return how often levels write a value again.

    >>> rewritten(4, 3), rewritten(13, 3)
    (0.75, 1.6153846153846154)
    """
    made = made_runs(steps, kappa)
    return sum(count * run_steps(level, kappa) for level, count in enumerate(made) if level) / steps


def stored_files(rows: float, steps: int, kappa: int) -> int:
    """Return the data files after so many steps with so many rows each.

    >>> stored_files(2**22, 4, 3), stored_files(2**22, 5, 3), stored_files(1e9, 8_760, 10)
    (4, 5, 135028)
    """
    made, files, left = [*made_runs(steps, kappa), 0], 0, steps
    for level in reversed(range(len(made) - 1)):
        runs = made[level] - kappa * made[level + 1]
        if kappa == 1:
            runs, left = divmod(left, run_steps(level, kappa))
        files += runs * file_count(math.ceil(rows * run_steps(level, kappa)), level)
    return files


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
    return [one.cost.title for one in fits(report).values() if abs(one.worst(report)) > TOLERANCE]


def processor_name(report: Report) -> str:
    """Return the name of a processor without marks.

    >>> processor_name(Report("", {}, {}, {"machine": {"cpu": "Intel(R) Xeon(R) Processor"}}))
    'Intel Xeon'
    """
    return str(report.about["machine"]["cpu"]).replace("(R)", "").removesuffix(" Processor")


@dataclass(frozen=True)
class Target:
    """A size. `every`: seconds between commits of a table; `step`, `window`: seconds; `opening`: seconds that a new

    reader may take, with all its cores; `cores`: of a merge, or of a reader; `memory`: bytes of a process.
    """

    values: float
    keys: int = 10**6
    days: int = 365
    every: int = 10
    step: int = 3_600
    window: int = 300
    kappa: int = 10
    eps: float = 0.01
    opening: int = 60
    cores: int = 8
    memory: float = 16e9


@dataclass(frozen=True)
class Limit:
    """`one` is the capacity of one table or process, `needed` the need."""

    name: str
    unit: str
    one: float
    needed: float
    remedy: str

    @property
    def times(self) -> float:
        return self.needed / self.one


class Use:
    """Resources of a target, by the fits of a report: cores are averages, bytes are of all days.

    `processor`: a report of another processor, whose RATES replace those of the first.
    """

    def __init__(self, report: Report, target: Target, processor: Report | None = None) -> None:
        rates = {name: fit(COSTS[name], processor.rows[COSTS[name].rows]) for name in RATES} if processor else {}
        self.fits, self.target, self.processor = fits(report) | rates, target, processor_name(processor or report)
        t, f = target, {name: one.predict for name, one in self.fits.items()}
        self.all_values, self.steps = t.values * t.days, t.days * DAY // t.step
        self.levels = depth(self.steps, t.kappa)
        self.files, self.runs = stored_files(t.values * t.step / DAY, self.steps, t.kappa), t.kappa * self.levels
        merged = sum(run_steps(level, t.kappa) for level in range(1, self.levels))  # steps, on all levels at once
        self.largest_merge = t.values * t.step / DAY * merged
        self._merged_value = f["merge"](values=1e12, touched=t.keys, runs=1) / 1e12  # seconds, in a very large merge
        self.run_eps, recent = StoreSettings.of(eps=t.eps).run_eps, t.values * t.window / DAY
        self.data_bytes = f["data"](values=self.all_values, touched=t.keys * self.runs)
        self.side_bytes = f["side"](values=self.all_values / self.runs, touched=t.keys, eps=self.run_eps) * self.runs
        self.recent_bytes = f["recent"](values=recent, touched=min(recent, t.keys))
        self.reader_bytes = f["held"](values=self.all_values, touched=t.keys * self.runs)
        self.tables = max(1, math.ceil(max(limit.times for limit in self.table_limits())))
        values, files = t.values * t.every / DAY / self.tables, self.files / self.tables
        chunks = math.ceil(values / PIECE_ROWS)
        ingest = f["ingest"](values=values / chunks, touched=min(t.keys / self.tables, values / chunks))
        self.ingest_cores = ingest * chunks * self.tables / t.every
        nearest = min(report.rows["open_step"], key=lambda row: abs(math.log(row["rows"] / values)))
        self.written_again_in_step = float(nearest["rewritten"])
        self.written_again_by_levels = rewritten(self.steps, t.kappa)
        self.written_again = self.written_again_in_step + self.written_again_by_levels
        self.merge_cores = self._merged_value * self.written_again * t.values / DAY
        self.merge_cores_at_worst = self._merged_value * self.largest_merge / t.step  # all tables at once
        follow, idle = f["follow"](files=files) / t.every, f["idle"](readers=1) / FolderStorage.poll_seconds
        checkpoint = f["checkpoint"](files=files) / checkpoint_interval(int(files)) / t.every
        self.log_cores = (f["commit"](files=files) / t.every + checkpoint + follow + idle) * self.tables
        self.readers_of_a_log = 1 / (follow + idle)
        self.cores = self.ingest_cores + self.merge_cores + self.log_cores

    def limits(self) -> list[Limit]:
        """Return all limits, the most exceeded first."""
        counted = Limit("values that ranks are proved for", "values", MOST, self.all_values, "a new table in time")
        return sorted([*self.table_limits(), counted], key=lambda limit: -limit.times)

    def table_limits(self) -> list[Limit]:
        t = self.target
        merge = "merges run as Spark tasks over ranges; only the next step waits; several tables; a smaller kappa"
        reader, mapped = "one reader for some of the tables", "pages of files: the system drops those that are not read"
        opened = f"a new reader opens the table within {t.opening} s"
        largest, most = f"the largest merges of a step, on {t.cores} cores", t.step * t.cores / self._merged_value
        limits = [
            Limit(largest, "values", most, self.largest_merge, merge),
            Limit(opened, "files", self._most_files("open", t.opening), self.files, "files grow with their level"),
            Limit("a reader's directories and fences in memory", "bytes", t.memory, self.reader_bytes, reader),
            Limit("recent rows of a window in memory, mapped", "bytes", t.memory, self.recent_bytes, mapped),
        ]
        for cost, name in (("commit", "a commit"), ("follow", "a reader follows a commit")):
            most = self._most_files(cost, t.every)
            if most < math.inf:
                remedy = "the keys of a stream can be split over several tables"
                limits.append(Limit(f"{name} within {t.every} s", "files", most, self.files, remedy))
        between = checkpoint_interval(self.files) * t.every
        most = self._most_files("checkpoint", between)
        limits.append(Limit("a checkpoint before the next one is due", "files", most, self.files, "it is made later"))
        return limits

    def _most_files(self, cost: str, seconds: float) -> float:
        """Return the files of a table at which a cost takes so many seconds."""
        fixed, each = self.fits[cost].coefficients.values()
        return (seconds - fixed) / each if each else math.inf
