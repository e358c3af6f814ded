"""The client at the gate: tokens, roles, a token that is revoked while it listens, TLS."""

import ssl
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from quantide.client import Client, events
from quantide.errors import ForbiddenError, ServerError, TokenError
from quantide.server.registry import Registry
from quantide.server.tokens import create_token, revoke_token
from tests.client.raw import raw, response
from tests.client.restart import Restarted
from tests.server.serving import configure, make_store, traffic
from tests.server.test_serve import write_certificate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with make_store(tmp_path) as history:
        traffic(history, np.random.default_rng(3), 1000, 0.0)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Restarted]:
    with Restarted(configure(folder)) as found:
        yield found


@pytest.fixture
def registry(folder: Path, server: Restarted) -> Iterator[Registry]:
    found = Registry(configure(folder).server.state)
    yield found
    found.close()


def test_tokens_and_their_roles(server: Restarted, registry: Registry) -> None:
    tokens = {role: create_token(registry, role, role)[1] for role in ("reader", "writer")}
    with Client(server.address) as nobody, Client(server.address, token="qt_wrong") as wrong:
        for client in (nobody, wrong):
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
    server: Restarted, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_PAUSE", 0.01)
    id, token = create_token(registry, "listener", "reader")
    with Client(server.address, token=token) as client, client.events(streams="latency") as found:
        assert next(found).data["stream"] == "latency"
        revoke_token(registry, id)
        server.stop()
        server.start()
        with pytest.raises(TokenError) as caught:
            deque(found, maxlen=0)  # an event may have been on its way
        assert token not in str(caught.value)


def test_a_certificate_of_ones_own(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    cert = tmp_path / "server.crt"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, tmp_path / "server.key")
    with raw([response(b'{"streams": []}')], tls=context) as server:
        with Client(server.address, token="qt_secret", ca=str(cert)) as client:
            assert client.streams() == []
        with (
            Client(server.address, token="qt_secret") as client,
            pytest.raises(ServerError, match="CERTIFICATE_VERIFY"),
        ):
            client.streams()
