"""Maintenance of the log: checkpoints, and the removal of old versions, in a thread of its own.

A checkpoint costs as much as the table has files, so it is no part of a commit. The next checkpoint replaces one that
failed. Entries are removed only after a loadable checkpoint contains them.
"""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Lock

from quantide.store.checkpoint_file import log_files, make_checkpoint
from quantide.store.delta_library import DeltaError
from quantide.store.delta_log import MIN_AGE_SECONDS, DeltaLog, survey_log

LOG = logging.getLogger("quantide.store")
CHECKPOINT_INTERVAL = 10  # commits, in a small table
MAX_INTERVAL = 100  # commits, in a large one: a new reader reads all entries after a checkpoint
FILES_PER_COMMIT = 1000  # active files for each commit more between checkpoints
KEPT_VERSIONS = 200
TRIM_INTERVAL = 100  # commits
STORAGE_ERRORS = (OSError, DeltaError)


def checkpoint_interval(files: int) -> int:
    """Return the number of commits between two checkpoints of a table with so many files."""
    return min(MAX_INTERVAL, max(CHECKPOINT_INTERVAL, files // FILES_PER_COMMIT))


class LogMaintenance:
    """Checkpoints and trims of the log of one writer."""

    def __init__(self, log: DeltaLog, version: int, now: Callable[[], float]) -> None:
        self._log, self._now = log, now
        self._checkpoint = self._trimmed = version  # versions of the last checkpoint and of the last trim
        self._pool: ThreadPoolExecutor | None = None
        self._task: Future[None] | None = None
        self._lock = Lock()
        self._failures: dict[str, tuple[type[Exception], int | None]] = {}  # newest error of each task that fails

    def committed(self, version: int, files: int) -> None:
        """Begin a checkpoint if one is due and none is being made."""
        interval = checkpoint_interval(files)
        with self._lock:
            is_due = (version + 1) // interval > (self._checkpoint + 1) // interval
            if not is_due or (self._task is not None and not self._task.done()):
                return
            self._checkpoint = version
            self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="quantide-log")
            self._task = self._pool.submit(self._maintain, version)

    def write_checkpoint(self, version: int) -> None:
        """Write the checkpoint of a version now; if that fails, log it: the next one replaces it."""
        with self._log_failures("write a checkpoint", version):
            survey = survey_log(self._log.storage, with_hint=False)
            if survey.version is not None and survey.version >= version and survey.base != version:
                base = None if survey.base is None else (survey.base, survey.checkpoint)
                if survey.base is not None and survey.base > version:
                    return
                entries = {v: data for v, data in survey.entries.items() if v <= version}
                self._log.write_checkpoint(version, *make_checkpoint(version, log_files(base, entries)))

    def wait(self) -> None:
        """Wait until nothing is being done."""
        task = self._task
        if task is not None:
            wait([task])

    def close(self) -> None:
        """Wait until nothing is being done, and end the thread."""
        with self._lock:
            pool, self._pool, self._task = self._pool, None, None
        if pool is not None:
            pool.shutdown()

    def _maintain(self, version: int) -> None:
        with self._log_failures("maintain the log", version, (Exception,)):  # nobody reads the result of the task
            self.write_checkpoint(version)
            if version - self._trimmed >= TRIM_INTERVAL:
                self._trimmed = version
                with self._log_failures("remove old entries", version):
                    self._log.trim(version - KEPT_VERSIONS, MIN_AGE_SECONDS, self._now())

    @contextmanager
    def _log_failures(
        self, task: str, version: int, errors: tuple[type[Exception], ...] = STORAGE_ERRORS
    ) -> Iterator[None]:
        """Log errors of a task instead of raising them, each when it begins or changes.

        Unexpected errors, neither of storage nor of Delta's library, are logged with their traceback.
        """
        try:
            yield
        except errors as error:
            kind = type(error), getattr(error, "errno", None)  # not the text, which may name the version
            if self._failures.get(task) != kind:
                message = f"{self._log.storage.path}: failed to {task} at version {version}, and tries again: {error}"
                LOG.warning(message, exc_info=None if isinstance(error, STORAGE_ERRORS) else error)
            self._failures[task] = kind
        else:
            self._failures.pop(task, None)
