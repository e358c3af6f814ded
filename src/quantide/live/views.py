"""Views by the words that they were asked with, kept for the versions that questions are answered from."""

import time
from collections.abc import Hashable
from contextlib import suppress
from fractions import Fraction
from typing import Any

from quantide.errors import QuantideError
from quantide.history.reader import HistoryReader
from quantide.history.snapshot import Snapshot
from quantide.live.asked import Asked
from quantide.live.kept import Kept
from quantide.live.recent import Recent
from quantide.live.view import HistoryView, View, WindowView
from quantide.live.window import window_of
from quantide.summary.summary import Summary
from quantide.summary.types import type_named

VIEWS = "views"  # with a version, the group of what is kept for that
HOT, AHEAD = 256, 0.25  # questions that are looked at before a new version is answered from, and seconds for that


class Views:
    """Safe to use from several threads. Questions about recent values are about the version of `recent`; the others
    about that of the reader, which may be ahead, or of a snapshot."""

    def __init__(self, reader: HistoryReader, kept: Kept, reach: Fraction | None) -> None:
        self._reader, self._kept, self._reach = reader, kept, reach
        self._kind = type_named(reader.settings.value_type)
        self._hot: dict[Hashable, Asked] = {}  # what was asked about since the last commit
        self._versions: set[int] = set()  # that views are kept for

    def of(self, asked: Asked, recent: Recent, snapshot: Snapshot | None = None) -> View:
        """The view for these words; it is kept when they can be told from others."""
        if asked.words is None:
            return self._look(asked, recent, snapshot)
        version = self._version(asked, recent, snapshot)
        self._versions.add(version)
        return self._kept.get(
            (VIEWS, version), asked.words, lambda: self._look(asked, recent, snapshot), lambda view: view.nbytes
        )

    def kept(self, asked: Asked, recent: Recent) -> View | None:
        """The view for these words, if there is one already."""
        found: View | None = self._kept.peek((VIEWS, self._version(asked, recent, None)), asked.words)
        return found

    def expect(self, asked: Asked) -> None:
        """It will be asked again after the next commit."""
        if len(self._hot) < HOT and asked.words is not None:
            self._hot[asked.words] = asked

    def prepare(self, snapshot: Snapshot, recent: Recent, before: Recent) -> None:
        """Look at what was asked about since the last commit, as of a version that nobody is answered from yet: else
        the first who ask after a commit would all wait for it."""
        ended = time.monotonic() + AHEAD
        for asked in list(self._hot.values()):
            old = self._kept.peek((VIEWS, before.version), asked.words)
            if old is not None and time.monotonic() < ended:
                with suppress(QuantideError, OSError):  # whoever asks is told
                    self.of(asked, recent, snapshot).prepare(old)

    def go_on(self, recent: Recent) -> None:
        """Let go of what was kept for older versions, and expect nothing."""
        self._hot, now = {}, {recent.version, self._reader.version}
        self._kept.forget([(VIEWS, version) for version in self._versions - now])
        self._versions &= now

    def _version(self, asked: Asked, recent: Recent, snapshot: Snapshot | None) -> int:
        if asked.recent:
            return recent.version
        return self._reader.version if snapshot is None else snapshot.version

    def _look(self, asked: Asked, recent: Recent, snapshot: Snapshot | None) -> View:
        if asked.recent:
            return self._window(asked, recent)
        if snapshot is not None:
            return HistoryView(snapshot.version, self._reader.view(asked.last_steps, asked.key, snapshot=snapshot))
        while True:
            version, stored = self._reader.version, self._reader.view(asked.last_steps, asked.key)
            if self._reader.version == version:  # else a commit came in between
                return HistoryView(version, stored)

    def _window(self, asked: Asked, recent: Recent) -> WindowView:
        wanted, since, until = window_of(asked, recent, self._reader, self._reach)

        def every_row() -> Summary:
            return recent.summary(wanted, self._kind, True)

        def all_rows() -> Summary:
            if asked.words is None:
                return every_row()
            name: Any = (asked.words, "exact")
            return self._kept.get((VIEWS, recent.version), name, every_row, lambda found: found.nbytes)

        return WindowView(recent.version, recent.summary(wanted, self._kind, False), all_rows, asked.key, since, until)
