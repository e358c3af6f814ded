"""Stream health: newest event time, lag, counts of ingestion, and the problems that a person should act on."""

import logging
from dataclasses import asdict, dataclass
from threading import Event, Thread
from typing import Any

from quantide.errors import QuantideError
from quantide.live.stream import LiveStream
from quantide.server import shown
from quantide.server.streams import Streams
from quantide.store.ingest_status import TEXTS, IngestStatus
from quantide.windows.ahead import show_length
from quantide.windows.wall_clock import wall_clock

LOG = logging.getLogger("quantide.server")
SILENT = 60.0  # seconds without a status after which a running ingestion counts as ended
PRIVATE = "ingestion reports a problem; GET /api/streams has its text"
CHECK = 10.0  # seconds between two checks for the log


@dataclass(frozen=True)
class StreamHealth:
    """Health of one stream. `lag` is negative when the newest time is ahead of this machine's clock; `blocking` is
    the problem, if any, because of which windows of time cannot be trusted."""

    newest: Any = None
    lag: float | None = None
    ingest: IngestStatus | None = None
    blocking: str | None = None
    problems: tuple[str, ...] = ()

    def to_json(self, public: bool = False) -> dict[str, Any]:
        """Health as JSON; with `public` without the texts of ingestion, which may name files."""
        texts = _texts(self.ingest)
        problems = [PRIVATE if public and problem in texts else problem for problem in self.problems]
        ingest = None if self.ingest is None else asdict(self.ingest)
        if ingest is not None and public:
            ingest = {name: value for name, value in ingest.items() if name not in TEXTS}
        return {"newest": shown.value(self.newest), "lag": self.lag, "ingest": ingest, "problems": problems}


def stream_health(streams: Streams, name: str) -> StreamHealth:
    """Health of a stream, from its reader, the clock and the status that ingestion published."""
    why = streams.wrong(name)
    if why is not None:
        return StreamHealth(problems=(why,))
    live = streams.live(name)
    ahead, (ingest, found) = live.clock_problem, _ingest(live)
    return StreamHealth(live.newest, live.lag, ingest, ahead, tuple(one for one in (ahead, *found) if one))


class HealthLog:
    """Writes each new problem of a stream to the log, and its end."""

    def __init__(self, streams: Streams) -> None:
        self._streams, self._known = streams, dict[str, tuple[str, ...]]()
        self._end = Event()
        self._thread = Thread(target=self._run, name="quantide-health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Log what changed since the last check."""
        for name in self._streams.names:
            problems, before = stream_health(self._streams, name).problems, self._known.get(name, ())
            self._known[name] = problems
            for problem in problems:
                if _kind(problem) not in map(_kind, before):
                    LOG.warning("stream %s: %s", name, problem)
            if before and not problems:
                LOG.info("stream %s: no problems any more", name)

    def _run(self) -> None:
        while not self._end.wait(CHECK):
            try:
                self.check()
            except Exception:
                LOG.exception("the health of streams cannot be checked")


def _ingest(live: LiveStream) -> tuple[IngestStatus | None, list[str]]:
    """The status of ingestion, and its problems."""
    try:
        status = live.ingest_status()
    except (QuantideError, OSError) as error:
        return None, [str(error)]
    if status is None:
        return None, []
    held = status.held_files and f"files held in quarantine: {status.held_files:,}; quantide quarantine list CONFIG"
    found = [_silence(status), status.clock_problem, status.problem, held or ""]
    return status, [one for one in found if one]


def _silence(status: IngestStatus) -> str:
    silent = wall_clock() - status.time
    if not status.running or abs(silent) <= SILENT:
        return ""
    if silent < 0:
        return f"ingestion's status is dated {show_length(-silent)} ahead of this machine's clock; compare both clocks"
    return f"ingestion has not reported for {show_length(silent)}; see whether it runs"


def _texts(status: IngestStatus | None) -> set[str]:
    return set() if status is None else {getattr(status, name) for name in TEXTS}


def _kind(problem: str) -> str:
    """A problem without its numbers: a count that grows is no news."""
    return "".join(letter for letter in problem if not letter.isdigit())
