"""Soak test: a driver that ingests a feed is killed at random, many times; in the end every row must be stored once.

Beside the kills, the clock of the driver moves by minutes and by months, rows come that are dated in the future or in
the wrong unit, and while no driver runs the log gets a torn entry, loses a checkpoint, or loses the newest commit if it
was not acknowledged.

`make soak`, or `python -m tests.spark.soak --seed 2`; SOAK="2 min" sets the duration (10 minutes). The seed decides
the events and the data; their timing depends on the machine.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.processes import family, spawn
from quantide import History
from quantide.errors import StorageError
from quantide.history import HistoryReader
from quantide.history.span_view import MODES
from quantide.live import LiveStream
from quantide.queries.monitor import Monitor
from quantide.spark.stream.row_reader import TIME_AHEAD, WRONG_UNIT
from quantide.store.folder_storage import FolderStorage
from quantide.store.ingest_log import IngestLog
from quantide.store.log_entry import SOURCE as BATCHES
from quantide.store.log_entry import LogEntry
from quantide.windows.time_clock import read_span
from quantide.windows.wall_clock import VARIABLE
from tests.oracle import bound_faults
from tests.spark.process_groups import environment, tail
from tests.spark.streams import Feed

COMMAND = [sys.executable, "-m", "quantide"]
SETTINGS = (
    'keys = ["k"]\ntime = "t"\nfilters = { big = "v > 1" }\nstep = "5 s"\nkappa = 2\neps = 0.01\n'
    'retention = "2 days"\ndurable = true\n'
)
SOURCE = 'format = "parquet", max_files = 3'
POINTS = {  # where a driver dies, or finds the disk full; the maximum number of passes before that
    "write.data": 20,
    "write.side": 20,
    "disk.write": 100,
    "disk.named": 100,
    "append.written": 20,
    "commit.before": 30,
    "commit.after": 30,
    "ingest.recorded": 20,
    "ingest.committed": 20,
    "recent.written": 20,
    "recent.manifest": 20,
    "recent.compacted": 2,
    "step.ended": 3,
    "merge.planned": 3,
    "merge.sorted": 3,
    "merge.written": 3,
    "log.trimmed": 1,
}
ENDINGS = {"kill the driver": 5, "kill all its processes": 3, "kill the JVM": 1, "ask it to stop": 2}
FEED = 0.25  # seconds between two files
TIMEOUT = 600.0  # seconds that anything may take on a busy machine
PHI, EPS = 0.9, 0.02  # of the continuous query
FUTURE = (3.9e9, 1.7e12, 1.7e15)  # times that are refused: the year 2093; milliseconds, microseconds as seconds
REASONS = (TIME_AHEAD, WRONG_UNIT)  # of such rows in quarantine
MINUTE, DAY = 60, 86_400


class Fault(AssertionError):
    """A condition of the soak test is violated."""


class Soak:
    """Feeds, starts and kills a driver; prints and counts these events."""

    def __init__(self, folder: Path, seed: int, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self.rng = np.random.default_rng([seed, 8])
        self.feed = Feed(folder, SETTINGS, SOURCE)
        self.feed.rng = np.random.default_rng([seed, 5])
        self.begun = self.fed_at = time.monotonic()
        self.events: Counter[str] = Counter()
        self.damaged: list[tuple[Path, bytes, int]] = []  # path, complete content, number in the feed
        self.driver: subprocess.Popen[bytes] | None = None
        self.old: list[subprocess.Popen[bytes]] = []
        self.live: LiveStream | None = None
        self.monitor: Monitor | None = None
        self.query = self.last_n = self.starts = 0
        self.driver_log = folder
        self.clock = folder / "clock"  # seconds that the driver's clock is off
        self.ahead: dict[str, int] = {}  # files with rows dated ahead, and how many of them
        self.move_clock(0)

    # Events

    def run(self) -> None:
        """Run rounds until the time is over; then all data of the feed must be in the store."""
        try:
            while not self.over:
                self.round()
            self.finish()
        finally:
            self.close()

    def round(self) -> None:
        """Start a driver, perhaps with a fault; damage something else; end the driver in some way."""
        fault = self.fault()
        if self.rng.random() < 0.2:
            self.lose_checkpoint()
        if self.rng.random() < 0.4:
            self.tear_log()
        self.move_clock(self.offset())
        self.start(fault)
        self.end_old()
        before, early = self.rows(), self.rng.random() < 0.25
        if not early:
            self.wait(lambda: self.rows() > before or not self.running or self.over)
        if self.rng.random() < 0.4:
            self.damage()
        if self.rng.random() < 0.4:
            self.date_ahead()
        if self.rng.random() < 0.3:
            self.move_clock(self.offset())
        self.wait_for(float(self.rng.uniform(0, 12 if early or fault else 6)))
        if self.rng.random() < 0.25 and self.rows() > before:
            self.second_writer()
        self.end_driver(fault)

    def fault(self) -> str:
        """Choose a point at which the driver dies, or at which the disk is full; none half of the time."""
        point = str(self.rng.choice(list(POINTS)))
        at, full = self.rng.integers(1, POINTS[point] + 1), self.rng.random() < 0.25
        return f"{point}@{at}:{'full' if full else 'kill'}" if self.rng.random() < 0.5 else ""

    def start(self, fault: str) -> None:
        reset = self.reset()
        self.record("start a driver", " ".join([*reset, *([f"fault {fault}"] if fault else [])]))
        self.driver = self.spawn(["ingest", str(self.feed.config), *reset], fault)
        self.driver_log = self.log(self.starts)

    def reset(self) -> list[str]:
        """Return --reset if there is no checkpoint, because the driver died before it began a new one."""
        folder = self.feed.store / "_quantide" / "checkpoints"
        return ["--reset"] if self.rows() and not any(folder.glob("c*")) else []

    def lose_checkpoint(self) -> None:
        """Remove the checkpoint, without which a driver must refuse to start.

        After a rollover the store may have no batch of the new checkpoint yet; a driver then begins it, and may.
        """
        if not self.rows() or not self.checkpoint_begun():
            return
        self.end_old()
        shutil.rmtree(self.feed.store / "_quantide" / "checkpoints", ignore_errors=True)
        self.record("remove the checkpoint")
        output = self.run_refused(["ingest", str(self.feed.config), "--once"])
        if "pass --reset" not in output:
            raise Fault(f"without its checkpoint a driver should have required --reset: {output}")
        self.record("a driver without its checkpoint was refused")

    def checkpoint_begun(self) -> bool:
        """Return True if the store has a batch of the newest checkpoint."""
        log = IngestLog(FolderStorage(str(self.feed.store)), lambda _: True)
        numbers = [int(name[1:]) for name in (*log.last, log.checkpoint) if re.fullmatch(r"c\d+", name)]
        return bool(numbers) and log.last.get(f"c{max(numbers)}", -1) >= 0

    def second_writer(self) -> None:
        """Start a second driver, which must be refused with the process id of the first."""
        if self.driver is None or not self.running:
            return
        holder = self.driver.pid
        self.record("start a second writer")
        output = self.run_refused(["ingest", str(self.feed.config), "--once"], lambda: self.running)
        if f"is being written by process {holder}" in output:
            self.record("the second writer was refused")
        elif self.running:
            raise Fault(f"a second writer was not refused: {output}")
        else:
            self.record("the driver died, and the second writer took over")

    def damage(self) -> None:
        """Write a file without its second half."""
        number = len(self.feed.values)
        hidden = self.feed.write(f".damaged-{number}.parquet", rows=int(self.rng.integers(50, 500)))
        whole, path = hidden.read_bytes(), hidden.with_name(hidden.name[1:])
        hidden.write_bytes(whole[: len(whole) // 2])
        hidden.rename(path)
        self.damaged.append((path, whole, number))
        self.record("drop a damaged file", path.name)

    def date_ahead(self) -> None:
        """Write a file in which some rows are dated in the future, or in another unit than seconds."""
        hidden = self.feed.write(f".ahead-{len(self.feed.values)}.parquet", rows=int(self.rng.integers(50, 500)))
        rows = pq.read_table(hidden)
        count = int(self.rng.integers(1, 20))
        bad = rows.slice(0, count).set_column(2, "t", pa.array(self.rng.choice(FUTURE, count)))
        bad = bad.set_column(0, "v", pa.array(np.full(count, 1e9)))
        pq.write_table(pa.concat_tables([bad, rows]), hidden)
        hidden.rename(hidden.with_name(hidden.name[1:]))
        self.ahead[str(hidden.with_name(hidden.name[1:]))] = count
        self.record("drop rows dated in the future", f"{count} rows in {hidden.name[1:]}")

    def offset(self) -> int:
        """Choose the seconds by which the clock is off: none, some minutes or many days, ahead or behind."""
        minutes, days = self.rng.integers(1, 20), self.rng.integers(2, 60)
        size = int(self.rng.choice(np.array([0, 0, minutes * MINUTE, days * DAY])))
        return size if self.rng.random() < 0.7 else -size

    def move_clock(self, seconds: int) -> None:
        spare = self.clock.with_suffix(".tmp")
        spare.write_text(str(seconds))
        spare.rename(self.clock)
        if seconds:
            self.record("move the clock", f"{seconds / DAY:+.3f} days")

    def tear_log(self) -> None:
        """Damage the log as a loss of power does: an incomplete entry, or an empty checkpoint.

        The newest entry itself is torn if its batch was never acknowledged: Spark repeats that batch.
        """
        log = self.feed.store / "_delta_log"
        entries = sorted(log.glob("*.json"))
        if not entries or not self.rows():
            return
        self.end_old()
        checkpoints = sorted(log.glob("*.checkpoint.parquet"))
        versions = {int(path.name[:20]) for path in entries}
        if self.is_unacknowledged(entries[-1]):
            return self.tear_commit(entries[-1])
        if len(checkpoints) > 1 and self.rng.random() < 0.4:
            before, last = (int(path.name[:20]) for path in checkpoints[-2:])
            if versions.issuperset(range(before + 1, last + 1)):
                checkpoints[-1].write_bytes(b"")
                return self.record("empty a checkpoint", checkpoints[-1].name)
        whole = entries[-1].read_bytes()
        cut = int(self.rng.integers(0, len(whole)))
        torn = whole[:cut] if self.rng.random() < 0.7 else b"\0" * cut
        (log / f"{max(versions) + 1:020}.json").write_bytes(torn)
        self.record("tear the log", f"version {max(versions) + 1}: {cut} of {len(whole)} bytes")

    def is_unacknowledged(self, entry: Path) -> bool:
        """Return True if an entry is the commit of a batch that Spark has not recorded as done."""
        numbers = LogEntry.read(entry.read_bytes()).transactions
        sources = {name.removeprefix(BATCHES): n for name, n in numbers.items() if name.startswith(BATCHES)}
        folder = self.feed.store / "_quantide" / "checkpoints"
        begun = [(folder / source, str(number)) for source, number in sources.items()]
        return any((at / "offsets" / n).exists() and not (at / "commits" / n).exists() for at, n in begun)

    def tear_commit(self, entry: Path) -> None:
        """Cut off a commit that was not acknowledged. Readers do not survive a loss of power either."""
        if self.live is not None:
            self.live.close()
        self.live = self.monitor = None
        self.last_n = 0
        whole = entry.read_bytes()
        entry.write_bytes(whole[: int(self.rng.integers(0, len(whole)))])
        self.record("tear a commit that was not acknowledged", entry.name)

    def end_driver(self, fault: str) -> None:
        assert self.driver is not None
        if not self.running:
            code = self.driver.wait()
            if fault.endswith("kill") and code == -signal.SIGKILL:
                self.record("a driver died at its fault", fault)
            elif fault.endswith("full") and code == 2:  # at its start: nothing is begun with a full disk
                self.record("a driver ended for a full disk", fault)
            else:
                raise Fault(f"a driver ended with {code}: {tail(self.driver_log)}")
        else:
            chances = np.array(list(ENDINGS.values()), dtype=float)
            how = str(self.rng.choice(list(ENDINGS), p=chances / chances.sum()))
            self.record(how)
            self.end_by(how, fault)
        self.old.append(self.driver)
        self.driver = None

    def end_by(self, how: str, fault: str) -> None:
        assert self.driver is not None
        pid = self.driver.pid
        if how == "kill all its processes":
            os.killpg(pid, signal.SIGKILL)
        elif how == "kill the driver":
            os.kill(pid, signal.SIGKILL)
        elif how == "ask it to stop":
            os.kill(pid, signal.SIGTERM)
        else:
            for child in family(pid) - {pid}:
                with suppress(OSError):
                    if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                        os.kill(child, signal.SIGKILL)
        self.wait(lambda: not self.running)
        code = self.driver.wait()
        if how == "ask it to stop" and not fault and code not in (0, -signal.SIGTERM):  # the latter at its very start
            raise Fault(f"a driver that was asked to stop ended with {code}: {tail(self.driver_log)}")

    def finish(self) -> None:
        """Ingest everything without faults, and check it; then repair damaged files and ingest them, too."""
        self.move_clock(0)
        self.record("ingest the rest")
        self.run_command(["ingest", str(self.feed.config), "--once", *self.reset()])
        self.check(without={number for _, _, number in self.damaged})
        self.check_quarantine({str(path) for path, _, _ in self.damaged})
        for path, whole, _ in self.damaged:
            path.write_bytes(whole)
        if self.damaged:
            self.record("repair damaged files and ingest them")
            self.run_command(["quarantine", "retry", str(self.feed.config)])
            self.check(without=set())
            self.check_quarantine(set())

    # Checks

    def check(self, without: set[int]) -> None:
        """Check totals to the row, verify(), answers of every kind, the continuous query and the live reader."""
        feed, keys, at = self.feed, [], 0
        for number, values in enumerate(feed.values):
            if number not in without:
                keys += feed.keys[at : at + len(values)]
            at += len(values)
        ingested = [number for number in range(len(feed.values)) if number not in without]
        all_values, all_keys, all_times = feed.values, feed.keys, feed.times
        feed.values, feed.times, feed.keys = [all_values[i] for i in ingested], [all_times[i] for i in ingested], keys
        try:
            feed.check()
            data = np.concatenate(feed.values)
            self.check_reader()
            if self.live is None or self.monitor is None:
                raise Fault("nothing was ingested")
            self.live.poll()
            for name, answer in (("reader", self.live.answer(PHI)), ("query", self.monitor.answer(self.query))):
                if faults := bound_faults(data, answer):
                    raise Fault(f"the {name} is wrong: {', '.join(faults)}")
            for phi, mode in product((0.01, 0.5, PHI), MODES):
                if faults := bound_faults(data, self.live.answer(phi, mode=mode)):
                    raise Fault(f"the answer of mode {mode!r} for {phi} is wrong: {', '.join(faults)}")
        finally:
            feed.values, feed.keys, feed.times = all_values, all_keys, all_times
        self.record(
            "checked", f"{len(data):,} rows of {len(ingested):,} files, verify(), answers, query, reader: all right"
        )

    def check_quarantine(self, files: set[str]) -> None:
        """Check that every damaged file and every row dated ahead is in quarantine, once, with its reason."""
        listed = self.run_command(["quarantine", "list", str(self.feed.config), "--json"])
        (listing,) = json.loads(next(line for line in listed.splitlines() if line.startswith("{")))["streams"]
        if {file["path"] for file in listing["files"]} != files or listing["waiting"]:
            raise Fault(f"{len(files)} files should be in quarantine, and none should wait: {listed}")
        rows: Counter[str] = Counter()
        for kind in listing["rows"]:
            rows[kind["path"]] += kind["count"]
            if not kind["reason"].startswith(REASONS):
                raise Fault(f"rows of {kind['path']} are in quarantine for another reason: {kind['reason']}")
        if dict(rows) != self.ahead:
            raise Fault(f"rows dated ahead, and rows in quarantine: {self.ahead}, {dict(rows)}")
        self.record("checked the quarantine", f"{len(files):,} files, {sum(rows.values()):,} rows")

    def check_reader(self) -> None:
        """Check that the live reader sees no fewer rows than before, and no more than the feed has."""
        if self.live is None:
            if not self.rows():
                return
            self.live = LiveStream(self.feed.store)
            self.monitor = self.live.monitor()
            self.query = self.monitor.register(PHI, EPS)
            self.record("open a reader, with a continuous query")
        n = self.live.n
        if not self.last_n <= n <= sum(map(len, self.feed.values)):
            raise Fault(f"the reader saw {self.last_n:,} rows, then {n:,}, of {sum(map(len, self.feed.values)):,}")
        self.last_n = n

    # Processes

    @property
    def over(self) -> bool:
        return time.monotonic() - self.begun >= self.seconds

    @property
    def running(self) -> bool:
        return self.driver is not None and self.driver.poll() is None

    def rows(self) -> int:
        if self.live is not None:
            return self.live.n
        try:
            return HistoryReader(self.feed.store).n  # it creates no store where the driver is about to
        except StorageError:
            return 0

    def spawn(self, arguments: Sequence[str], fault: str = "") -> subprocess.Popen[bytes]:
        """Start a command in its own process group, with a log."""
        self.starts += 1
        env = environment() | {VARIABLE: str(self.clock)} | ({"QUANTIDE_FAULT": fault} if fault else {})
        command = [*COMMAND, *arguments, *([] if "list" in arguments else ["--master", "local[2]"])]
        return spawn(command, self.log(self.starts), env)

    def log(self, number: int) -> Path:
        return self.folder / f"log-{number}.txt"

    def run_command(self, arguments: Sequence[str]) -> str:
        """Run a command that must succeed; return its output."""
        process = self.spawn(arguments)
        log = self.log(self.starts)
        self.old.append(process)
        self.wait(lambda: process.poll() is not None, 2 * self.seconds + TIMEOUT)
        if process.returncode:
            raise Fault(f"{' '.join(arguments[:2])} ended with {process.returncode}: {tail(log)}")
        return log.read_text(errors="replace")

    def run_refused(self, arguments: Sequence[str], needed: Callable[[], bool] = lambda: True) -> str:
        """Run a command that must be refused while `needed` is true; return its output."""
        process = self.spawn(arguments)
        log = self.log(self.starts)
        self.old.append(process)
        self.wait(lambda: process.poll() is not None)
        if process.returncode != 2 and needed():
            raise Fault(f"{' '.join(arguments[:2])} ended with {process.returncode}, not with 2: {tail(log)}")
        return log.read_text(errors="replace")

    def wait_for(self, seconds: float) -> None:
        last = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= last or not self.running)

    def wait(self, is_met: Callable[[], bool], timeout: float = TIMEOUT) -> None:
        """Wait for a condition; feed files and check the reader until then."""
        last = time.monotonic() + timeout
        while not is_met():
            now = time.monotonic()
            if now > last:
                raise Fault(f"nothing for {timeout:.0f} s: {tail(self.log(self.starts))}")
            if now >= self.fed_at and not self.over:
                self.fed_at = now + FEED
                self.feed.write(f"{len(self.feed.values)}.parquet", rows=int(self.rng.integers(100, 2000)))
                self.check_reader()
            time.sleep(0.02)

    def end_old(self) -> None:
        """End processes that earlier drivers left, such as a JVM."""
        for process in self.old:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.old = []

    def close(self) -> None:
        if self.driver is not None:
            self.old.append(self.driver)
        self.end_old()
        if self.live is not None:
            self.live.close()

    def record(self, event: str, more: str = "") -> None:
        self.events[event] += 1
        print(
            f"{time.monotonic() - self.begun:7.1f} s  {event}{': ' + more.strip() if more.strip() else ''}", flush=True
        )

    def report(self) -> str:
        """Return the counts of all events."""
        stats = History(self.feed.store).stats() if self.rows() else {}
        lines = [f"{count:>7,}  {event}" for event, count in sorted(self.events.items())]
        lines += [f"{len(self.feed.values):>7,}  files fed, {sum(map(len, self.feed.values)):,} rows"]
        lines += [f"{stats[name]:>7,}  {name}" for name in ("steps", "runs", "chunks") if name in stats]
        return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.soak", description="Kill ingestion at random.")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other faults (%(default)s)")
    sources = "files of a folder, or also Kafka, push and a bucket, with stores in S3 (%(default)s)"
    parser.add_argument("--source", choices=("files", "all"), default="files", help=sources)
    options = parser.parse_args(arguments)
    seconds = float(read_span(os.environ.get("SOAK") or "10 min"))
    folder = Path(tempfile.mkdtemp(prefix="quantide-soak-"))
    if options.source == "all":
        from tests.kafka.system_soak import soak_system  # needs a broker and an S3 server

        return soak_system(folder, options.seed, seconds)
    soak = Soak(folder, options.seed, seconds)
    try:
        soak.run()
    except AssertionError as error:
        print(f"\n{soak.report()}\n\nWRONG: {error}\nthe data is left in {folder}", flush=True)
        return 1
    print(f"\n{soak.report()}\n\nAll right: every row is there once (seed {options.seed}).", flush=True)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through close(), which ends all processes
    sys.exit(main())
