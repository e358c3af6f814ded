"""The file of a registry: its schema, how it is made and upgraded, and what is wrong with one that cannot be used."""

import fcntl
import os
import re
import sqlite3
import time
from contextlib import closing, suppress
from urllib.parse import quote

from quantide.errors import CorruptBytesError, QuantideError, StorageError

NAME = "registry.db"
CLOSED = "tokens-required"
"""File beside the registry of a closed server. A registry that is made anew, or is an older copy, finds it there."""
VERSION = 3
SCHEMA = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL UNIQUE,
    created REAL NOT NULL, expires REAL
);
CREATE TABLE sessions (
    hash BLOB PRIMARY KEY, token TEXT NOT NULL REFERENCES tokens (id) ON DELETE CASCADE, expires REAL NOT NULL
);
CREATE TABLE queries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, key TEXT NOT NULL, window TEXT NOT NULL,
    filter TEXT, phi REAL NOT NULL, eps REAL, label TEXT, owner TEXT NOT NULL, created REAL NOT NULL,
    idle REAL
);
CREATE INDEX queries_of_labels ON queries (label) WHERE label IS NOT NULL;
CREATE TABLE alarms (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, stream TEXT NOT NULL, key TEXT NOT NULL, window TEXT NOT NULL,
    filter TEXT, phi REAL NOT NULL, eps REAL, above INTEGER NOT NULL, threshold TEXT NOT NULL, clear TEXT NOT NULL,
    hold REAL NOT NULL, webhook TEXT, owner TEXT NOT NULL, created REAL NOT NULL,
    state TEXT NOT NULL, firing INTEGER NOT NULL, since REAL NOT NULL
);
CREATE TABLE transitions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, alarm INTEGER NOT NULL, at REAL NOT NULL, body TEXT NOT NULL
);
CREATE INDEX transitions_of_alarms ON transitions (alarm);
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY, alarm INTEGER NOT NULL, url TEXT NOT NULL, body BLOB NOT NULL, attempts INTEGER NOT NULL,
    due REAL, error TEXT
);
CREATE INDEX deliveries_of_alarms ON deliveries (alarm);
CREATE INDEX deliveries_that_wait ON deliveries (alarm) WHERE due IS NOT NULL;
CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, began REAL NOT NULL);
CREATE TABLE access (closed INTEGER NOT NULL);
INSERT INTO access VALUES (0)
"""
TABLES = frozenset(re.findall(r"CREATE TABLE (\w+)", SCHEMA))
HAD_TOKENS = """
EXISTS (SELECT 1 FROM tokens) OR EXISTS (SELECT 1 FROM queries WHERE owner <> 'local')
    OR EXISTS (SELECT 1 FROM alarms WHERE owner <> 'local')
"""
"""Condition on a registry without the table `access`: a revoked token left no row, but what it owned is still there."""
IS_CLOSED = "SELECT COALESCE((SELECT MAX(closed) FROM access), 1)"
UPGRADES = {  # statements that make the next version of each
    1: "ALTER TABLE queries ADD COLUMN idle REAL",
    2: f"CREATE TABLE access (closed INTEGER NOT NULL); INSERT INTO access SELECT {HAD_TOKENS}",
}
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def make(path: str) -> None:
    """Make a registry where there is none. It gets its name when it is whole, so an empty file is never a new one."""
    folder, spare = os.path.dirname(path), f"{path}.new"
    if os.path.exists(path):
        return
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            return
        for stale in (spare, f"{spare}-journal", f"{path}-wal", f"{path}-shm"):  # SQLite would replay an old log
            with suppress(FileNotFoundError):
                os.remove(stale)
        os.close(private(spare, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        with closing(sqlite3.connect(spare)) as new:
            new.executescript(f"BEGIN; {SCHEMA}; PRAGMA user_version = {VERSION}; COMMIT")
        os.rename(spare, path)
        os.fsync(lock)
    finally:
        os.close(lock)


def check_size(path: str) -> None:
    """Raise if the file is empty. To be called before SQLite opens it, which takes an empty file for a new database."""
    if os.path.getsize(path) == 0:
        raise damaged(path, "the file is empty")


def read_access(path: str) -> tuple[bool, int]:
    """Return whether requests need a token, and how many valid ones there are; the registry is not changed."""
    try:
        check_size(path)
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=3)) as database:
            closed = IS_CLOSED if version_of(database, path) == VERSION else f"SELECT {HAD_TOKENS}"
            valid = "SELECT COUNT(*) FROM tokens WHERE expires IS NULL OR expires > ?"
            marked = os.path.exists(os.path.join(os.path.dirname(path), CLOSED))
            return (
                marked or bool(database.execute(closed).fetchone()[0]),
                int(database.execute(valid, (time.time(),)).fetchone()[0]),
            )
    except (OSError, sqlite3.Error) as error:
        raise named(error, path, "read") from error


def private(path: str, flags: int) -> int:
    """Open a file that only its owner can read."""
    return os.open(path, flags, 0o600)


def version_of(database: sqlite3.Connection, path: str) -> int:
    """Return the version of a registry; raise if the database is of a newer version, or is no registry."""
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StorageError(f"the registry {path} was made by a newer Quantide; use that, or move it away")
    needed = TABLES if version == VERSION else TABLES - {"access"}
    missing = needed - {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version < 1 or missing:
        tables = f"it has no table {min(missing)}" if missing else f"its version is {version}"
        raise damaged(path, f"this SQLite database is no registry, {tables}")
    return version


def named(error: OSError | sqlite3.Error, path: str, done: str) -> QuantideError:
    """Return the error to raise for one of SQLite or of the disk."""
    if isinstance(error, QuantideError):
        return error
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE:
        return damaged(path, str(error))
    return StorageError(f"the registry {path} cannot be {done}: {error}")


def damaged(path: str, reason: str) -> CorruptBytesError:
    return CorruptBytesError(
        f"the registry {path} is damaged: {reason}. It holds tokens, standing queries and alarms: restore it, and "
        f"{NAME}-wal if there is one, from a copy; or move both away to start without them. A server that needed "
        "tokens still needs them then, and `quantide token create` makes one"
    )
