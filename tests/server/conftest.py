"""One server over streams of every kind, for tests that only read."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server.naive import Served
from tests.server.serving import serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(tmp_path_factory.mktemp("served"))
    found.fill()
    yield found
    found.close()


@pytest.fixture(scope="module")  # no reader is left open for other tests to meet
def client(served: Served) -> Iterator[httpx.Client]:
    with serving(served.config) as found:
        yield found
