"""The demo from start to end: history, server, ticks, Spark, and a closing report."""

import io
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from quantide.cli.server_process import ServerProcess
from quantide.client import Client
from quantide.config import Config
from quantide.config.server_config import PORT
from quantide.demo.background_tasks import BackgroundTask, EventTask, Feeder
from quantide.demo.demo_setup import (
    DAYS,
    backfill,
    choose_port,
    incoming_folder,
    lock_folder,
    prepare_folder,
    register_queries,
)
from quantide.demo.market import Market
from quantide.demo.shutdown import ignorable_signals, interrupt_after, redirect_stderr
from quantide.demo.terminal_view import STREAM, TerminalView, open_screen
from quantide.doctor import spark_checks
from quantide.errors import InvalidArgumentError, QuantideError
from quantide.spark.ingest import ingest
from quantide.summary.value_json import count, write_line

INCIDENT_VIEW = "#stream=spread&key=ECHO&window=within:30s"  # the page on the symbol that has an incident
ANSWERED = re.compile(rb'^quantide_requests_total\{route="/api/[^"]*",status="2..",?\} ([0-9.e+]+)$', re.M)


@dataclass(frozen=True)
class DemoOptions:
    """Options of `quantide demo`."""

    seed: int = 1
    seconds: float | None = None
    folder: str | None = None
    port: int | None = None
    terminal: bool = False
    json: bool = False

    def check(self) -> None:
        """Raise if an option is invalid or Java is missing, before anything starts."""
        if self.seconds is not None and not 0 < self.seconds <= threading.TIMEOUT_MAX:
            raise InvalidArgumentError(f"seconds is {self.seconds:g}; give more than 0, or none to run until Ctrl-C")
        if self.seed < 0:
            raise InvalidArgumentError(f"seed is {self.seed}; give 0 or a number above it")
        if self.port is not None and not 0 <= self.port < 2**16:
            raise InvalidArgumentError(f"port is {self.port}; give a number up to 65535, or 0 for any free port")
        spark_checks.require_java("the demo ingests its ticks with Spark")


def run_demo(out: TextIO, options: DemoOptions) -> int | None:
    """Run until Ctrl-C, SIGTERM, or for some seconds; return the exit code, or None for 0."""
    options.check()
    market = Market(options.seed, time.time_ns() // 1000)
    with ignorable_signals() as ignore_signals, open_folder(options) as folder, ExitStack() as stack:
        demo = Demo(out, options, market, folder)
        try:
            code = demo.run(stack)
        except KeyboardInterrupt:
            code = None
        finally:
            ignore_signals()
            demo.raise_task_error()
        if code is None:
            demo.report()
    return code


class Demo:
    """A running demo; run() registers its resources in a stack."""

    def __init__(self, out: TextIO, options: DemoOptions, market: Market, folder: Path) -> None:
        self._out, self._options, self._market, self._folder = out, options, market, folder
        self._client: Client | None = None
        self._tasks: list[BackgroundTask] = []
        self._subscriber: EventTask | None = None
        self._history_values = 0

    def run(self, stack: ExitStack) -> int | None:
        options = self._options
        stack.enter_context(lock_folder(self._folder))
        config = prepare_folder(self._folder, choose_port(options.port))
        if options.port is None and config.server.port != PORT:
            self._print(f"Port {PORT} is taken; using {config.server.port}.", note=f"port {PORT} is taken")
        self._write_history(config)
        server_lines: list[str] = []
        server = stack.enter_context(ServerProcess([config.path], server_lines.append))
        code = server.start()
        if code is not None:
            return code
        url = server_lines[0].strip()
        self._client = stack.enter_context(Client(url))
        register_queries(self._client)
        self._print(
            f"Open {url} in a browser; the incident is at {url}/{INCIDENT_VIEW}. Ctrl-C ends the demo.", url=url
        )
        if options.seconds is not None:
            stack.enter_context(interrupt_after(options.seconds))
        feeder = Feeder(self._market, incoming_folder(self._folder), self._client)
        self._subscriber = subscriber = EventTask(self._client, STREAM)
        self._tasks += [feeder, subscriber]
        with (
            feeder,
            subscriber,
            self._open_output(self._client, subscriber) as out,
            redirect_stderr(self._folder / "spark.log"),
        ):
            ingest(config, out, json=options.json)
        return None

    @contextmanager
    def _open_output(self, client: Client, subscriber: EventTask) -> Iterator[TextIO]:
        """Yield the output for ingestion's progress; it is discarded while the terminal shows frames."""
        if not self._options.terminal:
            self._print("Starting Spark, which ingests live ticks ...", note="starting Spark")
            yield self._out
            return
        with (
            open_screen(self._out, self._options.json) as screen,
            TerminalView(client, screen, subscriber.wakeup) as view,
        ):
            self._tasks.append(view)
            yield io.StringIO()

    def raise_task_error(self) -> None:
        """Raise the error that ended a background task."""
        for task in self._tasks:
            if task.error is not None:
                raise task.error

    def report(self) -> None:
        """Print the totals, if the server can still be reached."""
        values, answered = 0, 0
        if self._client is not None:
            with suppress(QuantideError):
                values = sum(stream["n"] for stream in self._client.streams()) - self._history_values
                answered = sum(int(float(count)) for count in ANSWERED.findall(self._client.get_bytes("/metrics")))
        changes = self._subscriber.changes if self._subscriber is not None else 0
        folder = f" Its data is in {self._folder}." if self._options.folder else ""
        self._print(
            f"Goodbye: {count(values, 'value')} ingested, {answered:,} {'query' if answered == 1 else 'queries'} "
            f"answered, {count(changes, 'change')} sent.{folder}",
            values=values,
            answered=answered,
            changes=changes,
        )

    def _print(self, sentence: str, **facts: object) -> None:
        """Print a sentence for people, or its facts as JSON for programs."""
        if self._options.json:
            write_line(self._out, facts)
        else:
            self._out.write(sentence + "\n")
            self._out.flush()

    def _write_history(self, config: Config) -> None:
        started, exists = time.monotonic(), Path(config.store).exists()
        if not self._options.json:
            action = f"Continuing with the data in {self._folder}" if exists else f"Writing {DAYS} days of history"
            self._out.write(f"{action} ... ")
            self._out.flush()
        try:
            self._history_values = backfill(list(config.streams.values()), self._market)
        except BaseException:
            self._out.write("" if self._options.json else "\n")
            raise
        values, seconds = self._history_values, time.monotonic() - started
        self._print(f"{values:,} values, {seconds:.1f} s", history=values, seconds=round(seconds, 3))


@contextmanager
def open_folder(options: DemoOptions) -> Iterator[Path]:
    """Yield the given folder, or a temporary one that is removed at the end."""
    if options.folder is not None:
        yield Path(options.folder).absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="quantide-demo-"))
    try:
        yield folder
    finally:
        remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Start a process that removes a folder: after an hour of ticks it has so many files that Ctrl-C would wait."""
    command = ["sh", "-c", 'rm -rf -- "$1" &', "sh", str(folder)]
    subprocess.run(command, check=False, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
