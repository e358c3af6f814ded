"""One server over streams of every kind, for read-only tests."""

from collections.abc import Iterator

import httpx
import pytest

from tests.server.exact_streams import Served
from tests.server.running_server import run_server


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    result = Served(tmp_path_factory.mktemp("served"))
    result.fill()
    yield result
    result.close()


@pytest.fixture(scope="module")  # no reader stays open for other tests
def client(served: Served) -> Iterator[httpx.Client]:
    with run_server(served.config) as result:
        yield result
