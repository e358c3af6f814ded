"""Entries of the log: the JSON lines of a commit in Delta's format, with a checksum that detects a torn entry.

The first line is Delta's `commitInfo`, which may contain fields of the writer. Quantide adds `quantide.commit`, the
token of the commit; `quantide.parent`, the token of the commit before it; `quantide.manifest`, a copy of the manifest
that the commit wrote; and, as the last field, `quantide.crc`, the CRC-32 of everything else.
Entries of older versions and of other programs have no checksum.

Transactions are what Delta's log stores beside files: names with a number each, of which the last one counts.
"""

import json
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, InvalidArgumentError
from quantide.store.file_names import AddedFile, FileName
from quantide.store.json_fields import integer, parse_json

WRITER = "quantide.writer"  # epoch of the writer
STEP = "quantide.step"  # last step that ended
RECENT_FILES = "quantide.recent"  # number of the manifest of recent files
DELETES = "quantide.deletes"  # number of commits that deleted rows
DELETED_BEFORE = "quantide.deleted_before"  # first step that was not deleted
UNLISTED = "quantide.unlisted"  # number of rows that left the windows, but not the table
EXTENDED_FROM, EXTENDED_UNTIL = "quantide.held_from", "quantide.held_until"  # steps with extended retention
MAX_NUMBERS = {WRITER: 2**31 - 2, STEP: 10**15}  # an epoch is the upper half of a manifest's number; both are in names
MAX_NUMBER = 2**63 - 1
BATCH, SOURCE = "quantide.batch:", "quantide.source:"
COMMIT, PARENT, MANIFEST = "quantide.commit", "quantide.parent", "quantide.manifest"
_CRC = re.compile(rb'(.*),"quantide\.crc":(\d{1,10})\}\}', re.DOTALL)

Action = dict[str, Any]  # of Delta, such as {"add": {...}}


def check_number(app: str, number: Any) -> int | None:
    """Refuse a transaction number that Quantide cannot have written: names of files are built from it."""
    limit = MAX_NUMBERS.get(app, MAX_NUMBER)
    if number is not None and not (isinstance(number, int) and 0 <= number <= limit):
        raise CorruptBytesError(f"the log has the transaction {app!r} at {number}, which is not from 0 to {limit}")
    return number


def batch_transaction(batch: Any) -> tuple[str, int]:
    """Return the transaction of a batch: of its own id, or of the source that numbers its batches."""
    if isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[0], str) and _is_number(batch[1]):
        if not 0 <= batch[1] < 2**63:
            raise InvalidArgumentError(f"the number of a batch counts from 0 to 2**63 - 1, and is not {batch[1]}")
        return f"{SOURCE}{batch[0]}", int(batch[1])
    if isinstance(batch, str) or _is_number(batch):
        return f"{BATCH}{'str' if isinstance(batch, str) else 'int'}:{batch}", 1
    raise InvalidArgumentError(f"batch_id is text, a number, or (source, number), not {batch!r}")


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def encode_entry(operation: str, fields: Mapping[str, Any], actions: Sequence[Action]) -> bytes:
    """Return the bytes of an entry.

    >>> data = encode_entry("WRITE", {"quantide.commit": "x"}, [{"txn": {"appId": "quantide.writer", "version": 1}}])
    >>> is_whole(data, 1), is_whole(data[:-1], 1), is_whole(data.split(b"\\n")[0], 1), is_whole(bytes(len(data)), 1)
    (True, False, False, False)
    """
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": operation,
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "engineInfo": "quantide",
        **fields,
    }
    head, *rest = (json.dumps(line, separators=(",", ":")).encode() for line in ({"commitInfo": info}, *actions))
    open_head, body = head[:-2], b"\n".join((b"", *rest))
    return b'%b,"quantide.crc":%d}}%b' % (open_head, zlib.crc32(open_head + body), body)


def is_whole(data: bytes, version: int) -> bool:
    """Return True if an entry is as it was written; without a checksum, if it has all lines that it needs."""
    head, _, body = data.partition(b"\n")
    match = _CRC.fullmatch(head)
    if match is not None:
        return zlib.crc32(match[1] + (b"\n" + body if body else b"")) == int(match[2])
    entry = LogEntry.read(data)
    if entry.damaged or not entry.actions:
        return False
    if version == 0:
        return {"protocol", "metaData"} <= {name for action in entry.actions for name in action}
    return entry.token is None or WRITER in entry.transactions


@dataclass(frozen=True)
class LogEntry:
    """Readable actions of an entry; `damaged` if some cannot be read."""

    actions: tuple[Action, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)
    damaged: bool = False

    @classmethod
    def read(cls, data: bytes) -> "LogEntry":
        """Parse all valid lines."""
        actions, info, damaged = [], {}, False
        for line in data.split(b"\n"):
            try:
                action = json.loads(line) if line.strip() else {}
                if not all(isinstance(body, dict) for body in action.values()):
                    raise ValueError(line)
            except (ValueError, AttributeError, RecursionError):  # UnicodeDecodeError is a ValueError
                damaged = True
                continue
            if "commitInfo" in action:
                info = action["commitInfo"]
            if action:
                actions.append(action)
        return cls(tuple(actions), info, damaged)

    @property
    def changes(self) -> list[Action]:
        """Actions without `commitInfo`."""
        return [action for action in self.actions if "commitInfo" not in action]

    @property
    def token(self) -> str | None:
        return self._text(COMMIT)

    @property
    def manifest(self) -> str | None:
        """Copy of the manifest, if the entry has one."""
        return self._text(MANIFEST)

    def follows(self, token: str | None) -> bool:
        """Return False if the entry was written after another commit than the one with this token."""
        parent = self._text(PARENT)
        return parent is None or token is None or parent == token

    def _text(self, field: str) -> str | None:
        text = self.info.get(field)
        return text if isinstance(text, str) else None

    @cached_property
    def transactions(self) -> dict[str, Any]:
        """Number of each transaction, by its name."""
        transactions = [action["txn"] for action in self.actions if "txn" in action]
        return {str(txn["appId"]): txn.get("version") for txn in transactions if "appId" in txn}

    @property
    def added_paths(self) -> list[str]:
        """Paths of the files that the commit added."""
        return [str(action["add"]["path"]) for action in self.actions if "path" in action.get("add", ())]

    @property
    def rows_added(self) -> int:
        """Number of new rows: a merge or a deletion, which replaces files, adds none."""
        if any("remove" in action for action in self.actions):
            return 0
        adds = [action["add"] for action in self.actions if action.get("add", {}).get("dataChange") is True]
        return sum(read_rows(add.get("stats")) for add in adds)


def read_rows(stats: Any) -> int:
    """Return the number of rows in the statistics of a file; 0 if they have none."""
    try:
        return integer()(parse_json(stats)["numRecords"])
    except (ValueError, TypeError, KeyError):
        return 0


def file_actions(
    add: Sequence[AddedFile], remove: Sequence[FileName], at: float, deletes: bool = False
) -> list[Action]:
    """Return the actions of a commit at a time. A merge adds and removes files, but changes no data for readers.

    `deletes`: the commit adds files without some rows of those that it removes.
    """
    now, changes_data = int(at * 1000), deletes or not (add and remove)
    added = [
        {"path": name.data, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": changes_data}
        | {"stats": json.dumps({"numRecords": rows})}
        for name, size, rows in add
    ]
    removed = [
        {"path": name.data, "deletionTimestamp": now, "dataChange": changes_data, "partitionValues": {}}
        for name in remove
    ]
    return [*({"add": one} for one in added), *({"remove": one} for one in removed)]


def transaction_actions(numbers: Mapping[str, int]) -> list[Action]:
    """Return the action of each transaction."""
    return [{"txn": {"appId": app, "version": number}} for app, number in numbers.items()]
