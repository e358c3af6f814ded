"""Checks of the machine: disk, memory, clock, and the limit of open files."""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import quantide
from quantide.config import Config, Limits
from quantide.config.server_config import MEMORY
from quantide.config.storage_options import is_uri
from quantide.doctor.finding import FAILED, OK, WARNING, Finding, format_gigabytes
from quantide.store.file_cache import cache_folder

LOW_SPACE, LOW_SPACE_SHARE = 5e9, 0.1
SPARK_MEMORY = 1.5e9  # a JVM with its default settings, and a worker
SPARE_FILES = 1000  # beside connections: data, logs, the registry
MAX_CLOCK_DIFFERENCE = 5.0
DAY = 86_400.0


def check_disk(config: Config | None = None) -> Iterator[Finding]:
    """Check the disk of the store or, without a configuration, of the current folder.

    For a store in object storage, check the disks of checkpoints, of the cache, and of files that are about to be sent.
    """
    if config is not None and is_uri(config.store):
        yield from check_folder(config.server.state, "set QUANTIDE_STATE to another folder")
        yield from check_folder(cache_folder(), "set QUANTIDE_CACHE to another folder")
        yield from check_folder(tempfile.gettempdir(), "set TMPDIR to another folder")
    else:
        yield from check_folder(config.store if config else os.getcwd(), "set store to another folder")


def check_folder(target: str, alternative: str) -> Iterator[Finding]:
    """Check the free space of a folder, which need not exist yet, and write to it."""
    folder = find_existing_parent(target)
    usage = shutil.disk_usage(folder)
    space = f"{format_gigabytes(usage.free)} of {format_gigabytes(usage.total)} are free for {target}"
    if usage.free < LOW_SPACE or usage.free < LOW_SPACE_SHARE * usage.total:
        yield Finding("disk", WARNING, f"{space}, which is little", "free some space, or set retention for the streams")
    else:
        yield Finding("disk", OK, space)
    try:
        difference = write_and_remove(folder)
    except OSError as error:
        fix = f"let this user (id {os.geteuid()}) write there, or {alternative}"
        yield Finding("disk", FAILED, f"{folder} cannot be written to: {error.strerror}", fix)
        return
    if abs(difference) > MAX_CLOCK_DIFFERENCE:
        text = f"files in {folder} get times that are {difference:+.0f} s from this machine's clock"
        yield Finding("disk", WARNING, text, "set both clocks by the same time server")
    else:
        yield Finding("disk", OK, f"{folder}: a file can be written, synced and renamed")


def find_existing_parent(folder: str) -> str:
    """Return the folder, or its nearest parent that exists."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def write_and_remove(folder: str) -> float:
    """Write, sync, rename and remove a file; return the difference between its time and this clock."""
    first = os.path.join(folder, f".quantide-doctor-{os.getpid()}")
    second = f"{first}-renamed"
    try:
        with open(first, "xb") as file:
            file.write(b"quantide")
            file.flush()
            os.fsync(file.fileno())
        difference = os.stat(first).st_mtime - time.time()
        os.replace(first, second)
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    finally:
        for path in (first, second):
            with suppress(OSError):
                os.remove(path)
    return difference


def check_memory(config: Config | None = None) -> Iterator[Finding]:
    needed = SPARK_MEMORY + (config.server.memory if config else MEMORY)
    available = available_memory()
    text = f"{format_gigabytes(available)} are available"
    if available < needed:
        text += f"; ingestion and a server together take about {format_gigabytes(needed)}"
        yield Finding("memory", WARNING, text, 'end other programs, or set a smaller memory = "500 MB" under [server]')
    else:
        yield Finding("memory", OK, text)


def available_memory() -> int:
    """Return the bytes that a new process may use, of the machine and of its container."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
            with suppress(OSError, ValueError):  # the file does not exist, or contains "max"
                remaining = int(Path(folder, limit).read_text()) - int(Path(folder, used).read_text())
                available = min(available, max(0, remaining))
    return available


def check_open_files(config: Config | None = None) -> Iterator[Finding]:
    """Check the hard limit of open files: a server raises its own soft limit."""
    connections = (config.server.limits if config else Limits()).connections
    needed = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        text = f"a process may open {hard:,} files; a server with {connections:,} connections needs {needed:,}"
        fix = f"as root: ulimit -n {needed} (systemd: LimitNOFILE={needed}); or fewer connections in [server.limits]"
        yield Finding("open files", WARNING, text, fix)
    else:
        limit = "any number of them" if hard == resource.RLIM_INFINITY else f"up to {hard:,}"
        yield Finding("open files", OK, f"a process may open {soft:,} files, and a server {limit}")


def check_clock(_config: Config | None = None) -> Iterator[Finding]:
    """Check that the clock is not older than Quantide's own files; windows and tokens depend on it."""
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < os.stat(quantide.__file__).st_mtime - DAY:
        yield Finding("clock", FAILED, f"{text}, before Quantide was installed", "timedatectl set-ntp true")
    else:
        yield Finding("clock", OK, text)
