"""What was asked about last: views, and what they are made of, within a number of bytes."""

from collections import OrderedDict
from threading import RLock
from typing import Any

from quantide.history.blocks import Blocks
from quantide.history.keys import read_key
from quantide.history.known import KnownRuns
from quantide.history.run import Key, Run
from quantide.history.snapshot import Snapshot
from quantide.history.stream import OpenStep
from quantide.history.view import View
from quantide.store.place import Place
from quantide.store.settings import Settings
from quantide.summary.ranks import check_size
from quantide.summary.types import type_named

VIEWS = 64  # spans and keys that are kept as they were last asked about


class Views:
    """Views of snapshots. Safe to use from several threads."""

    def __init__(self, settings: Settings, place: Place, memory: int | None) -> None:
        self._settings, self._kind = settings, type_named(settings.value_type)
        third = None if memory is None else memory // 3
        self.blocks = Blocks(self._kind, place, third)
        self.open_step = OpenStep(settings.eps, settings.value_type, third)
        self._runs = KnownRuns(third)
        self._views: OrderedDict[Any, View] = OrderedDict()
        self._lock = RLock()

    @property
    def nbytes(self) -> int:
        return self.blocks.nbytes + self.open_step.nbytes + self._runs.nbytes

    def last(self, snapshot: Snapshot, last_steps: int | None, key: Any, widen: bool) -> View:
        """The last steps and the open one; everything for None."""
        steps = None if last_steps is None else check_size("last_steps", last_steps, 0)
        wanted = self._key(key, snapshot)
        runs, covered = snapshot.last(steps, widen)
        if self._settings.retention is not None and runs:  # of what was dropped nothing is said
            covered = min(covered, snapshot.step - runs[0].id.first)
        widened = steps is not None and covered > steps
        name = (snapshot.version, covered, widened, wanted)
        return self._kept(name, runs, snapshot.chunks, wanted, covered, widened)

    def between(self, snapshot: Snapshot, first: int, last: int, key: Any) -> View:
        """Steps that ended, without the open one."""
        first, last = check_size("the first step", first, 1), check_size("the last step", last, 1)
        wanted = self._key(key, snapshot)
        runs = snapshot.between(first, last)
        return self._kept((snapshot.version, first, last, wanted), runs, (), wanted, last - first + 1, False)

    def forget(self) -> None:
        """Let go of files, and of views, which may need files that are gone."""
        with self._lock:
            self.blocks.forget()
            self._views.clear()

    def _key(self, key: Any, snapshot: Snapshot) -> Key | None:
        return None if key is None else read_key(key, self._settings.keys, snapshot.key_types)

    def _kept(
        self, name: Any, runs: tuple[Run, ...], chunks: tuple[Run, ...], key: Key | None, covered: int, widened: bool
    ) -> View:
        with self._lock:
            view = self._views.get(name)
            if view is None:
                stream = self.open_step.summary(chunks, key) if chunks else self.open_step.nothing()
                keyed = bool(self._settings.keys)
                known = (self.blocks, self._runs, self._settings.run_eps)
                view = View(self._kind, *known, runs, chunks, stream, keyed, key, covered, widened)
                self._views[name] = view
                while len(self._views) > VIEWS:
                    self._views.popitem(last=False)
            self._views.move_to_end(name)
            return view
