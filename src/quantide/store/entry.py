"""Entries of the log: the JSON lines of a commit, in Delta's format, with a checksum that tells a torn one.

The first line is Delta's `commitInfo`, where every writer may keep fields of its own. Ours are `quantide.commit`, the
token of the commit, `quantide.manifest`, a copy of the manifest that the commit wrote, and at its end `quantide.crc`,
the CRC-32 of everything else. Entries of older versions, and of other programs, have no checksum.
"""

import json
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from quantide.store.fields import integer, parse_json
from quantide.store.transactions import WRITER

COMMIT, MANIFEST = "quantide.commit", "quantide.manifest"
_CRC = re.compile(rb'(.*),"quantide\.crc":(\d{1,10})\}\}', re.DOTALL)

Action = dict[str, Any]  # of Delta: {"add": {...}} and its like


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
    """Return True if an entry is as it was written; one without a checksum must have all lines that it needs."""
    head, _, body = data.partition(b"\n")
    found = _CRC.fullmatch(head)
    if found is not None:
        return zlib.crc32(found[1] + (b"\n" + body if body else b"")) == int(found[2])
    entry = LogEntry.read(data)
    if entry.damaged or not entry.actions:
        return False
    if version == 0:
        return {"protocol", "metaData"} <= {name for action in entry.actions for name in action}
    return entry.token is None or WRITER in entry.transactions


@dataclass(frozen=True)
class LogEntry:
    """The actions of an entry, as many as can be read; `damaged` when some cannot."""

    actions: tuple[Action, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)
    damaged: bool = False

    @classmethod
    def read(cls, data: bytes) -> "LogEntry":
        """Read all lines that are whole."""
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
        """The actions without `commitInfo`."""
        return [action for action in self.actions if "commitInfo" not in action]

    @property
    def token(self) -> str | None:
        found = self.info.get(COMMIT)
        return found if isinstance(found, str) else None

    @property
    def manifest(self) -> str | None:
        """The copy of the manifest, where the entry has one."""
        found = self.info.get(MANIFEST)
        return found if isinstance(found, str) else None

    @cached_property
    def transactions(self) -> dict[str, Any]:
        """The version of each transaction, by its name."""
        held = [action["txn"] for action in self.actions if "txn" in action]
        return {str(txn["appId"]): txn.get("version") for txn in held if "appId" in txn}

    @property
    def added(self) -> list[str]:
        """The paths of files that the commit added."""
        return [str(action["add"]["path"]) for action in self.actions if "path" in action.get("add", ())]

    @property
    def rows_added(self) -> int:
        """Rows that were new: a merge adds none."""
        new = [action["add"] for action in self.actions if action.get("add", {}).get("dataChange") is True]
        return sum(_rows(add.get("stats")) for add in new)


def _rows(stats: Any) -> int:
    try:
        return integer()(parse_json(stats)["numRecords"])
    except (ValueError, TypeError, KeyError):
        return 0
