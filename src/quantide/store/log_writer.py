"""Writer of the log: entries under free names, and checkpoints, in an order that is safe against power loss.

Files that an entry names are synced before it is written; its content is synced before its name appears, and the name
before the commit is acknowledged; a checkpoint is synced before the file that names it.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from quantide.errors import CommitUncertainError, StorageError, WriterConflictError
from quantide.store import fault_points
from quantide.store.delta_library import DeltaError, DeltaTable
from quantide.store.delta_log import DeltaLog, LinkedLog, survey_log
from quantide.store.durable_files import remove, sync
from quantide.store.log_entry import COMMIT, Action, encode_entry

CHECKPOINT_INTERVAL = 10  # commits


class LogWriter:
    """Writer of the log of a store."""

    def __init__(self, path: str, log: DeltaLog) -> None:
        self._path, self._log = path, log
        self.durable = False  # True if commits must survive a power loss

    def write_entry(
        self, version: int, operation: str, fields: Mapping[str, str], actions: Sequence[Action], batch: Any
    ) -> None:
        """Write the entry of a version. If that fails, check the log: the commit may have happened.

        The name of an entry is free for one writer only, unless the log was trimmed past it: then the entry before it
        is missing, too.
        """
        token = uuid4().hex
        identity = f"{COMMIT}:{version}:{token}" if batch is None else batch
        entry = encode_entry(operation, {COMMIT: token, **fields}, actions)
        try:
            fault_points.point("commit.before")
            self._log.add_entry(version, entry, self.durable)
            fault_points.point("commit.after")
        except OSError as error:
            self._check_committed(version, token, identity, error)
        try:
            if not self._log.has_version(version - 1):
                remove(self._log.entry_path(version))
                raise self.fenced_error()
            self.sync()
        except OSError as error:
            raise self._uncertain_error(identity, error) from error

    def sync(self) -> None:
        """Sync the folder of the log, if durable."""
        if self.durable:
            sync(self._log.folder)

    def write_checkpoint(self, version: int, table: DeltaTable) -> None:
        """Write a checkpoint; if that fails, the next one replaces it.

        Delta's library does not sync between the checkpoint and the file that names it. If durable, it writes both to
        a linked log, from which they are copied.
        """
        with suppress(OSError, DeltaError):
            if not self.durable:
                return table.create_checkpoint()
            with closing(self.link(version)) as links:
                links.open().table.create_checkpoint()
                content = [_read_file(path) for path in (links.log.checkpoint_path(version), links.log.hint_path)]
            self._log.write_checkpoint(version, *content)

    def link(self, version: int) -> LinkedLog:
        """Create a linked log up to a version, within the store."""
        survey = replace(survey_log(self._log.folder), version=version)
        return LinkedLog(self._log, survey, os.path.join(self._path, "_quantide"))

    def fenced_error(self) -> WriterConflictError:
        return WriterConflictError(
            f"{self._path} was taken over by another writer; this one may not write any more. Open the store again"
        )

    def _check_committed(self, version: int, token: str, identity: Any, error: OSError) -> None:
        """Return if a commit that failed is in the log; otherwise raise the error that describes its state."""
        try:
            if not self._log.has_version(version - 1):
                raise self.fenced_error() from error
            if not self._log.has_version(version):
                raise StorageError(f"{self._path}: the commit failed, nothing was changed: {error}") from error
            if self._log.read_token(version) != token:
                raise self.fenced_error() from error
        except StorageError:
            raise
        except OSError as unknown:
            raise self._uncertain_error(identity, unknown) from error

    def _uncertain_error(self, identity: Any, error: OSError) -> CommitUncertainError:
        reason = f"{self._path}: its log cannot be reached: {error}"
        uncertain = CommitUncertainError(
            f"{reason}. The table may have this commit. Repeat the call on this handle, or with batch_id={identity!r}: "
            "rows that the table has are not added twice"
        )
        uncertain.batch_id, uncertain.reason = identity, reason
        return uncertain


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
