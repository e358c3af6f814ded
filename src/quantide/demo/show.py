"""The demo's loop: feed, ask, draw, wait for the next tick."""

import time
from typing import TextIO

from quantide.demo.feed import TICK, Feed
from quantide.demo.screen import Screen, open_screen
from quantide.errors import InvalidArgumentError

UNWATCHED_SECONDS = 8.0
CATCH_UP = 0.5
"""Traffic that is later than so many seconds is left out, so that a slow machine is not swamped."""


def run(stream: TextIO, eps: float, rate: float, seed: int, seconds: float | None = None, json: bool = False) -> None:
    """Show the demo on `stream` for `seconds`; without them until Ctrl-C, or briefly if nobody watches."""
    if seconds is not None and not seconds > 0:
        raise InvalidArgumentError(f"seconds is {seconds:g}; give more than 0, or none to run until Ctrl-C")
    feed = Feed(eps, rate, seed)
    if not json:
        stream.write("Loading the compiled kernels; the very first time they are compiled, which takes longer.\n")
        stream.flush()
    load_kernels(eps)
    with open_screen(stream, json) as screen:
        try:
            play(feed, screen, length(screen, seconds))
        except KeyboardInterrupt:
            return


def length(screen: Screen, seconds: float | None) -> float:
    if seconds is not None:
        return seconds
    return float("inf") if screen.endless else UNWATCHED_SECONDS


def load_kernels(eps: float) -> None:
    """Load the compiled code before the clock starts, so that only the sketch itself is timed."""
    warm = Feed(eps, rate=float("inf"), seed=0)
    warm.tick()
    warm.state(seconds=TICK)


def play(feed: Feed, screen: Screen, seconds: float) -> None:
    """Feed at the pace of the traffic; when the machine cannot keep up, feed as fast as it can."""
    start = now = due = time.monotonic()
    next_frame = start
    while now - start < seconds:
        feed.tick()
        if now >= next_frame:
            screen.show(feed.state(now - start))
            next_frame += screen.every
        now = time.monotonic()
        due = max(due + TICK, now - CATCH_UP)
        time.sleep(max(0.0, due - now))
        now = time.monotonic()
    screen.show(feed.state(now - start))
