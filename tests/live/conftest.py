"""The one process that forks all that are killed."""

from collections.abc import Iterator

import pytest

from tests.history.forked_writers import Driver, run_driver


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    with run_driver() as found:
        yield found
