"""Soak: a driver that takes in a feed is killed at random, again and again; in the end all of it must be there once.

`make soak`, or `python -m tests.spark.soak --seed 2`; SOAK="2 min" says for how long (10 minutes). The seed decides
what is done and fed; when it happens, the machine decides.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from benchmarks.process import family, spawn
from quantide import History
from quantide.live import LiveStream
from quantide.queries.monitor import Monitor
from quantide.windows.clock import read_span
from tests.oracle import bound_faults
from tests.spark.processes import environment, tail
from tests.spark.streams import Feed

COMMAND = [sys.executable, "-m", "quantide"]
SETTINGS = 'keys = ["k"]\ntime = "t"\nfilters = { big = "v > 1" }\nstep = "5 s"\nkappa = 2\neps = 0.01\n'
SOURCE = 'format = "parquet", max_files = 3'
POINTS = {  # where a driver dies, or finds the disk full, at the latest at the so-manieth time that it is there
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
PATIENCE = 180.0  # seconds that anything may take
PHI, EPS = 0.9, 0.02  # of the standing query


class Fault(AssertionError):
    """Something is not as it must be."""


class Soak:
    """Feeds, starts and kills; what it did is told and counted."""

    def __init__(self, folder: Path, seed: int, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self.rng = np.random.default_rng([seed, 8])
        self.feed = Feed(folder, SETTINGS, SOURCE)
        self.feed.rng = np.random.default_rng([seed, 5])
        self.begun = self.fed_at = time.monotonic()
        self.did: Counter[str] = Counter()
        self.damaged: list[tuple[Path, bytes, int]] = []  # where, what it should have been, which file of the feed
        self.driver: subprocess.Popen[bytes] | None = None
        self.old: list[subprocess.Popen[bytes]] = []
        self.live: LiveStream | None = None
        self.monitor: Monitor | None = None
        self.query = self.seen = self.starts = 0
        self.driver_log = folder

    # What is done

    def run(self) -> None:
        """Rounds until the time is over; then whatever was fed must be in the store."""
        try:
            while not self.over:
                self.round()
            self.finish()
        finally:
            self.close()

    def round(self) -> None:
        """A driver is started, perhaps with a fault to come; something else goes wrong; it ends in some way."""
        fault = self.fault()
        if self.rng.random() < 0.2:
            self.lose_checkpoint()
        self.start(fault)
        self.end_old()
        before, early = self.rows(), self.rng.random() < 0.25
        if not early:
            self.wait(lambda: self.rows() > before or not self.running or self.over)
        if self.rng.random() < 0.4:
            self.damage()
        self.wait_for(float(self.rng.uniform(0, 12 if early or fault else 6)))
        if self.rng.random() < 0.25 and self.rows() > before:
            self.second_writer()
        self.end_driver(fault)

    def fault(self) -> str:
        """A point at which the driver dies, or at which the disk is full; none half of the time."""
        point = str(self.rng.choice(list(POINTS)))
        at, full = self.rng.integers(1, POINTS[point] + 1), self.rng.random() < 0.25
        return f"{point}@{at}:{'full' if full else 'kill'}" if self.rng.random() < 0.5 else ""

    def start(self, fault: str) -> None:
        reset = self.reset()
        self.tell("start a driver", " ".join([*reset, *([f"fault {fault}"] if fault else [])]))
        self.driver = self.spawn(["ingest", str(self.feed.config), *reset], fault)
        self.driver_log = self.log(self.starts)

    def reset(self) -> list[str]:
        """--reset, where the checkpoint is gone, and the driver that was to begin another died before it did."""
        place = self.feed.store / "_quantide" / "checkpoints"
        return ["--reset"] if self.rows() and not any(place.glob("c*")) else []

    def lose_checkpoint(self) -> None:
        """Without its checkpoint a driver must refuse to start."""
        if not self.rows():
            return
        self.end_old()
        shutil.rmtree(self.feed.store / "_quantide" / "checkpoints", ignore_errors=True)
        self.tell("remove the checkpoint")
        told = self.refused(["ingest", str(self.feed.config), "--once"])
        if "pass --reset" not in told:
            raise Fault(f"without its checkpoint a driver should have asked for --reset: {told}")
        self.tell("a driver without its checkpoint was refused")

    def second_writer(self) -> None:
        """While a driver runs, another one must be refused, by the name of the first."""
        if self.driver is None or not self.running:
            return
        holder = self.driver.pid
        self.tell("start a second writer")
        told = self.refused(["ingest", str(self.feed.config), "--once"], lambda: self.running)
        if f"is being written by process {holder}" in told:
            self.tell("the second writer was refused")
        elif self.running:
            raise Fault(f"a second writer was not refused: {told}")
        else:
            self.tell("the driver died, and the second writer took over")

    def damage(self) -> None:
        """A file of which the second half is missing."""
        number = len(self.feed.values)
        hidden = self.feed.write(f".damaged-{number}.parquet", rows=int(self.rng.integers(50, 500)))
        whole, path = hidden.read_bytes(), hidden.with_name(hidden.name[1:])
        hidden.write_bytes(whole[: len(whole) // 2])
        hidden.rename(path)
        self.damaged.append((path, whole, number))
        self.tell("drop a damaged file", path.name)

    def end_driver(self, fault: str) -> None:
        assert self.driver is not None
        if not self.running:
            code = self.driver.wait()
            if fault.endswith("kill") and code == -signal.SIGKILL:
                self.tell("a driver died at its fault", fault)
            elif fault.endswith("full") and code == 2:  # at its start: nothing is begun with a full disk
                self.tell("a driver ended for a full disk", fault)
            else:
                raise Fault(f"a driver ended with {code}: {tail(self.driver_log)}")
        else:
            chances = np.array(list(ENDINGS.values()), dtype=float)
            how = str(self.rng.choice(list(ENDINGS), p=chances / chances.sum()))
            self.tell(how)
            self.put_down(how, fault)
        self.old.append(self.driver)
        self.driver = None

    def put_down(self, how: str, fault: str) -> None:
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
        """Everything is taken in, without faults, and checked; then damaged files are mended and taken in, too."""
        self.tell("take in what is left")
        self.once(["ingest", str(self.feed.config), "--once", *self.reset()])
        self.check(without={number for _, _, number in self.damaged})
        held = self.once(["quarantine", "list", str(self.feed.config)])
        if self.damaged and f"{len(self.damaged)} files and 0 rows are held" not in held:
            raise Fault(f"{len(self.damaged)} files should be in quarantine: {held}")
        for path, whole, _ in self.damaged:
            path.write_bytes(whole)
        if self.damaged:
            self.tell("mend damaged files and take them in")
            self.once(["quarantine", "retry", str(self.feed.config)])
            self.check(without=set())

    # What must hold

    def check(self, without: set[int]) -> None:
        """Totals to the row, verify(), answers of every kind, the standing query, the reader that was always there."""
        feed, keys, at = self.feed, [], 0
        for number, values in enumerate(feed.values):
            if number not in without:
                keys += feed.keys[at : at + len(values)]
            at += len(values)
        kept = [number for number in range(len(feed.values)) if number not in without]
        all_values, all_keys, all_times = feed.values, feed.keys, feed.times
        feed.values, feed.times, feed.keys = [all_values[i] for i in kept], [all_times[i] for i in kept], keys
        try:
            feed.check()
            data = np.concatenate(feed.values)
            self.look()
            if self.live is None or self.monitor is None:
                raise Fault("nothing was taken in")
            self.live.poll()
            for name, answer in (("reader", self.live.answer(PHI)), ("query", self.monitor.answer(self.query))):
                if faults := bound_faults(data, answer):
                    raise Fault(f"the {name} is wrong: {', '.join(faults)}")
        finally:
            feed.values, feed.keys, feed.times = all_values, all_keys, all_times
        self.tell("checked", f"{len(data):,} rows of {len(kept):,} files, verify(), answers, query, reader: all right")

    def look(self) -> None:
        """A reader that follows sees neither less than before nor more than was fed."""
        if self.live is None:
            if not self.rows():
                return
            self.live = LiveStream(self.feed.store)
            self.monitor = self.live.monitor()
            self.query = self.monitor.register(PHI, EPS)
            self.tell("open a reader, with a standing query")
        n = self.live.n
        if not self.seen <= n <= sum(map(len, self.feed.values)):
            raise Fault(f"the reader saw {self.seen:,} rows, then {n:,}, of {sum(map(len, self.feed.values)):,}")
        self.seen = n

    # How it is done

    @property
    def over(self) -> bool:
        return time.monotonic() - self.begun >= self.seconds

    @property
    def running(self) -> bool:
        return self.driver is not None and self.driver.poll() is None

    def rows(self) -> int:
        if self.live is not None:
            return self.live.n
        return History(self.feed.store).n if (self.feed.store / "_delta_log").exists() else 0

    def spawn(self, arguments: Sequence[str], fault: str = "") -> subprocess.Popen[bytes]:
        """A command in a group of its own, with a log."""
        self.starts += 1
        env = environment() | ({"QUANTIDE_FAULT": fault} if fault else {})
        command = [*COMMAND, *arguments, *([] if "list" in arguments else ["--master", "local[2]"])]
        return spawn(command, self.log(self.starts), env)

    def log(self, number: int) -> Path:
        return self.folder / f"log-{number}.txt"

    def once(self, arguments: Sequence[str]) -> str:
        """What a command prints that must end well."""
        process = self.spawn(arguments)
        log = self.log(self.starts)
        self.old.append(process)
        self.wait(lambda: process.poll() is not None, 2 * self.seconds + PATIENCE)
        if process.returncode:
            raise Fault(f"{' '.join(arguments[:2])} ended with {process.returncode}: {tail(log)}")
        return log.read_text(errors="replace")

    def refused(self, arguments: Sequence[str], needed: Callable[[], bool] = lambda: True) -> str:
        """What a command prints that must be refused, as long as what it needs for that holds."""
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

    def wait(self, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Until it holds; meanwhile files are fed, and the reader is looked at."""
        last = time.monotonic() + patience
        while not holds():
            now = time.monotonic()
            if now > last:
                raise Fault(f"nothing for {patience:.0f} s: {tail(self.log(self.starts))}")
            if now >= self.fed_at and not self.over:
                self.fed_at = now + FEED
                self.feed.write(f"{len(self.feed.values)}.parquet", rows=int(self.rng.integers(100, 2000)))
                self.look()
            time.sleep(0.02)

    def end_old(self) -> None:
        """What is left of earlier drivers: a JVM that did not notice yet."""
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

    def tell(self, what: str, more: str = "") -> None:
        self.did[what] += 1
        print(
            f"{time.monotonic() - self.begun:7.1f} s  {what}{': ' + more.strip() if more.strip() else ''}", flush=True
        )

    def report(self) -> str:
        """Everything that was done, counted."""
        stats = History(self.feed.store).stats() if self.rows() else {}
        lines = [f"{count:>7,}  {what}" for what, count in sorted(self.did.items())]
        lines += [f"{len(self.feed.values):>7,}  files fed, {sum(map(len, self.feed.values)):,} rows"]
        lines += [f"{stats[name]:>7,}  {name}" for name in ("steps", "runs", "chunks") if name in stats]
        return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.soak", description="Kill ingestion at random.")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other faults (%(default)s)")
    options = parser.parse_args(arguments)
    seconds = float(read_span(os.environ.get("SOAK") or "10 min"))
    folder = Path(tempfile.mkdtemp(prefix="quantide-soak-"))
    soak = Soak(folder, options.seed, seconds)
    try:
        soak.run()
    except AssertionError as error:
        print(f"\n{soak.report()}\n\nWRONG: {error}\nwhat there is was left in {folder}", flush=True)
        return 1
    print(f"\n{soak.report()}\n\nAll right: every row is there once (seed {options.seed}).", flush=True)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of close(): nothing is left running
    sys.exit(main())
