"""The writer of the log: puts entries under names that are free, and checkpoints, in an order that outlasts power loss.

Files that an entry names are synced before it is put; its content is synced before its name appears, the name before
the commit is acknowledged; a checkpoint is synced before the file that names it.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from quantide.errors import CommitUncertainError, StorageError, WriterConflictError
from quantide.store import faults
from quantide.store.delta import DeltaError, DeltaTable
from quantide.store.disk import remove, sync
from quantide.store.entry import COMMIT, Action, encode_entry
from quantide.store.links import LinkedLog
from quantide.store.log import Log
from quantide.store.survey import survey_log

CHECKPOINT = 10  # commits from one checkpoint to the next


class LogWriter:
    """Writes to the log of a store."""

    def __init__(self, path: str, log: Log) -> None:
        self._path, self._log = path, log
        self.durable = False  # whether a commit must outlast a loss of power

    def put(
        self, version: int, operation: str, fields: Mapping[str, str], actions: Sequence[Action], batch: Any
    ) -> None:
        """Put the entry of a version. A commit that fails can still have happened: its entry in the log tells.

        An entry is free for one writer only, unless the log was trimmed past it: then what came before is gone too.
        """
        token = uuid4().hex
        identity = f"{COMMIT}:{version}:{token}" if batch is None else batch
        entry = encode_entry(operation, {COMMIT: token, **fields}, actions)
        try:
            faults.point("commit.before")
            self._log.put(version, entry, self.durable)
            faults.point("commit.after")
        except OSError as error:
            self._check(version, token, identity, error)
        try:
            if not self._log.has(version - 1):
                remove(self._log.entry(version))
                raise self.fenced()
            self.sync()
        except OSError as error:
            raise self._uncertain(identity, error) from error

    def sync(self) -> None:
        """Make the names of entries outlast a loss of power, where that matters."""
        if self.durable:
            sync(self._log.folder)

    def write_checkpoint(self, version: int, table: DeltaTable) -> None:
        """Write a checkpoint; where that fails, the next one makes up for it.

        Delta's library writes it, and the file that names it, without a sync between: where power loss matters, it
        does so in a log of links.
        """
        with suppress(OSError, DeltaError):
            if not self.durable:
                return table.create_checkpoint()
            with closing(self.link(version)) as links:
                links.open().create_checkpoint()
                content = [_read(path) for path in (links.log.checkpoint(version), links.log.hint)]
            self._log.write_checkpoint(version, *content)

    def link(self, version: int) -> LinkedLog:
        """Make a log of links up to a version, within the store."""
        survey = replace(survey_log(self._log.folder), version=version)
        return LinkedLog(self._log, survey, os.path.join(self._path, "_quantide"))

    def fenced(self) -> WriterConflictError:
        return WriterConflictError(
            f"{self._path} was taken over by another writer; this one may not write any more. Open the store again"
        )

    def _check(self, version: int, token: str, identity: Any, error: OSError) -> None:
        """Return where a commit that failed is in the log all the same; raise the error that fits otherwise."""
        try:
            if not self._log.has(version - 1):
                raise self.fenced() from error
            if not self._log.has(version):
                raise StorageError(f"{self._path}: the commit failed, nothing was changed: {error}") from error
            if self._log.token(version) != token:
                raise self.fenced() from error
        except StorageError:
            raise
        except OSError as unknown:
            raise self._uncertain(identity, unknown) from error

    def _uncertain(self, identity: Any, error: OSError) -> CommitUncertainError:
        reason = f"{self._path}: its log cannot be reached: {error}"
        found = CommitUncertainError(
            f"{reason}. The table may have this commit. Repeat the call on this handle, or with batch_id={identity!r}: "
            "what the table has is not added again"
        )
        found.batch_id, found.reason = identity, reason
        return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
