"""The machine: its disk, its memory, its clock, and how many files a process may open."""

import os
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import quantide
from quantide.config import Config, Limits
from quantide.config.server import MEMORY
from quantide.doctor.finding import FAILED, OK, WARNING, Finding, gigabytes

LITTLE_SPACE, LITTLE_SHARE = 5e9, 0.1
SPARK_MEMORY = 1.5e9  # a JVM as it is when nobody sets it, and a worker
SPARE_FILES = 1000  # beside connections: data, logs, the registry
CLOCKS_APART = 5.0
DAY = 86_400.0


def check_disk(config: Config | None = None) -> Iterator[Finding]:
    """The disk of the store; without a configuration, of this folder."""
    wanted = config.store if config else os.getcwd()
    folder = nearest(wanted)
    usage = shutil.disk_usage(folder)
    found = f"{gigabytes(usage.free)} of {gigabytes(usage.total)} are free for {wanted}"
    if usage.free < LITTLE_SPACE or usage.free < LITTLE_SHARE * usage.total:
        yield Finding("disk", WARNING, f"{found}, which is little", "free some space, or set retention for the streams")
    else:
        yield Finding("disk", OK, found)
    try:
        apart = write_and_remove(folder)
    except OSError as error:
        fix = f"let this user (id {os.geteuid()}) write there, or set store to another folder"
        yield Finding("disk", FAILED, f"{folder} cannot be written to: {error.strerror}", fix)
        return
    if abs(apart) > CLOCKS_APART:
        told = f"files in {folder} get times that are {apart:+.0f} s from this machine's clock"
        yield Finding("disk", WARNING, told, "set both clocks by the same time server")
    else:
        yield Finding("disk", OK, f"{folder}: a file can be written, synced and renamed")


def nearest(folder: str) -> str:
    """A folder, or what there is of it."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def write_and_remove(folder: str) -> float:
    """Write, sync and rename a file, then remove it; how far its time is from ours."""
    first = os.path.join(folder, f".quantide-doctor-{os.getpid()}")
    second = f"{first}-renamed"
    try:
        with open(first, "xb") as file:
            file.write(b"quantide")
            file.flush()
            os.fsync(file.fileno())
        apart = os.stat(first).st_mtime - time.time()
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
    return apart


def check_memory(config: Config | None = None) -> Iterator[Finding]:
    needed = SPARK_MEMORY + (config.server.memory if config else MEMORY)
    found = available()
    told = f"{gigabytes(found)} can be had"
    if found < needed:
        told += f"; ingestion and a server together take about {gigabytes(needed)}"
        yield Finding("memory", WARNING, told, 'end other programs, or set a smaller memory = "500 MB" under [server]')
    else:
        yield Finding("memory", OK, told)


def available() -> int:
    """Bytes that a new process may have: of the machine, and of the container it runs in."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    found = int(lines["MemAvailable"].split()[0]) * 1024
    for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
            with suppress(OSError, ValueError):  # there is no such file, or it says "max"
                left = int(Path(folder, most).read_text()) - int(Path(folder, used).read_text())
                found = min(found, max(0, left))
    return found


def check_open_files(config: Config | None = None) -> Iterator[Finding]:
    """A server raises its own limit to what it needs, as far as the hard limit goes."""
    connections = (config.server.limits if config else Limits()).connections
    needed = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        told = f"a process may open {hard:,} files; a server with {connections:,} connections needs {needed:,}"
        fix = f"as root: ulimit -n {needed} (systemd: LimitNOFILE={needed}); or fewer connections in [server.limits]"
        yield Finding("open files", WARNING, told, fix)
    else:
        most = "any number of" if hard == resource.RLIM_INFINITY else f"up to {hard:,}"
        yield Finding("open files", OK, f"a process may open {soft:,} files, and a server {most}")


def check_clock(_config: Config | None = None) -> Iterator[Finding]:
    """A clock that stands before the files of Quantide itself is wrong: windows and tokens go by it."""
    now = time.time()
    told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < os.stat(quantide.__file__).st_mtime - DAY:
        yield Finding("clock", FAILED, f"{told}, before Quantide was installed", "timedatectl set-ntp true")
    else:
        yield Finding("clock", OK, told)
