"""Settings of all tests: hypothesis never depends on chance, and every test has its own fixed seed."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.checks")

HEAVY = ("spark", "browser", "demo", "task_docs", "first_hour", "cli_run", "release")
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "default", derandomize=True, deadline=None, max_examples=100, suppress_health_check=_QUIET, database=None
)
settings.register_profile(
    "slow", derandomize=True, deadline=None, max_examples=3000, suppress_health_check=_QUIET, database=None
)
settings.load_profile(os.environ.get("QUANTIDE_HYPOTHESIS", "default"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests: those of a file stay together, and all that need Spark, a browser or
    whole programs, so that one session serves them and they do not wait for each other's."""
    for item in items:
        path = str(item.path.relative_to(item.config.rootpath))
        heavy = any(word in path for word in HEAVY)
        item.add_marker(pytest.mark.xdist_group("heavy" if heavy else path))


@pytest.fixture
def no_hang() -> Iterator[None]:
    """A minute for a test that takes seconds: what hangs fails here, and not the whole run."""

    def give_up(signum: int, frame: object) -> None:
        raise TimeoutError("the test hangs")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)


def seed_of(name: str) -> int:
    """The same seed for the same name, in every run."""
    return zlib.crc32(name.encode())


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded with the name of the test."""
    return np.random.default_rng(seed_of(request.node.name))
