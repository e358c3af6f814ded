"""Rollover: a new checkpoint in the place of one that has grown with source files that are gone.

Spark's checkpoint of a file source has the name of every file that it ever saw, and writes all of them again every few
batches. When it has many more than lie in the folder, a new checkpoint begins. The ledger knows the files that are in
the store, so the first batch of the new checkpoint passes them by.
"""

import os
import shutil

from pyspark.sql import SparkSession

from quantide.config import StreamConfig
from quantide.spark.stream.checkpoint import checkpoint_folder, count_files, next_checkpoint
from quantide.spark.stream.source import MAX_BYTES, SPARK_ERRORS, list_source
from quantide.store.ledger import Ledger

MOST_FILES = 10_000  # names that a checkpoint may have besides twice as many as there are files


class Rollover:
    """Counts the files of a stream's checkpoint, and begins the next one when they are too many."""

    def __init__(self, stream: StreamConfig, ledger: Ledger, session: SparkSession, source: str) -> None:
        self._stream, self._ledger, self._session = stream, ledger, session
        self._use(source)

    def count(self, files: int) -> None:
        """Note that Spark saw so many more files."""
        self._files += files

    @property
    def is_due(self) -> bool:
        """Return True if the checkpoint has so many files that it is worth to list those that are there."""
        return self._stream.source.is_files and self._files > self._most

    def begin(self) -> str:
        """The checkpoint to go on with: a new one, or the same where most of its files are still there."""
        present = {file.path for file in list_source(self._session, self._stream)}
        most = MOST_FILES + 2 * len(present)
        if self._files <= most:
            self._most = max(most, self._files + self._files // 4)  # to list files costs something, too
            return self.source
        before, after = self.source, next_checkpoint(self.source)
        self._ledger.rebase(after, present)
        shutil.rmtree(checkpoint_folder(self._stream, before), ignore_errors=True)
        self._use(after)
        return after

    def postpone(self) -> None:
        """Try again when the checkpoint has grown some more."""
        self._most = self._files + MOST_FILES

    def passes_by(self) -> bool:
        """Return True if a new checkpoint sees little but files that are in the store: one batch may have them all."""
        offsets = os.path.join(checkpoint_folder(self._stream, self.source), "offsets")
        if self.source != self._ledger.checkpoint or not self._ledger.base_files or os.path.isdir(offsets):
            return False
        try:
            files = list_source(self._session, self._stream)
        except SPARK_ERRORS:  # then batches are as large as usual, and files are passed by more slowly
            return False
        new = sum(file.size for file in files if not self._ledger.known(file, self.source))
        return new <= (self._stream.source.max_bytes or MAX_BYTES)

    def _use(self, source: str) -> None:
        self.source = source
        self._files = count_files(checkpoint_folder(self._stream, source)) if self._stream.source.is_files else 0
        self._most = MOST_FILES + 2 * self._ledger.base_files
