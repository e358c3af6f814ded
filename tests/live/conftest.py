"""The one process that forks all that are killed."""

from collections.abc import Iterator

import pytest

from tests.history.forked_writers import Driver, driving


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    with driving() as found:
        yield found
