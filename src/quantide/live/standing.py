"""Standing questions: monitors over everything or a window, right at every commit."""

from contextlib import suppress
from threading import RLock
from typing import Any, Unpack

from quantide.errors import InvalidArgumentError, QuantideError, UnknownKeyError
from quantide.live.asked import Asked, Words
from quantide.live.questions import Questions
from quantide.queries.monitor import Monitor
from quantide.queries.results import Changes
from quantide.summary.ranks import check_eps
from quantide.summary.summary import Summary


class StandingQuestions(Questions):
    """Monitors by the words and the eps that they were asked for with."""

    def __init__(self) -> None:
        self._monitoring = RLock()
        self._monitors: dict[Any, tuple[Asked, Monitor]] = {}

    def monitor(self, key: Any = None, eps: float | None = None, **words: Unpack[Words]) -> Monitor:
        """Standing queries and conditions over everything or a window (the words of answer()), right at every commit.

        `eps` is the finest precision of its queries: when it is not given, the store's for windows, and twice that for
        everything and for steps. The same words and eps give the same monitor. Its on_change functions are called by
        poll().
        """
        asked = self._watched(key, words)
        name = (asked.words, None if eps is None else check_eps(eps))
        with self._monitoring:
            if name not in self._monitors:
                grows = not asked.recent and asked.last_steps is None and self.settings.retention is None
                finest = self.finest(asked) if eps is None else eps
                made = Monitor(finest, pull=lambda: self.pull(asked), value_type=self.settings.value_type, grows=grows)
                self._monitors[name] = (asked, made)
            return self._monitors[name][1]

    def forget(self, key: Any = None, eps: float | None = None, **words: Unpack[Words]) -> None:
        """Let go of the monitor with these words. Whoever holds it can go on with it; monitor() makes another."""
        name = (self._watched(key, words).words, None if eps is None else check_eps(eps))
        with self._monitoring:
            self._monitors.pop(name, None)

    def finest(self, asked: Asked) -> float:
        """The finest precision of a monitor's queries, when no other is asked for."""
        return (1 if asked.recent else 2) * self.settings.eps

    def pull(self, asked: Asked) -> tuple[int, Summary]:
        """A summary and the commit as of which it holds, as a Monitor takes it; of no values where a key has none."""
        version = self.version  # before asking: a commit that comes meanwhile may have the first value of a key
        try:
            return self._ask(asked, lambda view: (view.version, view.summary), again=False)
        except UnknownKeyError:
            return version, Summary.of([])

    def changes(self) -> list[tuple[Asked, Changes]]:
        """What is new in each monitor since this was called before: the words it was made with, and its changes."""
        found = []
        with self._monitoring:
            for asked, monitor in list(self._monitors.values()):  # on_change functions may add some
                with suppress(QuantideError):  # it says so when it is asked
                    found.append((asked, monitor.changes()))
        return [(asked, changes) for asked, changes in found if len(changes) or changes.conditions]

    def _refresh_monitors(self) -> None:
        with self._monitoring:
            monitors = [monitor for _, monitor in self._monitors.values()]
        for monitor in monitors:  # its on_change functions may wait for others that want monitors
            with suppress(QuantideError):  # a window that is not known any more: it says so when it is asked
                monitor.refresh()

    def _watched(self, key: Any, words: Words) -> Asked:
        """What a monitor is about; it is found again by that."""
        if isinstance(key, dict) and set(key) == set(self.settings.keys):
            key = tuple(key[name] for name in self.settings.keys)
        asked = Asked.of({"key": tuple(key) if isinstance(key, list) else key, **words})
        if asked.words is None:
            raise InvalidArgumentError(
                f"a monitor is found again by its words, and {asked} has one that cannot be kept; write it as text, a "
                "number or a tuple"
            )
        return asked
