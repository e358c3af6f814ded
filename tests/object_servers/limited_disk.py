"""Disk of limited size: a tmpfs that a test fills, and frees again. Mounting needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = 4 << 30  # bytes of an empty disk; only what is stored takes memory
ATTEMPTS = 20  # to shrink a disk that is written to


class LimitedDisk:
    """Folder on a disk of its own. Without root it is a plain folder, which cannot be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.is_mounted = os.geteuid() == 0 and _mount(["-t", "tmpfs", "-o", _options(SIZE), "quantide", str(folder)])

    def fill(self) -> None:
        """Shrink the disk to the bytes that are stored: every write fails with ENOSPC."""
        assert self.is_mounted
        for _ in range(ATTEMPTS):
            state = os.statvfs(self.folder)
            used = (state.f_blocks - state.f_bfree) * state.f_frsize
            if self._resize(max(used, state.f_frsize)):
                return
        raise AssertionError(f"{self.folder} could not be filled")

    def free(self) -> None:
        """Give the disk its size again."""
        assert self._resize(SIZE)

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
            self.is_mounted = False

    def _resize(self, size: int) -> bool:
        return _mount(["-o", f"remount,{_options(size)}", str(self.folder)])


@contextmanager
def limited_disk(folder: Path) -> Iterator[LimitedDisk]:
    """Mount a disk at a folder for a while."""
    disk = LimitedDisk(folder)
    try:
        yield disk
    finally:
        disk.close()


def _options(size: int) -> str:
    return f"size={size},nr_inodes=0"


def _mount(arguments: list[str]) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0
