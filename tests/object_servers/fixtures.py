"""Fixtures: servers that start at their first use and serve all tests of a process; every test has its own bucket."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.object_servers.fault_proxy import FaultProxy
from tests.object_servers.object_location import ObjectLocation
from tests.object_servers.servers import S3_SERVERS, SERVERS, ObjectServer, missing_reason

StartServer = Callable[[str], ObjectServer]


@pytest.fixture(scope="session")
def start_object_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Function that returns a running server by its name; without its program the test is skipped."""
    with ExitStack() as running:

        @cache
        def start(name: str) -> ObjectServer:
            return running.enter_context(SERVERS[name](tmp_path_factory.mktemp(name)))

        def start_or_skip(name: str) -> ObjectServer:
            if reason := missing_reason(name):
                pytest.skip(reason)
            return start(name)

        yield start_or_skip


@pytest.fixture(params=SERVERS)
def object_server(request: pytest.FixtureRequest, start_object_server: StartServer) -> ObjectServer:
    """Each object server; a test runs once for each."""
    return start_object_server(request.param)


@pytest.fixture
def object_store(object_server: ObjectServer) -> ObjectLocation:
    """An empty bucket or container of each of the servers."""
    return object_server.new_location()


@pytest.fixture(scope="session")
def s3_server(start_object_server: StartServer) -> ObjectServer:
    """The fastest S3 server that is installed."""
    return start_object_server(next(name for name in S3_SERVERS if not missing_reason(name)))


@pytest.fixture
def s3_store(s3_server: ObjectServer) -> ObjectLocation:
    """An empty bucket of the fastest S3 server."""
    return s3_server.new_location()


@pytest.fixture
def fault_proxy(request: pytest.FixtureRequest) -> Iterator[FaultProxy]:
    """A proxy before the server of `object_store` if the test uses it, else before `s3_server`."""
    name = "object_server" if "object_server" in request.fixturenames else "s3_server"
    server: ObjectServer = request.getfixturevalue(name)
    with FaultProxy(server.port) as proxy:
        yield proxy
