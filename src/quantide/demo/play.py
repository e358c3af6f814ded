"""The demo from start to end: history, server, ticks, Spark, and a goodbye."""

import io
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from quantide.cli.child import Server
from quantide.client import Client
from quantide.config import Config
from quantide.config.server import PORT
from quantide.demo.backfill import DAYS, backfill
from quantide.demo.ending import deaf_at_the_end, ended_after, errors_to
from quantide.demo.feeder import Feeder
from quantide.demo.market import Market
from quantide.demo.part import Listener, Part
from quantide.demo.place import alone_in, choose_port, incoming, prepare
from quantide.demo.screen import open_screen
from quantide.demo.standing import register
from quantide.demo.view import STREAM, View
from quantide.doctor import java
from quantide.errors import InvalidArgumentError, QuantideError
from quantide.spark.ingest import ingest
from quantide.summary.shown import write_line

SCENE = "#stream=spread&key=ECHO&window=within:30s"  # what the page shows of the symbol that has an incident
ANSWERED = re.compile(rb'^quantide_requests_total\{route="/api/[^"]*",status="2..",?\} ([0-9.e+]+)$', re.M)


@dataclass(frozen=True)
class Wishes:
    """What the command was told."""

    seed: int = 1
    seconds: float | None = None
    folder: str | None = None
    port: int | None = None
    terminal: bool = False
    json: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is begun."""
        if self.seconds is not None and not 0 < self.seconds <= threading.TIMEOUT_MAX:
            raise InvalidArgumentError(f"seconds is {self.seconds:g}; give more than 0, or none to run until Ctrl-C")
        if self.seed < 0:
            raise InvalidArgumentError(f"seed is {self.seed}; give 0 or a number above it")
        if self.port is not None and not 0 <= self.port < 2**16:
            raise InvalidArgumentError(f"port is {self.port}; give a number up to 65535, or 0 for any that is free")
        java.require("the demo takes its ticks in with Spark")


def play(out: TextIO, wishes: Wishes) -> int | None:
    """Run until Ctrl-C, SIGTERM, or for some seconds; the exit code where that is not 0."""
    wishes.check()
    market = Market(wishes.seed, time.time_ns() // 1000)
    with deaf_at_the_end() as deaf, folder_of(wishes) as folder, ExitStack() as stack:
        demo = Demo(out, wishes, market, folder)
        try:
            code = demo.run(stack)
        except KeyboardInterrupt:
            code = None
        finally:
            deaf()
            demo.leave()
        if code is None:
            demo.goodbye()
    return code


class Demo:
    """What goes on; `stack` of run() holds what has to be ended."""

    def __init__(self, out: TextIO, wishes: Wishes, market: Market, folder: Path) -> None:
        self._out, self._wishes, self._market, self._folder = out, wishes, market, folder
        self._client: Client | None = None
        self._parts: list[Part] = []
        self._listener: Listener | None = None
        self._values = 0

    def run(self, stack: ExitStack) -> int | None:
        wishes = self._wishes
        stack.enter_context(alone_in(self._folder))
        config = prepare(self._folder, choose_port(wishes.port))
        if wishes.port is None and config.server.port != PORT:
            self.say(f"Port {PORT} is taken; {config.server.port} is free.", note=f"port {PORT} is taken")
        self._write_history(config)
        said: list[str] = []
        server = stack.enter_context(Server([config.path], said.append))
        code = server.begin()
        if code is not None:
            return code
        url = said[0].strip()
        self._client = stack.enter_context(Client(url))
        register(self._client)
        self.say(f"Open {url} in a browser; where it happens: {url}/{SCENE}. Ctrl-C ends the demo.", url=url)
        if wishes.seconds is not None:
            stack.enter_context(ended_after(wishes.seconds))
        feeder = Feeder(self._market, incoming(self._folder), self._client)
        self._listener = listener = Listener(self._client, STREAM)
        self._parts += [feeder, listener]
        with feeder, listener, self._shown(self._client, listener) as out, errors_to(self._folder / "spark.log"):
            ingest(config, out, json=wishes.json)
        return None

    @contextmanager
    def _shown(self, client: Client, listener: Listener) -> Iterator[TextIO]:
        """Where ingestion may tell how it does; nowhere while the terminal shows something else."""
        if not self._wishes.terminal:
            self.say("Starting Spark, which takes in live ticks ...", note="starting Spark")
            yield self._out
            return
        with open_screen(self._out, self._wishes.json) as screen, View(client, screen, listener.moved) as view:
            self._parts.append(view)
            yield io.StringIO()

    def leave(self) -> None:
        """Raise what ended a part of it."""
        for part in self._parts:
            if part.problem is not None:
                raise part.problem

    def goodbye(self) -> None:
        """What was done, as far as the server can still tell."""
        values, answered = 0, 0
        if self._client is not None:
            with suppress(QuantideError):
                values = sum(stream["n"] for stream in self._client.streams()) - self._values
                answered = sum(int(float(count)) for count in ANSWERED.findall(self._client.get_bytes("/metrics")))
        changes = self._listener.changes if self._listener is not None else 0
        kept = f" Everything is kept in {self._folder}." if self._wishes.folder else ""
        self.say(
            f"Goodbye: {values:,} values taken in, {answered:,} questions answered, {changes:,} changes told.{kept}",
            values=values,
            answered=answered,
            changes=changes,
        )

    def say(self, sentence: str, **facts: object) -> None:
        """A line for people, or the same as facts for programs."""
        if self._wishes.json:
            write_line(self._out, facts)
        else:
            self._out.write(sentence + "\n")
            self._out.flush()

    def _write_history(self, config: Config) -> None:
        began, there = time.monotonic(), Path(config.store).exists()
        if not self._wishes.json:
            doing = f"Going on with what is in {self._folder}" if there else f"Writing {DAYS} days of history"
            self._out.write(f"{doing} ... ")
            self._out.flush()
        try:
            self._values = backfill(list(config.streams.values()), self._market)
        except BaseException:
            self._out.write("" if self._wishes.json else "\n")
            raise
        seconds = time.monotonic() - began
        self.say(f"{self._values:,} values, {seconds:.1f} s", history=self._values, seconds=round(seconds, 3))


@contextmanager
def folder_of(wishes: Wishes) -> Iterator[Path]:
    """The folder that was named, which stays; or one that goes."""
    if wishes.folder is not None:
        yield Path(wishes.folder).absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="quantide-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
