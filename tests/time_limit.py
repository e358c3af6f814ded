"""Hard time limit of each test: prints the stacks of all threads, then ends the process with exit code 1.

`timeout` in pyproject.toml is the limit, tests marked slow have SLOW seconds, `@pytest.mark.timeout(60)` sets another.
The limit covers fixtures too. A thread of the interpreter's C code watches it: the watcher raises no exception that a
test could catch and needs no GIL. pytest-timeout alone would print the stacks to the standard output of a worker of
pytest-xdist, which is /dev/null, and leave the teardown of a failed test without a limit.
"""

import faulthandler
import os
import sys

import pytest
from pytest_timeout import Settings

SLOW = 3600.0  # seconds
STDERR = pytest.StashKey[int]()
LIMIT = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)  # before pytest captures it


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[STDERR])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> bool:
    item.stash[LIMIT] = settings.timeout
    start(item)
    return True  # instead of the timer of pytest-timeout


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer() -> bool:
    faulthandler.cancel_dump_traceback_later()
    return True


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Restart the timer, which pytest stops when a test fails: the teardown may hang as well."""
    if LIMIT in node.stash:
        start(node)


def start(node: pytest.Item | pytest.Collector) -> None:
    faulthandler.dump_traceback_later(node.stash[LIMIT], exit=True, file=node.config.stash[STDERR])
