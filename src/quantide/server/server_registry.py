"""Server registry: tokens, continuous queries and alarms, in one SQLite file that only its owner can read."""

import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from threading import RLock
from typing import Any
from urllib.parse import quote

from quantide.errors import CorruptBytesError, QuantideError, StorageError
from quantide.store.folder_storage import FolderStorage

NAME = "registry.db"
CLOSED = "tokens-required"
"""File beside the registry of a server that needs tokens. It stays when the registry is lost, or restored from an older
copy."""
VERSION = 5
SINCE_ACCESS = 3  # the first version with the table `access`
ALARMS = """
CREATE TABLE alarms (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, stream TEXT NOT NULL, key TEXT NOT NULL, window TEXT NOT NULL,
    filter TEXT, phi REAL, eps REAL, above INTEGER NOT NULL, threshold TEXT NOT NULL, clear TEXT NOT NULL,
    hold REAL NOT NULL, webhook TEXT, owner TEXT NOT NULL, created REAL NOT NULL,
    state TEXT NOT NULL, firing INTEGER NOT NULL, since REAL NOT NULL,
    measure TEXT NOT NULL DEFAULT 'quantile', against TEXT NOT NULL DEFAULT 'null'
)"""
SCHEMA = f"""
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL UNIQUE,
    created REAL NOT NULL, expires REAL, streams TEXT
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
{ALARMS};
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
"""Condition on a registry without the table `access`: a revoked token leaves no row, but its queries and alarms."""
FORMER_ALARMS = """id, name, stream, key, window, filter, phi, eps, above, threshold, clear, hold, webhook, owner,
created, state, firing, since"""
"""Columns of alarms before they could measure anything but a quantile, which each of them had."""
REBUILD_ALARMS = f"""
ALTER TABLE alarms RENAME TO former_alarms;
{ALARMS};
INSERT INTO alarms ({FORMER_ALARMS}) SELECT {FORMER_ALARMS} FROM former_alarms;
DELETE FROM sqlite_sequence WHERE name = 'alarms';
UPDATE sqlite_sequence SET name = 'alarms' WHERE name = 'former_alarms';
DROP TABLE former_alarms
"""
"""SQLite cannot remove NOT NULL from a column. The sequence is retained: ids of dropped alarms are not used again."""
IS_CLOSED = "SELECT COALESCE((SELECT MAX(closed) FROM access), 1)"
UPGRADES = {  # statements that upgrade each version to the next
    1: "ALTER TABLE queries ADD COLUMN idle REAL",
    2: f"CREATE TABLE access (closed INTEGER NOT NULL); INSERT INTO access SELECT {HAD_TOKENS}",
    3: "ALTER TABLE tokens ADD COLUMN streams TEXT",
    4: REBUILD_ALARMS,
}
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class ServerRegistry:
    """SQLite tables in a folder of the server's own. Safe to use from several threads and processes.

    A transaction() is on disk when it returns; when it raises, nothing is written.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, NAME)
        self._closed_file = os.path.join(folder, CLOSED)
        self._lock = RLock()
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            create_registry(self.path)
            check_size(self.path)
            os.chmod(self.path, 0o600)  # it may be older than this rule; SQLite gives the files beside it the same mode
            self._database = sqlite3.connect(self.path, timeout=3, isolation_level=None, check_same_thread=False)
            self._database.row_factory = sqlite3.Row
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise registry_error(error, self.path, "opened") from error

    def _prepare(self) -> None:
        try:
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._set(setting)
            self._upgrade()
        except BaseException:
            self._database.close()
            raise

    def _set(self, setting: str) -> None:
        """Set a pragma. SQLite does not wait by itself for others that open the file, or close it as the last one."""
        for wait in (0.01, 0.03, 0.1, 0.3, 1.0):
            try:
                self._database.execute(f"PRAGMA {setting}")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                time.sleep(wait)
        self._database.execute(f"PRAGMA {setting}")

    def _upgrade(self) -> None:
        """Check the tables, upgrade them to this version, and keep the server closed if it ever was."""
        with self.transaction() as write:
            version = read_version(write, self.path)
            for older in range(version, VERSION):
                for statement in UPGRADES[older].split(";"):
                    write.execute(statement)
            if version != VERSION:
                write.execute(f"PRAGMA user_version = {VERSION}")
            if os.path.exists(self._closed_file) or write.execute(IS_CLOSED).fetchone()[0]:
                self.set_closed(write, True)

    def set_closed(self, write: sqlite3.Connection, closed: bool) -> None:
        """Set, within a transaction, whether requests need a token: in the database and in the file beside it."""
        if closed and not os.path.exists(self._closed_file):
            with open(self._closed_file, "x", opener=open_private, encoding="utf-8") as file:
                file.write("This server answers requests with a token only. `quantide token open` changes that.\n")
            FolderStorage(os.path.dirname(self._closed_file), durable=True).sync(CLOSED, "")
        write.execute("UPDATE access SET closed = ?", (closed,))
        if not closed:
            with suppress(FileNotFoundError):
                os.remove(self._closed_file)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query. `values` replace its question marks: nothing else is put into SQL."""
        with self._lock, self._translate_errors():
            return self._database.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write rows atomically."""
        with self._lock, self._translate_errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                if self._database.in_transaction:  # SQLite has rolled it back if the database is damaged
                    self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def write(self, sql: str, values: Iterable[Any] = ()) -> int:
        """Execute one statement; return the number of rows it changed."""
        with self.transaction() as write:
            return write.execute(sql, tuple(values)).rowcount

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise registry_error(error, self.path, "used") from error


def create_registry(path: str) -> None:
    """Create a registry if there is none. It is renamed when complete, so an empty file is never a new registry."""
    folder, temporary = os.path.dirname(path), f"{path}.new"
    if os.path.exists(path):
        return
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            return
        for stale in (temporary, f"{temporary}-journal", f"{path}-wal", f"{path}-shm"):  # SQLite would replay a log
            with suppress(FileNotFoundError):
                os.remove(stale)
        os.close(open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        with closing(sqlite3.connect(temporary)) as database:
            database.executescript(f"BEGIN; {SCHEMA}; PRAGMA user_version = {VERSION}; COMMIT")
            database.execute("PRAGMA journal_mode = WAL")  # those who open it at once would have to agree on it
        os.rename(temporary, path)
        os.fsync(lock)
    finally:
        os.close(lock)


def check_size(path: str) -> None:
    """Raise if the file is empty. Call it before SQLite opens the file: SQLite takes it for a new database."""
    if os.path.getsize(path) == 0:
        raise damage_error(path, "the file is empty")


def read_access(path: str) -> tuple[bool, int]:
    """Return True if requests need a token, and the number of valid tokens; do not change the registry."""
    try:
        check_size(path)
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=3)) as database:
            closed = IS_CLOSED if read_version(database, path) >= SINCE_ACCESS else f"SELECT {HAD_TOKENS}"
            valid = "SELECT COUNT(*) FROM tokens WHERE expires IS NULL OR expires > ?"
            marked = os.path.exists(os.path.join(os.path.dirname(path), CLOSED))
            return (
                marked or bool(database.execute(closed).fetchone()[0]),
                int(database.execute(valid, (time.time(),)).fetchone()[0]),
            )
    except (OSError, sqlite3.Error) as error:
        raise registry_error(error, path, "read") from error


def open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read."""
    return os.open(path, flags, 0o600)


def read_version(database: sqlite3.Connection, path: str) -> int:
    """Return the version of a registry; raise if the database is of a newer version, or is no registry."""
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StorageError(f"the registry {path} was made by a newer Quantide; use that, or move it away")
    needed = TABLES if version >= SINCE_ACCESS else TABLES - {"access"}
    missing = needed - {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version < 1 or missing:
        reason = f"it has no table {min(missing)}" if missing else f"its version is {version}"
        raise damage_error(path, f"this SQLite database is no registry, {reason}")
    return version


def registry_error(error: OSError | sqlite3.Error, path: str, action: str) -> QuantideError:
    """Return the error to raise instead of one of SQLite or of the file system."""
    if isinstance(error, QuantideError):
        return error
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE:
        return damage_error(path, str(error))
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    fix = (
        f"; the server keeps its tokens, queries and alarms in {os.path.dirname(path)}: check store, and state under "
        "[server], and let this user write there"
    )
    return StorageError(f"the registry {path} cannot be {action}: {reason}" + (fix if action == "opened" else ""))


def damage_error(path: str, reason: str) -> CorruptBytesError:
    return CorruptBytesError(
        f"the registry {path} is damaged: {reason}. It contains tokens, continuous queries and alarms: restore it, and "
        f"{NAME}-wal if there is one, from a copy; or move both away to start without them. A server that needed "
        "tokens still needs them then, and `quantide token create` makes one"
    )
