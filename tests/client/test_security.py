"""Security of the client: tokens, roles, a token revoked during a subscription, TLS."""

import ssl
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from quantide.client import Client, event_reader
from quantide.errors import ForbiddenError, ServerError, TokenError
from quantide.server.http.tokens import create_token, revoke_token
from quantide.server.server_registry import ServerRegistry
from tests.client.restartable_server import RestartableServer
from tests.client.scripted_server import response, scripted_server
from tests.server.running_server import configure, make_store, traffic
from tests.server.test_serve import write_certificate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with make_store(tmp_path) as history:
        traffic(history, np.random.default_rng(3), 1000, 0.0)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[RestartableServer]:
    with RestartableServer(configure(folder)) as server:
        yield server


@pytest.fixture
def registry(folder: Path, server: RestartableServer) -> Iterator[ServerRegistry]:
    registry = ServerRegistry(configure(folder).server.state)
    yield registry
    registry.close()


def test_tokens_and_their_roles(server: RestartableServer, registry: ServerRegistry) -> None:
    tokens = {role: create_token(registry, role, role)[1] for role in ("reader", "writer")}
    with Client(server.address) as anonymous, Client(server.address, token="qt_wrong") as wrong:
        for client in (anonymous, wrong):
            with pytest.raises(TokenError):
                client.streams()
            with pytest.raises(TokenError):
                client.events(streams="latency")
    with Client(server.address, token=tokens["reader"]) as reader:
        assert reader.quantile("latency", 0.5) > 0
        with pytest.raises(ForbiddenError, match="writer"):
            reader.register("latency", 0.5)
    with Client(server.address, token=tokens["writer"]) as writer:
        assert writer.drop(writer.register("latency", 0.5)) == 1


def test_a_token_that_is_revoked_ends_events(
    server: RestartableServer, registry: ServerRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_reader, "LONGEST_PAUSE", 0.01)
    id, token = create_token(registry, "subscriber", "reader")
    with Client(server.address, token=token) as client, client.events(streams="latency") as events:
        assert next(events).data["stream"] == "latency"
        revoke_token(registry, id)
        server.stop()
        server.start()
        with pytest.raises(TokenError) as caught:
            deque(events, maxlen=0)  # an event may have been on its way
        assert token not in str(caught.value)


def test_a_certificate_of_ones_own(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    cert = tmp_path / "server.crt"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, tmp_path / "server.key")
    with scripted_server([response(b'{"streams": []}')], tls=context) as server:
        with Client(server.address, token="qt_secret", ca=str(cert)) as client:
            assert client.streams() == []
        with (
            Client(server.address, token="qt_secret") as client,
            pytest.raises(ServerError, match="CERTIFICATE_VERIFY"),
        ):
            client.streams()
