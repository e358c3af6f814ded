"""Fixtures: the folder of a test's store, and the one process that forks all processes to be killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.forked_writers import Driver, run_driver


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    with run_driver() as process:
        yield process
