"""Another process to measure in, and what a process holds."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.report import Row


def apart() -> ProcessPoolExecutor:
    """One new process: it shares nothing with this one but the disk."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def resident() -> Row:
    """Bytes of this process in memory: its own, and those of files that are mapped, which the system takes back."""
    try:
        text = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return {"own_bytes": None, "mapped_bytes": None}
    fields = {name: content.split() for name, _, content in (line.partition(":") for line in text.splitlines())}
    return {
        name: int(fields[field][0]) * 1024 if field in fields else None
        for name, field in (("own_bytes", "RssAnon"), ("mapped_bytes", "RssFile"))
    }
