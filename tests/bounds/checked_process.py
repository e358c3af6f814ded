"""Processes whose kernels check every index: one that is out of bounds, or negative, raises IndexError."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHES = ROOT / "build" / "bounds"
SOURCES = [
    *sorted((ROOT / "src" / "quantide" / "kernels").glob("*.py")),
    Path(__file__).with_name("negative_indexes.py"),
]


def environment() -> dict[str, str]:
    """Environment of such a process. Machine code is cached until a kernel changes."""
    digest = hashlib.sha256(sys.version.encode())
    for source in SOURCES:
        digest.update(str(source.relative_to(ROOT)).encode() + source.read_bytes())  # machine code names its module
    cache = CACHES / digest.hexdigest()[:16]
    for old in CACHES.glob("*"):
        if old != cache:
            shutil.rmtree(old, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    return os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}


def command(*arguments: str) -> list[str]:
    """Command that runs pytest in such a process, with these arguments."""
    return [sys.executable, "-m", "pytest", "-p", "tests.bounds.negative_indexes", *arguments]
