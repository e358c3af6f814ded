"""Simulated power loss: record writes, renames and syncs of a process, and lay out every state the disk may be left in.

The model is as weak as POSIX allows. A file survives with its content at its last fsync; later writes are there,
missing, half there, or zeros. A name survives if its folder was synced after it was made; other changes of names (new,
renamed, linked, removed) happened or not, independently of each other.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pytest

from quantide.store import folder_storage
from quantide.store.folder_storage import FileSink, FolderStorage


@dataclass
class Inode:
    """File: its current content, and its content at the last sync; None before the first."""

    content: bytes = b""
    synced: bytes | None = None


@dataclass
class State:
    """Names of a store: the current ones, and those of each folder at its last sync."""

    names: dict[str, Inode | None] = field(default_factory=dict)  # None: a folder
    synced: dict[str, Inode | None] = field(default_factory=dict)

    def copy(self) -> "State":
        copies: dict[int, Inode] = {}

        def one(inode: Inode | None) -> Inode | None:
            if inode is None:
                return None
            return copies.setdefault(id(inode), Inode(inode.content, inode.synced))

        return State({k: one(v) for k, v in self.names.items()}, {k: one(v) for k, v in self.synced.items()})


@dataclass(frozen=True)
class Crash:
    """Moment at which the power may fail: the batches acknowledged before it, and those begun."""

    state: State
    done: tuple[int, ...]
    begun: tuple[int, ...]
    after: str


class Disk:
    """Recorder of a folder. Only the patched functions are recorded: a durable store uses no others."""

    def __init__(self, root: Path) -> None:
        self.root, self.state, self._lock = str(root), State(), RLock()
        self._inodes: dict[int, Inode] = {}
        self.crashes: list[Crash] = []
        self.done: list[int] = []
        self.begun: list[int] = []

    def note(self, what: str) -> None:
        with self._lock:
            self.crashes.append(Crash(self.state.copy(), tuple(self.done), tuple(self.begun), what))

    def _name(self, path: Any) -> str | None:
        name = os.path.relpath(os.path.abspath(path), self.root)
        return None if name.startswith("..") or "_quantide/log-" in name else name

    def _inode(self, path: str) -> Inode:
        """Return the file behind a path, with its current content."""
        number = os.stat(path).st_ino
        inode = self._inodes.setdefault(number, Inode())
        inode.content = Path(path).read_bytes()
        return inode

    def appeared(self, path: Any, what: str) -> None:
        with self._lock:
            name = self._name(path)
            if name is not None:
                self.state.names[name] = None if os.path.isdir(path) else self._inode(str(path))
                self.note(f"{what} {name}")

    def vanished(self, path: Any, number: int) -> None:
        with self._lock:
            name = self._name(path)
            if name is not None:
                self.state.names.pop(name, None)
                self._inodes.pop(number, None)
                self.note(f"remove {name}")

    def synced(self, path: str) -> None:
        with self._lock:
            name = self._name(path)
            if name is None:
                return
            if not os.path.isdir(path):
                inode = self._inode(path)
                inode.synced = inode.content
            else:
                inside = {n: inode for n, inode in self.state.names.items() if _folder(n) == name}
                removed = [n for n in self.state.synced if _folder(n) == name and n not in inside]
                self.state.synced.update(inside)
                for n in removed:
                    del self.state.synced[n]
            self.note(f"sync {name}")

    def everything_synced(self) -> None:
        with self._lock:
            for inode in self._inodes.values():
                inode.synced = inode.content
            self.state.synced = dict(self.state.names)
            self.note("sync all")


def _folder(name: str) -> str:
    return os.path.dirname(name) or "."


@contextmanager
def recorded(root: Path) -> Iterator[Disk]:
    """Record everything that is done to the disk below a folder, and do it."""
    disk = Disk(root)
    real: dict[str, Callable[..., Any]] = {
        name: getattr(os, name) for name in ("fsync", "link", "rename", "replace", "remove", "mkdir")
    }

    def fsync(handle: int) -> None:
        real["fsync"](handle)
        disk.synced(os.readlink(f"/proc/self/fd/{handle}"))

    def link(source: Any, target: Any) -> None:
        real["link"](source, target)
        disk.appeared(target, "link")

    def moved(name: str) -> Callable[[Any, Any], None]:
        def move(source: Any, target: Any) -> None:
            with disk._lock:
                real[name](source, target)
                old = disk._name(source)
                if old is not None:
                    disk.state.names.pop(old, None)
                disk.appeared(target, name)

        return move

    def remove(path: Any) -> None:
        number = os.stat(path).st_ino if os.stat(path).st_nlink == 1 else 0
        real["remove"](path)
        disk.vanished(path, number)

    def mkdir(path: Any, *rest: Any, **named: Any) -> None:
        real["mkdir"](path, *rest, **named)
        disk.appeared(path, "mkdir")

    class Recorded(FileSink):
        def __init__(self, path: str, checked: bool = True, has_faults: bool = True) -> None:
            super().__init__(path, checked, has_faults)
            disk._inodes.pop(os.stat(path).st_ino, None)  # inode numbers of removed files are reused
            disk.appeared(path, "create")
            self.path = path

        def close(self) -> None:
            super().close()
            disk.appeared(self.path, "write")

    with pytest.MonkeyPatch.context() as patch:
        for name, replacement in {
            "fsync": fsync,
            "link": link,
            "rename": moved("rename"),
            "replace": moved("replace"),
            "remove": remove,
            "mkdir": mkdir,
        }.items():
            patch.setattr(os, name, replacement)
        patch.setattr(folder_storage, "FileSink", Recorded)
        patch.setattr(FolderStorage, "sync_all", lambda storage: disk.everything_synced())
        yield disk


LOST: Mapping[str, Callable[[bytes], bytes]] = {
    "whole": lambda data: data,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
}
KINDS = ("nothing", "names", "all", "any")  # of what was not synced, outlasts the loss


def lay_out(crash: Crash, kind: str, folder: Path, rng: np.random.Generator) -> None:
    """Make a folder as a power loss may leave the store: without unsynced content, with names but no content, with all
    of it, or with any part.
    """
    names = _names(crash.state, kind, rng)
    folder.mkdir(parents=True)
    for name, inode in sorted(names.items()):
        if name == "." or not _is_reachable(name, names):
            continue
        path = folder / name
        if inode is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(_content(inode, kind, rng))


def _names(state: State, kind: str, rng: np.random.Generator) -> dict[str, Inode | None]:
    if kind == "nothing":
        return dict(state.synced)
    if kind in ("names", "all"):
        return dict(state.names)
    out = {}
    for name in {**state.synced, **state.names}:
        before, now = state.synced.get(name, ...), state.names.get(name, ...)
        chosen = now if rng.random() < 0.5 else before
        if chosen is not ...:
            out[name] = chosen
    return out


def _content(inode: Inode, kind: str, rng: np.random.Generator) -> bytes:
    if kind == "all" or inode.synced == inode.content:
        return inode.content
    if inode.synced is not None and (kind == "nothing" or rng.random() < 0.5):
        return inode.synced
    how = rng.choice(list(LOST)[kind != "any" :])
    return LOST[str(how)](inode.content)


def _is_reachable(name: str, names: Mapping[str, Inode | None]) -> bool:
    folder = _folder(name)
    return folder == "." or (folder in names and _is_reachable(folder, names))
