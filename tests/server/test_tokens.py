"""Tokens: storage, validity and roles."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantide.errors import InvalidArgumentError, StorageError
from quantide.server.http.tokens import (
    ROLES,
    Identity,
    create_token,
    identify_session,
    identify_token,
    list_tokens,
    open_session,
    revoke_token,
    tokens_required,
)
from quantide.server.server_registry import ServerRegistry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ServerRegistry]:
    result = ServerRegistry(str(tmp_path / "state"))
    yield result
    result.close()


def test_a_token_has_an_identity(registry: ServerRegistry) -> None:
    id, token = create_token(registry, "grafana", "reader")
    assert token.startswith(f"qt_{id}_")
    assert len(token) == len(f"qt_{id}_") + 43
    assert identify_token(registry, token, time.time()) == Identity(id, "grafana", "reader")


def test_no_two_tokens_are_alike(registry: ServerRegistry) -> None:
    made = [create_token(registry, "same", "admin") for _ in range(50)]
    assert len({id for id, _ in made}) == len({token for _, token in made}) == 50


@pytest.mark.parametrize("change", [str.lower, str.upper, lambda t: t[:-1], lambda t: t + "A", lambda t: "", str.strip])
def test_only_the_exact_token_is_valid(registry: ServerRegistry, change: object) -> None:
    _, token = create_token(registry, "one", "reader")
    assert callable(change)
    changed = change(token + " " if change is str.strip else token)
    assert (identify_token(registry, changed, time.time()) is not None) == (changed == token)


def test_invalid_tokens_have_no_identity(registry: ServerRegistry) -> None:
    create_token(registry, "one", "reader")
    for text in ("", "qt_", "' OR 1=1 --", "x" * 10_000_000, "\x00", "é"):
        assert identify_token(registry, text, time.time()) is None


def test_the_secret_is_nowhere_on_disk(registry: ServerRegistry, tmp_path: Path) -> None:
    _, token = create_token(registry, "one", "reader")
    for path in (tmp_path / "state").iterdir():
        data = path.read_bytes()
        assert token.encode() not in data
        assert token.split("_", 2)[2].encode() not in data


def test_only_the_owner_can_read_the_registry(registry: ServerRegistry, tmp_path: Path) -> None:
    create_token(registry, "one", "reader")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()}
    assert modes == dict.fromkeys(("registry.db", "registry.db-wal", "registry.db-shm", "tokens-required"), 0o600)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_world_readable_registry_is_made_private(tmp_path: Path) -> None:
    ServerRegistry(str(tmp_path)).close()
    os.chmod(tmp_path / "registry.db", 0o644)
    ServerRegistry(str(tmp_path)).close()
    assert stat.S_IMODE((tmp_path / "registry.db").stat().st_mode) == 0o600


def test_another_process_does_not_remove_open_files(registry: ServerRegistry, tmp_path: Path) -> None:
    """The last process to close SQLite cleans up: it must notice this one, which opened the file twice."""
    create_token(registry, "one", "reader")
    ServerRegistry(str(tmp_path / "state")).close()
    program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM tokens'); c.close()"
    subprocess.run([sys.executable, "-c", program, registry.path], check=True)
    assert (tmp_path / "state" / "registry.db-wal").exists()


def test_a_token_expires(registry: ServerRegistry) -> None:
    end = time.time() + 100
    id, token = create_token(registry, "short", "writer", end)
    assert identify_token(registry, token, end - 1) is not None
    assert identify_token(registry, token, end) is None
    assert [(one.id, one.expires) for one in list_tokens(registry)] == [(id, end)]


def test_a_door_does_not_open_because_all_tokens_have_expired(registry: ServerRegistry) -> None:
    assert not tokens_required(registry)
    create_token(registry, "short", "reader", time.time() + 100)
    registry.write("UPDATE tokens SET expires = 1")
    assert tokens_required(registry)


def test_a_revoked_token_is_invalid_for_other_connections_at_once(registry: ServerRegistry, tmp_path: Path) -> None:
    other = ServerRegistry(str(tmp_path / "state"))
    id, token = create_token(other, "one", "admin")
    assert identify_token(registry, token, time.time()) is not None
    revoke_token(other, id)
    assert identify_token(registry, token, time.time()) is None
    assert list_tokens(registry) == []
    other.close()


def test_sessions_end_with_their_token(registry: ServerRegistry) -> None:
    id, _ = create_token(registry, "one", "admin")
    registry.write("INSERT INTO sessions VALUES (?, ?, ?)", (b"hash", id, 1e12))
    revoke_token(registry, id)
    assert registry.rows("SELECT * FROM sessions") == []


def test_invalid_creations_and_revocations(registry: ServerRegistry) -> None:
    for name, role, expires in [
        ("a", "root", None),
        ("", "reader", None),
        ("a\nb", "reader", None),
        ("a" * 101, "reader", None),
        ("a", "reader", time.time() - 1),
        ("a", "reader", float("nan")),
        ("a", "reader", float("inf")),
    ]:
        with pytest.raises(InvalidArgumentError):
            create_token(registry, name, role, expires)
    assert list_tokens(registry) == []
    with pytest.raises(InvalidArgumentError, match="no token"):
        revoke_token(registry, "' OR 1=1 --")


def test_roles_include_others() -> None:
    included = {role: [needed for needed in ROLES if Identity("a", "a", role).has_role(needed)] for role in ROLES}
    assert included == {
        "pusher": ["pusher"],
        "reader": ["reader"],
        "writer": ["pusher", "reader", "writer"],
        "admin": ["pusher", "reader", "writer", "admin"],
    }


def test_a_token_may_be_limited_to_streams(tmp_path: Path) -> None:
    registry = ServerRegistry(str(tmp_path))
    _, token = create_token(registry, "app", "pusher", streams=["latency", "errors"])
    identity = identify_token(registry, token, time.time())
    assert identity is not None
    assert identity.streams == frozenset({"errors", "latency"})
    assert (identity.may_use("latency"), identity.may_use("other")) == (True, False)
    assert [token.streams for token in list_tokens(registry)] == [identity.streams]
    secret, _ = open_session(registry, identity, time.time())
    assert identify_session(registry, secret, time.time()) == identity
    registry.close()


def test_a_closed_registry_admits_no_request(tmp_path: Path) -> None:
    registry = ServerRegistry(str(tmp_path))
    registry.close()
    with pytest.raises(StorageError):
        identify_token(registry, "qt_x", 0.0)
