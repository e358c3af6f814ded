"""Linked logs: a log of links to the files of another, where Delta's library can work without touching that one.

It serves where the library would do what we do otherwise: it picks damaged checkpoints, and syncs nothing it writes.
"""

import os
import shutil
import tempfile
import weakref

from quantide.store.delta import DeltaTable
from quantide.store.log import Log
from quantide.store.survey import LogSurvey

PREFIX = "log-"  # of the folders; vacuum removes those that a kill left


class LinkedLog:
    """A temporary folder with links to the readable files of a log, up to one version. It goes with this object."""

    def __init__(self, log: Log, survey: LogSurvey, parent: str | None = None) -> None:
        assert survey.version is not None
        self.path, self.version = tempfile.mkdtemp(prefix=PREFIX, dir=parent), survey.version
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        self.log = Log(self.path)
        os.mkdir(self.log.folder)
        first = 0 if survey.base is None else survey.base + 1
        if survey.base is not None:
            os.symlink(log.checkpoint(survey.base), self.log.checkpoint(survey.base))
        for version in range(first, survey.version + 1):
            os.symlink(log.entry(version), self.log.entry(version))

    def open(self) -> DeltaTable:
        return DeltaTable(self.path)

    def close(self) -> None:
        self._remove()
