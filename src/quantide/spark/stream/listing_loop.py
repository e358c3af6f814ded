"""Listing loop: a thread that lists a source and ingests its files, with the interface of a Spark query."""

from collections.abc import Callable
from threading import Event, Thread

STOP_TIMEOUT = 20.0  # seconds

Round = Callable[[], float | None]  # one round; it returns the pause until the next one, or None at the end


class ListingLoop:
    """Runs rounds until one returns None or fails, or until the loop is stopped."""

    def __init__(self, run_round: Round, name: str) -> None:
        self._run_round, self._stop = run_round, Event()
        self._thread = Thread(target=self._run, name=f"quantide-list-{name}", daemon=True)
        self._error: Exception | None = None

    def start(self) -> "ListingLoop":
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                pause = self._run_round()
                if pause is None:
                    return
                self._stop.wait(pause)
        except Exception as error:
            self._error = error

    @property
    def isActive(self) -> bool:
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        """Return the error that ended the loop."""
        return self._error

    def stop(self) -> None:
        """End the loop after its current round; a listing that takes longer is abandoned, since it changes nothing."""
        self._stop.set()
        self._thread.join(STOP_TIMEOUT)
