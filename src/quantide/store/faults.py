"""Faults on purpose, for tests: with QUANTIDE_FAULT set, a process dies, or fails, at a named point.

`QUANTIDE_FAULT=append.data:kill` ends the process there as kill -9 would; `:full` raises the error of a full disk;
`append.data@3:kill` does so the third time. Without the variable a point does nothing at all.
"""

import errno
import os
import signal

_armed = os.environ.get("QUANTIDE_FAULT", "")
_passed: dict[str, int] = {}


def point(name: str) -> None:
    """A place where a test may want the world to end."""
    if not _armed:
        return
    where, _, what = _armed.partition(":")
    place, _, time = where.partition("@")
    if place != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] == int(time or 1):
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
