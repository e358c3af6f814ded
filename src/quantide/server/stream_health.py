"""Stream health: newest event time, lag, counts of ingestion, and the problems that a person should act on."""

import logging
from dataclasses import asdict, dataclass
from threading import Event, Thread
from typing import Any

from quantide.errors import QuantideError
from quantide.live.live_stream import LiveStream
from quantide.server.http.response_json import encode_value, format_time
from quantide.server.served_streams import ServedStreams
from quantide.store.ingest_status import TEXTS, IngestStatus
from quantide.windows.time_clock import show_length
from quantide.windows.wall_clock import wall_clock

LOG = logging.getLogger("quantide.server")
SILENCE = 60.0  # seconds without a status after which a running ingestion counts as ended
PRIVATE = "ingestion reports a problem; GET /api/streams shows its text"
CHECK_INTERVAL = 10.0  # seconds between two checks of the log


@dataclass(frozen=True)
class StreamHealth:
    """Health of one stream. `lag` is negative when the newest time is ahead of this machine's clock; `blocking` is
    the problem, if any, that makes time windows unreliable."""

    newest: Any = None
    lag: float | None = None
    ingest: IngestStatus | None = None
    blocking: str | None = None
    problems: tuple[str, ...] = ()

    def to_json(self, public: bool = False) -> dict[str, Any]:
        """Return the health as JSON; with `public` without the texts of ingestion, which may name files."""
        texts = _texts(self.ingest)
        problems = [PRIVATE if public and problem in texts else problem for problem in self.problems]
        ingest = None if self.ingest is None else asdict(self.ingest)
        if ingest is not None:
            ingest["time"] = format_time(ingest["time"])
            del ingest["unit"]  # a field of the stream, beside "ingest"
        if ingest is not None and public:
            ingest = {name: value for name, value in ingest.items() if name not in TEXTS}
        return {"newest": encode_value(self.newest), "lag": self.lag, "ingest": ingest, "problems": problems}


def stream_health(streams: ServedStreams, name: str) -> StreamHealth:
    """Return the health of a stream, from its reader, the clock and the status that ingestion published."""
    reason = streams.failure_reason(name)
    if reason is not None:
        return StreamHealth(problems=(reason,))
    live = streams.live(name)
    clock, (ingest, others) = live.clock_problem, _ingest(live)
    problems = tuple(problem for problem in (clock, *others) if problem)
    return StreamHealth(live.newest, live.lag, ingest, clock, problems)


class HealthLog:
    """Logs each new problem of a stream, and its end."""

    def __init__(self, streams: ServedStreams) -> None:
        self._streams, self._logged = streams, dict[str, tuple[str, ...]]()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="quantide-health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Log the changes since the last check."""
        for name in self._streams.names:
            problems, before = stream_health(self._streams, name).problems, self._logged.get(name, ())
            self._logged[name] = problems
            for problem in problems:
                if _kind(problem) not in map(_kind, before):
                    LOG.warning("stream %s: %s", name, problem)
            if before and not problems:
                LOG.info("stream %s: no problems any more", name)

    def _run(self) -> None:
        while not self._closing.wait(CHECK_INTERVAL):
            try:
                self.check()
            except Exception:
                LOG.exception("the health of streams cannot be checked")


def _ingest(live: LiveStream) -> tuple[IngestStatus | None, list[str]]:
    """Return the status of ingestion, and its problems."""
    try:
        status = live.ingest_status()
    except (QuantideError, OSError) as error:
        return None, [str(error)]
    if status is None:
        return None, []
    held = status.held_files and f"files held in quarantine: {status.held_files:,}; quantide quarantine list CONFIG"
    problems = [_silence_problem(status), status.clock_problem, status.problem, held or ""]
    return status, [problem for problem in problems if problem]


def _silence_problem(status: IngestStatus) -> str:
    silent = wall_clock() - status.time
    if not status.running or abs(silent) <= SILENCE:
        return ""
    if silent < 0:
        return f"ingestion's status is dated {show_length(-silent)} ahead of this machine's clock; compare both clocks"
    return f"ingestion has not reported for {show_length(silent)}; see whether it runs"


def _texts(status: IngestStatus | None) -> set[str]:
    return set() if status is None else {getattr(status, name) for name in TEXTS}


def _kind(problem: str) -> str:
    """Return a problem without its numbers: a growing count is not a new problem."""
    return "".join(character for character in problem if not character.isdigit())
