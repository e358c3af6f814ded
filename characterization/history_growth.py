"""What more history costs, and what a larger stream: Figures 12 and 13."""

from benchmarks.report import Row, say
from benchmarks.timing import clock
from characterization.history_data import step_values
from characterization.history_settings import Settings
from characterization.history_trial import Trial, trial
from quantide.history import History

MODES = ("accurate", "quick")


def measure(settings: Settings) -> dict[str, list[Row]]:
    return {"history": by_history(settings), "stream": by_stream(settings)}


def by_history(settings: Settings) -> list[Row]:
    """The same stream over more and more steps that have ended."""
    rows = []
    with trial(settings, settings.memory, settings.kappa) as t:
        for step in range(max(settings.history_steps) + 1):
            t.append(step_values("normal", step, settings.step_values))
            if step in settings.history_steps:
                say(f"history: {step} steps")
                rows.append({"steps": step, **t.cost(), **_opened(t)})
            t.end()
    return rows


def by_stream(settings: Settings) -> list[Row]:
    """More and more values in the open step, over the same history."""
    rows = []
    with trial(settings, settings.memory, settings.kappa) as t:
        for step in range(settings.stream_steps):
            t.append(step_values("normal", step, settings.step_values))
            t.end()
        size, appends = 0, 0
        for stream in settings.streams:
            say(f"history: {stream:,} values in the stream")
            seconds = []
            while size < stream:
                values = step_values("normal", settings.stream_steps + appends, min(settings.chunk, stream - size))
                seconds.append(t.append(values).seconds)
                size, appends = size + len(values), appends + 1
            rows.append({"stream": stream, "append": round(sum(seconds) / len(seconds), 6), **_asked(t, t.history)})
    return rows


def _opened(t: Trial) -> Row:
    """What a handle finds that is opened now; it is closed again."""
    opening, opened = clock(lambda: _open(t))
    with opened:
        return {"opening": round(opening, 6), **_asked(t, opened)}


def _open(t: Trial) -> History:
    history = History(t.path)
    history.stats()
    return history


def _asked(t: Trial, history: History) -> Row:
    """The first question feeds the sketch of the open step; others come after it."""
    first, _ = clock(lambda: history.answer(0.5))
    asked = {f"{mode}_{name}": value for mode in MODES for name, value in t.ask(mode, history=history).items()}
    stats = history.stats()
    sizes = {"values": stats["values"], "stream_values": stats["stream_values"], "runs": stats["runs"]}
    allowed = {"allowed": history.eps * stats["stream_values"], "bytes": history.index_nbytes}
    return {**sizes, **allowed, "first": round(first, 6), **asked}
