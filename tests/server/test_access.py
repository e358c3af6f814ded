"""Access without a token: impossible once a token was created, whatever happens to tokens, servers and files."""

import io
import json
import logging
import os
import shutil
import sqlite3
import threading
from pathlib import Path

import httpx
import pytest

from quantide.cli import main
from quantide.errors import CorruptBytesError, InvalidArgumentError, QuantideError, StorageError
from quantide.server.http.tokens import allow_anonymous, create_token, list_tokens, revoke_token, tokens_required
from quantide.server.serve import report_access, serve
from quantide.server.server_registry import SCHEMA, ServerRegistry
from tests.server.running_server import configure, run_server

LOCAL = {"id": "local", "name": "local", "role": "admin", "streams": None}
QUERY = "INSERT INTO queries (stream, key, window, phi, owner, created) VALUES ('latency', '', '', 0.5, ?, 1)"
ALARM = """INSERT INTO alarms (stream, key, window, phi, above, threshold, clear, hold, owner, created, state, firing,
since) VALUES ('latency', '', '', 0.5, 1, '1', '1', 0, ?, 1, 'ok', 0, 1)"""


def revoked(folder: Path) -> ServerRegistry:
    """Return the registry of a server whose only token was revoked."""
    registry = ServerRegistry(str(folder))
    id, _ = create_token(registry, "only", "admin")
    revoke_token(registry, id)
    return registry


def needed(folder: Path) -> bool:
    """Return whether a server that starts now needs tokens."""
    registry = ServerRegistry(str(folder))
    try:
        return tokens_required(registry)
    finally:
        registry.close()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def refusal(response: httpx.Response) -> str:
    assert (response.status_code, response.json()["error"]["code"]) == (401, "token")
    return str(response.json()["error"]["message"])


def test_a_server_without_its_last_token_stays_closed_after_a_restart(tmp_path: Path) -> None:
    config = configure(tmp_path)
    revoked(Path(config.server.state)).close()
    with run_server(config) as client:
        assert "quantide token create" in refusal(client.get("/api/session"))
        assert "no valid one is left" in refusal(client.get("/api/session", headers=bearer("qt_x")))
        assert client.get("/healthz").status_code == 200
        assert main(["token", "create", config.path, "--role", "reader"]) == 0
        assert "no valid one is left" not in refusal(client.get("/api/session"))
        registry = ServerRegistry(config.server.state)
        _, token = create_token(registry, "new", "reader")
        registry.close()
        assert client.get("/api/session", headers=bearer(token)).json()["name"] == "new"


def test_a_command_opens_the_server_at_the_next_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = configure(tmp_path)
    registry = ServerRegistry(config.server.state)
    id, _ = create_token(registry, "last", "reader")
    assert main(["token", "open", config.path]) == 2
    assert "quantide token revoke" in capsys.readouterr().err
    revoke_token(registry, id)
    with run_server(config) as client:
        assert main(["token", "open", config.path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"open": True}
        refusal(client.get("/api/session"))
    registry.close()
    with run_server(config) as client:
        assert client.get("/api/session").json() == LOCAL
    assert not needed(Path(config.server.state))
    assert os.listdir(config.server.state) == ["registry.db"]


def test_opening_fails_while_a_token_is_left(tmp_path: Path) -> None:
    registry = ServerRegistry(str(tmp_path))
    id, _ = create_token(registry, "one", "reader")
    registry.write("UPDATE tokens SET expires = 1")
    with pytest.raises(InvalidArgumentError, match=f"1 token, such as {id}"):
        allow_anonymous(registry)
    revoke_token(registry, id)
    assert tokens_required(registry)
    registry.close()


@pytest.mark.parametrize("lost", [["registry.db"], ["registry.db", "registry.db-wal", "registry.db-shm"]])
def test_removing_the_registry_does_not_open_the_server(tmp_path: Path, lost: list[str]) -> None:
    registry = ServerRegistry(str(tmp_path))
    create_token(registry, "one", "reader")
    shutil.copytree(tmp_path, tmp_path / "killed")  # as kill -9 leaves it: with the log of SQLite
    registry.close()
    for name in lost:
        (tmp_path / "killed" / name).unlink()
    registry = ServerRegistry(str(tmp_path / "killed"))
    assert tokens_required(registry)
    assert list_tokens(registry) == []
    assert registry.rows("PRAGMA integrity_check")[0][0] == "ok"
    registry.close()


@pytest.mark.parametrize("with_log", [False, True])
def test_an_older_copy_of_the_registry_does_not_open_the_server(tmp_path: Path, with_log: bool) -> None:
    registry = ServerRegistry(str(tmp_path))
    before = Path(registry.path).read_bytes()
    create_token(registry, "one", "reader")
    if not with_log:
        registry.close()
    Path(tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "tokens-required", tmp_path / "copy")
    (tmp_path / "copy" / "registry.db").write_bytes(before)
    registry.close()
    assert needed(tmp_path / "copy")


def older(folder: Path, version: int, *statements: str, values: tuple[str, ...] = ()) -> Path:
    """Write a registry of a former version: alarms on quantiles only; before that without the streams of tokens, as
    Quantide 0.1 did without the table `access`, at first `idle`."""
    added = ",\n    measure TEXT NOT NULL DEFAULT 'quantile', against TEXT NOT NULL DEFAULT 'null'\n"
    schema = SCHEMA.replace(added, "\n").replace("phi REAL, eps", "phi REAL NOT NULL, eps")
    assert len(schema) == len(SCHEMA) - len(added) + len("\n") + len(" NOT NULL")
    if version < 4:
        before = schema
        schema = schema.replace(", streams TEXT", "")
        assert schema != before
    if version < 3:
        before = schema
        schema = schema.replace("CREATE TABLE access (closed INTEGER NOT NULL);\nINSERT INTO access VALUES (0)\n", "")
        assert schema != before
    if version == 1:
        schema = schema.replace(",\n    idle REAL", "")
    folder.mkdir()
    with sqlite3.connect(folder / "registry.db") as file:
        file.executescript(f"{schema}; PRAGMA user_version = {version}")
        for statement in statements:
            file.execute(statement, values)
    file.close()
    return folder


TOKEN = "INSERT INTO tokens VALUES ('ab', 'ab', 'reader', x'00', 1, 2)"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("statement", "values", "closed"),
    [
        (TOKEN, (), True),
        (QUERY, ("1f0c9a2b",), True),
        (ALARM, ("1f0c9a2b",), True),
        (QUERY, ("local",), False),
        (ALARM, ("local",), False),
        ("SELECT 1", (), False),
    ],
    ids=["token", "query of a token", "alarm of a token", "local query", "local alarm", "new"],
)
def test_access_of_an_older_registry(
    tmp_path: Path, version: int, statement: str, values: tuple[str, ...], closed: bool
) -> None:
    folder = older(tmp_path / "state", version, statement, values=values)
    assert needed(folder) == closed
    registry = ServerRegistry(str(folder))
    registry.write("DELETE FROM tokens")
    registry.write("DELETE FROM queries")
    registry.write("DELETE FROM alarms")
    registry.close()
    assert needed(folder) == closed
    assert (folder / "tokens-required").exists() == closed


def test_the_log_reports_that_no_token_is_valid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = configure(tmp_path)
    registry = ServerRegistry(config.server.state)
    report_access(config, registry)
    id, _ = create_token(registry, "one", "reader")
    report_access(config, registry)
    assert caplog.records == []
    revoke_token(registry, id)
    with caplog.at_level(logging.WARNING):
        report_access(config, registry)
    assert f"quantide token create {config.path} --role reader" in caplog.text
    assert f"quantide token open {config.path}" in caplog.text
    registry.close()


def test_the_list_reports_that_no_token_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = configure(tmp_path)
    assert main(["token", "list", config.path]) == 0
    assert "refused" not in capsys.readouterr().out
    revoked(Path(config.server.state)).close()
    assert main(["token", "list", config.path]) == 0
    assert "every request is refused" in capsys.readouterr().out


def test_an_empty_registry_is_refused_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = configure(tmp_path)
    path = Path(config.server.state, "registry.db")
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(CorruptBytesError, match=r"the file is empty.*from a copy"):
        serve(config, io.StringIO())
    for command in (["token", "create", config.path, "--role", "reader"], ["token", "open", config.path]):
        assert main(command) == 2
        assert "move both away" in capsys.readouterr().err
    assert path.read_bytes() == b""
    path.unlink()
    assert not needed(path.parent)


@pytest.mark.parametrize("statements", ["", "CREATE TABLE notes (text)", "PRAGMA user_version = 2"])
def test_another_database_is_refused_and_left_alone(tmp_path: Path, statements: str) -> None:
    with sqlite3.connect(tmp_path / "registry.db") as file:
        file.executescript(f"CREATE TABLE IF NOT EXISTS other (text); {statements}")
    file.close()
    before = file_tables(tmp_path)
    with pytest.raises(CorruptBytesError, match="no registry, it has no table"):
        ServerRegistry(str(tmp_path))
    assert file_tables(tmp_path) == before


def file_tables(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "registry.db") as file:
        results = [name for (name,) in file.execute("SELECT name FROM sqlite_master ORDER BY name")]
    file.close()
    return results


def outcome(folder: Path) -> str:
    """Open a registry: "open", "closed", or the name of the error."""
    try:
        return "closed" if needed(folder) else "open"
    except QuantideError as error:
        return type(error).__name__


@pytest.mark.parametrize("marked", [True, False])
def test_no_damage_opens_a_closed_server(tmp_path: Path, marked: bool) -> None:
    """Cut the file at every 512 bytes, or write 512 zeros there: the server refuses it or stays closed."""
    registry = revoked(tmp_path)
    create_token(registry, "two", "reader")
    registry.close()
    whole = Path(registry.path).read_bytes()
    if not marked:  # the file beside it is lost too
        (tmp_path / "tokens-required").unlink()
    result = set()
    for place in range(0, len(whole), 512):
        for damaged in (whole[:place], whole[:place] + bytes(512) + whole[place + 512 :]):
            for name in ("registry.db-wal", "registry.db-shm"):
                (tmp_path / name).unlink(missing_ok=True)
            Path(registry.path).write_bytes(damaged)
            result.add(outcome(tmp_path))
            if not marked:
                (tmp_path / "tokens-required").unlink(missing_ok=True)
    assert result == {"closed", "CorruptBytesError"}


def test_a_first_start_that_was_killed_can_be_repeated(tmp_path: Path) -> None:
    for name in ("registry.db.new", "registry.db.new-journal"):
        (tmp_path / name).write_bytes(b"half of it")
    assert not needed(tmp_path)
    assert os.listdir(tmp_path) == ["registry.db"]


def test_many_start_at_the_same_time(tmp_path: Path) -> None:
    results: list[str] = []
    together = threading.Barrier(8)

    def start() -> None:
        together.wait()
        results.append(outcome(tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["open"] * 8


def test_a_registry_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    registry = ServerRegistry(str(tmp_path))
    registry.write("PRAGMA user_version = 99")
    registry.close()
    with pytest.raises(StorageError, match="newer Quantide"):
        ServerRegistry(str(tmp_path))
