"""The model in use: what a size that nobody has here would take, and what it would break first."""

import math
from collections.abc import Mapping

from benchmarks.report import Report
from characterization.scale_costs import fits
from characterization.scale_model import Fit, depth, rewritten
from characterization.scale_target import Limit, Target
from quantide.config.server import Limits as ServerLimits
from quantide.history.merge import RANGE
from quantide.history.source import PIECE
from quantide.live.stream import EVERY
from quantide.server.hub import AT_ONCE, PAUSE
from quantide.store.settings import Settings as StoreSettings

DAY = 86_400
MOST = 2**53  # values that ranks are proved for


class Use:
    """A target, by the fits of a report."""

    def __init__(self, report: Report, target: Target) -> None:
        self.fits: Mapping[str, Fit] = fits(report)
        self.target, self._open = target, report.rows["open_step"]

    # What there is after so many days

    @property
    def all_values(self) -> float:
        return self.target.values * self.target.days

    @property
    def steps(self) -> int:
        return self.target.days * DAY // self.target.step

    @property
    def files(self) -> float:
        """Data files of whole tables: merges write them with so many rows each."""
        return self.all_values / RANGE

    @property
    def largest_merge(self) -> float:
        """Values of the largest merge of levels so far."""
        kappa = self.target.kappa
        steps = float((kappa + 1) ** (depth(self.steps, kappa) - 1))
        return self.target.values * self.target.step / DAY * steps

    @property
    def runs(self) -> int:
        """At most: so many a level."""
        return self.target.kappa * depth(self.steps, self.target.kappa)

    # Shares

    @property
    def tables(self) -> int:
        """Streams by ranges or hashes of keys, one table and one writer each: as many as the writer's limits need."""
        return max(1, math.ceil(max(limit.times for limit in self.table_limits())))

    @property
    def servers(self) -> int:
        """As many as are needed however high its limits are set."""
        return max(1, math.ceil(max(limit.times for limit in self.server_limits() if not limit.setting)))

    # Processors, each a number of cores that are busy all the time

    @property
    def ingest_cores(self) -> float:
        values = self.target.values * self.target.every / DAY / self.tables
        chunks = math.ceil(values / PIECE)
        touched = min(self.target.keys / self.tables, values / chunks)
        cost = self.fits["ingest"].predict(values=values / chunks, touched=touched)
        return cost * chunks * self.tables / self.target.every

    @property
    def written_again(self) -> float:
        """How often a value is written again."""
        return self.written_again_in_step + self.written_again_by_levels

    @property
    def written_again_in_step(self) -> float:
        """As simulated with appends of about that size."""
        rows = self.target.values * self.target.every / DAY / self.tables
        return float(min(self._open, key=lambda row: abs(math.log(row["rows"] / rows)))["rewritten"])

    @property
    def written_again_by_levels(self) -> float:
        return rewritten(self.steps, self.target.kappa)

    @property
    def merge_cores(self) -> float:
        return self._a_merged_value * self.written_again * self.target.values / DAY

    @property
    def merge_cores_at_worst(self) -> float:
        """While all tables do their largest merge in the same step."""
        return self._a_merged_value * self.largest_merge / self.target.step

    @property
    def log_cores(self) -> float:
        """What commits cost writers and readers because tables have many files."""
        files = self.files / self.tables
        busy = self.fits["commit"].predict(files=files) + self.fits["follow"].predict(files=files)
        return busy * self.tables / self.target.every + self.fits["idle"].predict(readers=self.tables) / EVERY

    @property
    def readers_of_a_log(self) -> float:
        """How many readers a core can keep up with all commits of one table."""
        busy = self.fits["follow"].predict(files=self.files / self.tables) / self.target.every
        return 1 / (busy + self.fits["idle"].predict(readers=1) / EVERY)

    @property
    def serve_cores(self) -> float:
        """Every window is looked at, and every client told, after every commit."""
        return (self._look + self._tell) / self.target.every

    @property
    def cores(self) -> float:
        return self.ingest_cores + self.merge_cores + self.log_cores + self.serve_cores

    # Bytes

    @property
    def data_bytes(self) -> float:
        return self.fits["data"].predict(values=self.all_values, touched=self.target.keys * self.runs)

    @property
    def side_bytes(self) -> float:
        """Of as many full runs as there can be: each has a summary of every key."""
        eps, keys = StoreSettings.of(eps=self.target.eps).run_eps, self.target.keys
        one = self.fits["side"].predict(values=self.all_values / self.runs, touched=keys, eps=eps)
        return one * self.runs

    @property
    def recent_bytes(self) -> float:
        values = self.target.values * self.target.window / DAY
        return self.fits["recent"].predict(values=values, touched=min(values, self.target.keys))

    @property
    def held_bytes(self) -> float:
        """What readers of all tables always hold."""
        return self.fits["held"].predict(values=self.all_values, touched=self.target.keys * self.runs)

    @property
    def summary_bytes(self) -> float:
        """A summary of every key, of all its values, in memory."""
        each = self.all_values / self.target.keys
        return self.fits["summaries"].predict(keys=self.target.keys, each=each, eps=self.target.eps)

    @property
    def event_rate(self) -> float:
        """Bytes a second."""
        return self.fits["sent"].predict(queries=self.target.clients * self.target.queries) / self.target.every

    # Limits

    def limits(self) -> list[Limit]:
        """What breaks first comes first."""
        return sorted([*self.table_limits(), *self.server_limits(), self._counted()], key=lambda limit: -limit.times)

    def table_limits(self) -> list[Limit]:
        t, log = self.target, "the keys of a stream can be split over several tables; nothing else yet"
        merged = t.step * t.cores / self._a_merged_value
        return [
            Limit(
                f"a reader of one table follows a commit within {t.share:.0%} of the interval",
                "files",
                self._most_files("follow"),
                self.files,
                log,
            ),
            Limit(
                f"a commit within {t.share:.0%} of the interval", "files", self._most_files("commit"), self.files, log
            ),
            Limit(
                f"the largest merge of one table within a step, on {t.cores} cores",
                "values",
                merged,
                self.largest_merge,
                "merges run as Spark tasks over ranges; questions and appends go on, only the next step waits; several "
                "tables; a smaller kappa",
            ),
            Limit(
                "a reader's directories and fences in memory",
                "bytes",
                t.memory,
                self.held_bytes,
                "one reader for some of the tables",
            ),
            Limit(
                "recent rows of a window in memory, mapped",
                "bytes",
                t.memory,
                self.recent_bytes,
                "one reader for some of the tables; they are pages of files, and the system drops what is not read",
            ),
        ]

    def server_limits(self) -> list[Limit]:
        t, more = self.target, "several servers, each with some of the clients"
        pace = AT_ONCE / PAUSE
        return [
            Limit("a server looks at its windows between two commits", "s", t.every, self._look, f"{more} and keys"),
            Limit("a server's loop tells its clients between two commits", "s", t.every, self._tell, more),
            Limit(
                "a server wakes its clients, few at a time, between two commits",
                "clients",
                pace * t.every,
                t.clients,
                more,
            ),
            Limit(
                "event streams of a server, as it is set",
                "clients",
                ServerLimits().events,
                t.clients,
                f"a setting; {more}",
                True,
            ),
            Limit(
                "standing queries of a server, as it is set",
                "queries",
                ServerLimits().queries,
                t.clients * t.queries,
                f"a setting; {more}",
                True,
            ),
            Limit(
                "clients in the memory of a server",
                "bytes",
                t.memory,
                self.fits["clients"].predict(clients=t.clients),
                more,
            ),
        ]

    def _counted(self) -> Limit:
        return Limit("values that ranks are proved for", "values", MOST, self.all_values, "a new table in time")

    @property
    def _a_merged_value(self) -> float:
        """Processor seconds, in a merge so large that its keys and its commit do not matter."""
        return self.fits["merge"].predict(values=1e12, touched=self.target.keys, runs=1) / 1e12

    @property
    def _look(self) -> float:
        return self.fits["look"].predict(windows=self.target.clients, queries=self.target.clients * self.target.queries)

    @property
    def _tell(self) -> float:
        return self.fits["tell"].predict(told=self.target.clients)

    def _most_files(self, cost: str) -> float:
        """Files of a table at which a cost takes its whole share of the interval."""
        found = self.fits[cost].coefficients
        room = self.target.share * self.target.every - found["commit"]
        return room / found["file"] if found["file"] else math.inf
